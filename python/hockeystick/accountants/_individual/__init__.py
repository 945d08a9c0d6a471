"""Individual accounting: the privacy of every example on its own, from the norms of its gradients.

- `accountant`: the class, which keeps one state and hands it to the operations below.
- `state`: everything that it knows, in one object.
- `recording`: new norms, and steps.
- `deferred`: steps that are recorded and not yet in the accounts, which take many equal steps at once.
- `answers`: epsilon of each example.
- `groups`: epsilon of several examples together, such as those of one person.
- `certifying`: certificates of single examples, for the independent checker.
- `saving`, `merging`: states in JSON, and accountants of two shards as one.
- `accounts`, `norm_history`: what a state is made of; `histories`: exact answers from a history of norms.
- `filter`: privacy filters, which stop examples before a budget is exceeded.
"""

from hockeystick.accountants._individual.accountant import IndividualAccountant
from hockeystick.accountants._individual.filter import IndividualFilter
from hockeystick.accountants._individual.state import DEFAULT_ORDERS

__all__ = ["DEFAULT_ORDERS", "IndividualAccountant", "IndividualFilter"]


def __dir__() -> list[str]:
    return list(__all__)
