"""Print how much noise RGP's four mechanisms need by the black box, by its bound, and exactly."""

import hockeystick as hs

MECHANISMS = {
    hs.Gaussian: ("Gaussian, noise multiplier", 500, 1.0),
    hs.Laplace: ("Laplace, scale", 500, 1.0),
    hs.Skellam: ("Skellam, Poisson rate (half the variance)", 500, 0.5),
    hs.RandomizedResponse: ("randomised response, p", 1, 1.0),
}
"""Mechanism: name, number of steps, and the factor from the library's parameter to the paper's."""


def main() -> None:
    """Print the table."""
    print(
        "16 records, sample rate 0.03, 500 steps (randomised response: 1), Rényi divergence of order 4 <= 1\n"
    )
    print(f"{'':<42}{'black box':>11}{'RGP':>11}{'exact':>11}")
    for mechanism, (name, steps, factor) in MECHANISMS.items():
        found = [
            factor
            * hs.renyi.calibrate(
                mechanism, order=4, tau=1, sample_rate=0.03, steps=steps, group_size=16, bound=bound
            )
            for bound in ("black_box", "jensen", "exact")
        ]
        print(f"{name:<42}" + "".join(f"{value:>11.5g}" for value in found))


if __name__ == "__main__":
    main()
