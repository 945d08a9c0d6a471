"""Shuffling, batch clipping and groups, against an adversary who knows every batch (SHUFFLE).

An epoch of Algorithm 1 of SHUFFLE ("Generalizing DP-SGD with Shuffling and Batch Clipping") has N // b
rounds of b records each, cut from a fresh permutation (`Shuffle`) or drawn afresh (`WithoutReplacement`). A
batch consists of clipped units: of one record each (individual clipping), of all of them (batch clipping),
or of b / m (mixed).

- `membership_law`: the law of c², the sum over all rounds of the squared number of units that hold a member.
- `tradeoff`: the trade-off function of the run, the mixture of G_{c/σ} over that law.
- `upper_bound`, `lower_bound`: what one split of the law gives.
- `filtered`, `thinned_law`: clipped units that are kept with probability 1/2 (Appendix D).
- `closed_form`: where a single G_μ is a guarantee.
- `table`: Tables 1 and 2 of SHUFFLE as data, with what is true where they are wrong.

All of them assume a **strong adversary, who knows batch membership**: which units hold members of the
group, in every round. Who knows less learns less, so the guarantees hold against every other adversary too,
but they are far weaker than what `get_epsilon` says of subsampled batches (SHUFFLE, appendix G).

Noise is that of Opacus, ``noise_multiplier`` clipping norms C; SHUFFLE adds N(0, (2Cσ)²), so its σ is
``noise_multiplier / 2``. Neighbours differ in ``group_size`` records that are replaced.
"""

from hockeystick.shuffle._filtering import FilteredRun, filtered, thinned_law
from hockeystick.shuffle._guarantee import closed_form, lower_bound, tradeoff, upper_bound
from hockeystick.shuffle._membership import MembershipLaw, membership_law
from hockeystick.shuffle._patterns import PatternLaw
from hockeystick.shuffle._table import TableRow, table

__all__ = [
    "FilteredRun",
    "MembershipLaw",
    "PatternLaw",
    "TableRow",
    "closed_form",
    "filtered",
    "lower_bound",
    "membership_law",
    "table",
    "thinned_law",
    "tradeoff",
    "upper_bound",
]


def __dir__() -> list[str]:
    return list(__all__)
