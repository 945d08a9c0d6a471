"""Print how much noise RGP's four mechanisms need by the black box, by its bound, and exactly."""

import hockeystick as hs

MECHANISMS = {
    "gaussian": ("Gaussian, noise multiplier", 500, 1.0),
    "laplace": ("Laplace, scale", 500, 1.0),
    "skellam": ("Skellam, Poisson rate (half the variance)", 500, 0.5),
    "randomized_response": ("randomised response, p", 1, 1.0),
}
"""Name, number of steps, and the factor from the library's parameter to the paper's."""


def main() -> None:
    """Print the table."""
    print(
        "16 records, sample rate 0.03, 500 steps (randomised response: 1), Rényi divergence of order 4 <= 1\n"
    )
    print(f"{'':<42}{'black box':>11}{'RGP':>11}{'exact':>11}")
    for family, (name, steps, factor) in MECHANISMS.items():
        found = [
            factor
            * hs.renyi.calibrate(
                family, order=4, tau=1, sample_rate=0.03, steps=steps, group_size=16, bound=bound
            )
            for bound in ("black_box", "jensen", "exact")
        ]
        print(f"{name:<42}" + "".join(f"{value:>11.5g}" for value in found))


if __name__ == "__main__":
    main()
