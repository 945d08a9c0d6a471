"""Speed of ``hockeystick.renyi`` beside the same formulas in NumPy and SciPy, as a Markdown table.

The peer is what one writes from the paper: the sum of Theorem 3.1 with ``gammaln`` and ``logsumexp``,
vectorised over orders and counts; the exact divergence by ``scipy.integrate.quad``; roots by ``brentq``.
One thread, processor time, calls in turns in one process.
"""

import argparse
from collections.abc import Callable
from functools import partial

import numpy as np
from scipy.integrate import quad
from scipy.optimize import brentq
from scipy.special import gammaln, logsumexp
from scipy.stats import norm

import hockeystick as hs
from benches.compare.accounting import measure
from benches.compare.machine import describe_machine
from benches.compare.monte_carlo import Array
from hockeystick import kernels
from hockeystick._vocabulary.mechanisms import Mechanism

SAMPLE_RATE, STEPS, DELTA = 0.03, 500, 1e-5
ORDERS = np.arange(2.0, 101.0)
SIZES = (16, 32, 64, 128, 256)
TOLERANCE = 1e-9
CLASSES: dict[str, type[Mechanism]] = {
    "gaussian": hs.Gaussian,
    "laplace": hs.Laplace,
    "skellam": hs.Skellam,
    "randomized_response": hs.RandomizedResponse,
}

FAMILIES = {"gaussian": 500, "laplace": 500, "skellam": 500, "randomized_response": 1}
"""Steps of a panel of RGP's Figure 2."""


def log_binomial(group_size: int) -> Array:
    """Logarithms of the binomial weights."""
    k = np.arange(group_size + 1.0)
    choose = gammaln(group_size + 1) - gammaln(k + 1) - gammaln(group_size - k + 1)
    weights: Array = choose + k * np.log(SAMPLE_RATE) + (group_size - k) * np.log1p(-SAMPLE_RATE)
    return weights


def numpy_jensen(orders: Array, noise_multiplier: float, group_size: int) -> Array:
    """RGP, Theorem 4.1."""
    k = np.arange(group_size + 1.0)[:, None]
    exponents = (orders - 1.0) * orders * k**2 / (2 * noise_multiplier**2)
    moments: Array = logsumexp(log_binomial(group_size)[:, None] + exponents, axis=0) / (orders - 1.0)
    return moments


def scipy_exact(order: float, noise_multiplier: float, group_size: int) -> float:
    """D(MoG || N(0)) by quadrature."""
    log_weights, k = log_binomial(group_size), np.arange(group_size + 1.0)

    def integrand(x: float) -> float:
        log_ratio = logsumexp(log_weights + (k * x - k**2 / 2) / noise_multiplier**2)
        return float(np.exp(order * log_ratio + norm.logpdf(x, scale=noise_multiplier)))

    reach = 12 * noise_multiplier
    moment, _ = quad(integrand, -reach, reach + order * group_size, limit=200)
    return float(np.log(moment) / (order - 1))


def our_epsilon() -> float:
    """Epsilon of RGP's setting by Theorem 3.1, over the orders 2 to 100."""
    rdp = hs.renyi.group_rdp(
        hs.Gaussian(60.0), ORDERS, sample_rate=SAMPLE_RATE, group_size=64, bound="jensen"
    )
    return float(kernels.rdp_to_epsilon(ORDERS, STEPS * rdp, DELTA))


def numpy_epsilon() -> float:
    """Compute the same in NumPy."""
    rdp = STEPS * numpy_jensen(ORDERS, 60.0, 64)
    gains = np.log1p(-1 / ORDERS) - (np.log(DELTA) + np.log(ORDERS)) / (ORDERS - 1)
    return float(np.min(rdp + gains))


def our_noise(family: str, bound: str) -> Array:
    """Noise for (m, 4, 1)-RGP at every size."""
    found = hs.renyi.calibrate(
        CLASSES[family],
        order=4,
        tau=1,
        sample_rate=SAMPLE_RATE,
        steps=FAMILIES[family],
        group_size=SIZES,
        bound=bound,
    )
    return np.asarray(found)


def our_panel(family: str) -> Array:
    """One panel of Figure 2: every size, three bounds."""
    return np.array([our_noise(family, bound) for bound in ("black_box", "jensen", "exact")])


def roots(divergence: Callable[[float, int], float]) -> Array:
    """Noise multipliers at which 500 steps have a divergence of 1."""
    return np.array(
        [
            brentq(lambda s, m=m: STEPS * divergence(s, m) - 1.0, 1.0 + m / 4, 4.0 * m, rtol=TOLERANCE)
            for m in SIZES
        ]
    )


def peer_jensen() -> Array:
    """Noise multipliers by Theorem 4.1 in NumPy."""
    return roots(lambda sigma, m: float(numpy_jensen(np.array([4.0]), sigma, m)[0]))


def peer_exact() -> Array:
    """Noise multipliers by quadrature; of the larger direction, which is "remove" here."""
    return roots(lambda sigma, m: scipy_exact(4.0, sigma, m))


def compare(name: str, ours: Callable[[], object], peer: Callable[[], object]) -> None:
    """Print one row, and check that both have one answer."""
    fast, found = measure(ours)
    slow, expected = measure(peer)
    np.testing.assert_allclose(np.asarray(found), np.asarray(expected), rtol=1e-7)
    times = f"{1e3 * fast.median:.3g} ms | {1e3 * slow.median:.3g} ms"
    print(f"| {name} | {times} | {slow.median / fast.median:.2g} |")


def main() -> None:
    """Print the tables."""
    print("| question | hockeystick | NumPy and SciPy | ratio |")
    print("| --- | ---: | ---: | ---: |")
    compare("ε of m 64, q 0.03, σ 60, T 500 by Theorem 3.1, orders 2 to 100", our_epsilon, numpy_epsilon)
    compare("σ at 5 group sizes by Theorem 3.1", lambda: our_noise("gaussian", "jensen"), peer_jensen)
    compare("σ at 5 group sizes by the exact divergence", lambda: our_noise("gaussian", "exact"), peer_exact)
    print("\nA panel of RGP's Figure 2 (5 group sizes, 3 bounds, roots to 1e-9):\n")
    print("| mechanism | median | shortest |")
    print("| --- | ---: | ---: |")
    for family in FAMILIES:
        timing, _ = measure(partial(our_panel, family))
        print(f"| {family} | {1e3 * timing.median:.3g} ms | {1e3 * timing.shortest:.3g} ms |")


if __name__ == "__main__":
    argparse.ArgumentParser(description=__doc__).parse_args()
    print(describe_machine(), "\n")
    main()
