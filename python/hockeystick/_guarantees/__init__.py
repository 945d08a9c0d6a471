"""Guarantees, however they are known, as explanations, pictures and reports ask about them.

- `recorded_run`: steps in their order, and whose privacy they are about.
- `guarantee`: one interface to a run with its exact curve, a trade-off function and an accountant.
- `proven`: a run whose epsilon at one delta an independent checker has proven.
- `attacks`: error rates of attacks, from a privacy curve.
- `comparison`: the same noise and steps under every sampling scheme and neighbouring relation.
- `wording`: what neighbouring relations are called, and what is to be disclosed with a guarantee.
"""
