"""Pictures, with Matplotlib. Importing this does not import it.

- `privacy_curve`: delta against epsilon, with the lower bound.
- `epsilon_by_group_size`: what a run guarantees to groups.
- `tradeoff_curve`: the error rates of attacks.
- `schemes`: the same run with batches drawn in other ways.
- `budget`: epsilon as the steps go on.
- `individual_histogram`: how the epsilons of examples are distributed.
- `dark`: all of them for a dark background.
- `use_style`: their style for your own pictures too.

Every function draws into `ax`, or into a new figure that fits one column of a paper, and returns the axes.
With ``title=True`` the picture states the run.
"""

from hockeystick.plot._budget import budget
from hockeystick.plot._comparisons import epsilon_by_group_size, schemes
from hockeystick.plot._curves import privacy_curve, tradeoff_curve
from hockeystick.plot._individual import individual_histogram
from hockeystick.plot._style import dark, use_style

__all__ = [
    "budget",
    "dark",
    "epsilon_by_group_size",
    "individual_histogram",
    "privacy_curve",
    "schemes",
    "tradeoff_curve",
    "use_style",
]


def __dir__() -> list[str]:
    return list(__all__)
