"""Run every benchmark of this folder."""

from benches.compare import accounting, batches, correlated, import_cost, individual, monte_carlo, renyi
from benches.compare.machine import describe_machine

print(describe_machine())
print()
monte_carlo.main()
print()
accounting.main()
print()
renyi.main()
print()
correlated.main()
print()
individual.main([])
print()
import_cost.main([])
print(flush=True)
batches.main()  # goes on as a process of its own, with one thread
