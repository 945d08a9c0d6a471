"""Check, where nothing but NumPy is installed, that what needs an extra says which one.

usage: python scripts/check_extras.py
"""

import sys
from collections.abc import Callable

import hockeystick as hs
import hockeystick.cli

RUN = hs.privacy_curve(noise_multiplier=1.0, sample_rate=0.01, steps=1000)
ASKING: dict[str, Callable[[], object]] = {
    "cli": hockeystick.cli.main,
    "dp-accounting": lambda: hs.dp_accounting.ExactAccountant,
    "opacus": lambda: hs.opacus.IndividualClippingOptimizer,
    "plot": lambda: hs.plot.individual_histogram([0.1, 0.2], delta=1e-5),
    "verify": lambda: RUN.certify(delta=1e-5).verify(),
    "release": lambda: hs.release.mean([0.1, 0.2], epsilon=1.0, upper=1.0),
}


def main() -> int:
    """Ask for each; return the exit status."""
    wrong = 0
    for extra, ask in ASKING.items():
        wanted = f'pip install "hockeystick[{extra}]"'
        try:
            ask()
        except (ImportError, SystemExit) as error:
            if wanted in str(error):
                continue
            said = str(error)
        else:
            said = "nothing"
        wrong += 1
        print(f"the extra {extra} is missing: expected {wanted}, but it says: {said}", file=sys.stderr)
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
