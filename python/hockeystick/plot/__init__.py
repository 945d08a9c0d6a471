"""Pictures, with Matplotlib. Importing this does not import it.

- `individual_histogram`: how the epsilons of examples are distributed.
"""

from hockeystick.plot.individual import individual_histogram

__all__ = ["individual_histogram"]
