"""Write data/pairs.csv: slow, high-precision privacy curves of pairs that data/privacy_curves.csv lacks.

    python tests/make_pairs.py            # writes the table, some minutes
    python tests/make_pairs.py --check    # only holds the routes against each other

Nothing of the library is used, only mpmath and the definitions. Five routes, each with its own check:

threshold    One step. The loss is monotone in the noise, so {loss > epsilon} is a half-line and delta a
             difference of two distribution functions.
line         Any number of steps of smooth noise. One step's loss is replaced by the nodes of a quadrature
             rule, its transform is raised to the number of steps, and Laplace's inversion formula is summed
             along Re z = c. The sum is done twice with different c, different nodes and a different spacing:
             the integral does not depend on any of the three, so the digits in which both agree are right.
two steps    A one-dimensional integral over one step's curve, with two numbers of nodes.
counts       Replacing a group under fixed batches: the law of the total squared distance is a polynomial's
             power, and given that distance the loss is a single Gaussian's.
panels       Laplace noise and one record. The composed curve is analytic between equally spaced kinks and
             is kept there by its values at Chebyshev nodes; adding a step is a fixed linear map. Done with
             two degrees.
"""

import argparse
import csv
import sys
import time
from pathlib import Path

import mpmath as mp
from pair_inversion import DIGITS, by_grid, by_line, delta_of, epsilon_for
from pair_losses import (
    FixedReplaceOne,
    GaussianMixture,
    LaplaceMixture,
    PoissonReplace,
    binomial,
    hypergeometric,
    subsets,
)

TABLE = Path(__file__).parent / "data" / "pairs.csv"

HEADER = """\
# delta(epsilon) of composed pairs that privacy_curves.csv lacks; written by make_pairs.py (mpmath).
# parameters: name=value separated by spaces, lists by ';'. N(m) is N(m, sigma^2), k the group size.
# direction: remove (mixture, noise); add (noise, mixture); replace, the one curve that holds for both orders.
# digits: how many digits of delta two independent evaluations agree in.
# pair:
#   poisson             noise N(0); mixture of N(j), j ~ Binomial(k, q)
#   poisson-replace     P = (1-q) N(0) + q N(-1), Q = (1-q) N(0) + q N(1)
#   fixed-replace-one   g = b/n; for epsilon >= 0 the curve of ((1-g) N(2) + g N(0), N(2)), for epsilon < 0
#                       that of (N(0), (1-g) N(0) + g N(2)); joined at 0 into one loss law with an atom
#                       at 0, and then composed
#   fixed-replace-group loss law sum_j h_j [loss of N(0) against N(2j)], h = Hypergeometric(n, k, b)
#   aligned             noise N(0); mixture over the subsets S of the group: weight the product of the rates
#                       in S and of 1 - rate outside S, shift the sum of the norms in S
#   orthogonal          one coordinate a member, noise N(0) in each; member i's is N(norm_i) with probability
#                       rate_i: the product of the members' pairs
#   poisson-orthogonal  the same for k members of norm 1 and rate q
#   laplace             noise Laplace(0, scale b); mixture of Laplace(j, b), j ~ Binomial(k, q)
#   segments            'poisson' pairs composed; separated by ' | ', each with its own steps
"""


# ---- counts: replacing a group under fixed batches ----------------------------------------------


def gaussian_delta(epsilon, distance):
    if distance == 0:
        return max(mp.mpf(0), 1 - mp.exp(epsilon))
    half, ratio = distance / 2, epsilon / distance
    return mp.ncdf(half - ratio) - mp.exp(epsilon) * mp.ncdf(-half - ratio)


def replace_group_delta(epsilon, sigma, batch, population, size, steps):
    """Sum over n of P(sum of squared counts = n) times the curve at distance 2 sqrt(n) / sigma."""
    epsilon, sigma = mp.mpf(epsilon), mp.mpf(sigma)
    generating = {j * j: h for j, h in enumerate(hypergeometric(population, size, batch)) if h > 0}
    least, leading = min(generating.items())
    rest = {square - least: h / leading for square, h in generating.items() if square > least}
    # Coefficients of (1 + r(x))^T from the differential equation (1 + r) p' = T r' p.
    power = [mp.mpf(1)]
    for n in range(1, steps * max(rest, default=0) + 1):
        power.append(mp.fsum((steps * i - n + i) * a * power[n - i] for i, a in rest.items() if i <= n) / n)
    return leading**steps * mp.fsum(
        p * gaussian_delta(epsilon, 2 * mp.sqrt(least * steps + n) / sigma)
        for n, p in enumerate(power)
        if p > 0
    )


# ---- Laplace noise ------------------------------------------------------------------------------


def laplace_delta(scale, size, rate, direction, steps, epsilon):
    pair, epsilon = LaplaceMixture(scale, size, rate, direction), mp.mpf(epsilon)
    if epsilon >= steps * max(loss for _, loss in pair.atoms):
        return mp.mpf(0)
    if steps == 1:
        return pair.one_step(epsilon)
    if steps == 2:
        return pair.two_steps(epsilon)
    values = [pair.by_panels(steps, epsilon, degree) for degree in (52, 68)]
    assert abs(values[0] - values[1]) <= mp.mpf(10) ** -DIGITS * values[0], values
    return values[1]


# ---- the rows -----------------------------------------------------------------------------------


def read(parameters):
    """'sigma=1 norms=1;0.5' -> dict of strings, lists split."""
    pairs = (item.split("=") for item in parameters.split())
    return {name: value.split(";") if ";" in value else value for name, value in pairs}


def as_list(value):
    return value if isinstance(value, list) else [value]


def steps_of(pair, parameters, steps, direction):
    """[(step, count)] of the pairs that the line handles."""
    if pair == "segments":
        parts = [(part, int(read(part)["steps"])) for part in parameters.split(" | ")]
        return [one for part, count in parts for one in steps_of("poisson", part, count, direction)]
    p = read(parameters)
    if pair == "poisson":
        size = int(p["k"])
        return [
            (GaussianMixture(p["sigma"], binomial(size, p["q"]), list(range(size + 1)), direction), steps)
        ]
    if pair == "poisson-orthogonal":
        one = GaussianMixture(p["sigma"], binomial(1, p["q"]), [0, 1], direction)
        return [(one, int(p["k"]) * steps)]
    if pair == "orthogonal":
        members = zip(as_list(p["rates"]), as_list(p["norms"]), strict=True)
        laws = [subsets([rate], [norm], mp.fsum) for rate, norm in members]
        return [(GaussianMixture(p["sigma"], *law, direction), steps) for law in laws]
    if pair == "aligned":
        weights, shifts = subsets(as_list(p["rates"]), as_list(p["norms"]), mp.fsum)
        return [(GaussianMixture(p["sigma"], weights, shifts, direction), steps)]
    if pair == "poisson-replace":
        return [(PoissonReplace(p["sigma"], p["q"]), steps)]
    assert pair == "fixed-replace-one", pair
    return [(FixedReplaceOne(p["sigma"], int(p["b"]), int(p["n"])), steps)]


def evaluate(pair, parameters, steps, direction, epsilon):
    p = read(parameters) if pair != "segments" else {}
    if pair == "laplace":
        return laplace_delta(p["b"], int(p["k"]), p["q"], direction, steps, epsilon)
    if pair == "fixed-replace-group":
        return replace_group_delta(epsilon, p["sigma"], int(p["b"]), int(p["n"]), int(p["k"]), steps)
    return delta_of(steps_of(pair, parameters, steps, direction), epsilon)


# name, pair, parameters, steps, directions, epsilons: numbers, or "1e-8" for one whose delta is near that.
PLAN = [
    ("replace", "poisson-replace", "sigma=1 q=0.01", 1, "replace", [0.01, 0.5, 3]),
    ("replace", "poisson-replace", "sigma=2 q=0.05", 1, "replace", [0.1, 1]),
    ("replace", "poisson-replace", "sigma=0.8 q=0.2", 1, "replace", [0.2, 4]),
    ("replace", "poisson-replace", "sigma=1 q=0.01", 100, "replace", ["1e-5", "1e-10"]),
    ("replace", "poisson-replace", "sigma=1 q=0.01", 1000, "replace", ["1e-3", "1e-6", "1e-20"]),
    ("replace", "poisson-replace", "sigma=2 q=0.05", 100, "replace", ["1e-6"]),
    ("replace", "poisson-replace", "sigma=2 q=0.05", 1000, "replace", ["1e-8", "1e-30"]),
    ("replace", "poisson-replace", "sigma=0.8 q=0.2", 100, "replace", ["1e-6"]),
    ("replace", "poisson-replace", "sigma=0.8 q=0.2", 1000, "replace", ["1e-12"]),
    ("batch", "fixed-replace-one", "sigma=1 b=100 n=1000", 1, "replace", [0, 0.05, 1, 5]),
    ("batch", "fixed-replace-one", "sigma=2 b=256 n=60000", 1, "replace", [0.001, 0.02]),
    ("batch", "fixed-replace-one", "sigma=1 b=100 n=1000", 500, "replace", ["1e-4", "1e-8"]),
    ("batch", "fixed-replace-one", "sigma=1 b=100 n=1000", 2000, "replace", ["1e-6", "1e-25"]),
    ("batch", "fixed-replace-one", "sigma=2 b=256 n=60000", 500, "replace", ["1e-5", "1e-12"]),
    ("batch", "fixed-replace-one", "sigma=2 b=256 n=60000", 2000, "replace", ["1e-5", "1e-9"]),
    ("full batch", "fixed-replace-one", "sigma=20 b=50 n=50", 100, "replace", [3, 6]),
    ("batch group", "fixed-replace-group", "sigma=2 b=100 n=1000 k=2", 1, "replace", [0.5, 3]),
    ("batch group", "fixed-replace-group", "sigma=4 b=256 n=60000 k=4", 1, "replace", [0.1, 4]),
    ("batch group", "fixed-replace-group", "sigma=4 b=100 n=1000 k=2", 100, "replace", [5, 12]),
    ("batch group", "fixed-replace-group", "sigma=4 b=256 n=60000 k=4", 100, "replace", [1, 3]),
    ("batch group", "fixed-replace-group", "sigma=4 b=256 n=60000 k=2", 1000, "replace", [4, 10, 20]),
    ("batch group", "fixed-replace-group", "sigma=8 b=100 n=1000 k=4", 1000, "replace", [30, 60]),
    ("full batch", "fixed-replace-group", "sigma=60 b=3 n=3 k=3", 100, "replace", [3]),
    ("norms", "aligned", "sigma=1 rates=0.02;0.02;0.02 norms=1;0.5;0.25", 1, "both", [0.02, 0.5]),
    ("norms", "aligned", "sigma=1 rates=0.02;0.02;0.02 norms=1;0.5;0.25", 500, "both", ["1e-5", "1e-15"]),
    ("norms", "aligned", "sigma=2 rates=0.1;0.01;0.05;0.3 norms=0.3;1;0.7;0.1", 200, "both", ["1e-7"]),
    ("norms", "orthogonal", "sigma=1 rates=0.02;0.02;0.02 norms=1;0.5;0.25", 500, "both", ["1e-6"]),
    ("orthogonal", "poisson-orthogonal", "sigma=1 q=0.01 k=2", 1, "both", [0.015, 1]),
    ("orthogonal", "poisson-orthogonal", "sigma=1 q=0.01 k=8", 1000, "both", ["1e-5", "1e-20"]),
    ("laplace", "laplace", "b=1 q=0.1 k=1", 1, "both", [0, 0.05, 0.1]),
    ("laplace", "laplace", "b=2 q=0.05 k=3", 1, "both", [0.02, 0.05]),
    ("laplace", "laplace", "b=1 q=0.1 k=1", 2, "both", [0.1, 0.15, 0.19]),
    ("laplace", "laplace", "b=2 q=0.05 k=3", 2, "both", [0.05, 0.1, 0.12]),
    ("laplace", "laplace", "b=0.5 q=0.3 k=3", 2, "both", [0.5, 1.6]),
    ("laplace", "laplace", "b=1 q=0.1 k=1", 20, "both", [0.3, 0.8, 1.2, 2.5]),
    ("laplace", "laplace", "b=0.7 q=0.05 k=1", 20, "both", [0.2, 0.6, 2]),
    (
        "two segments",
        "segments",
        "sigma=1 q=0.01 k=4 steps=300 | sigma=2 q=0.02 k=4 steps=500",
        800,
        "both",
        ["1e-4", "1e-8", "1e-30"],
    ),
    (
        "three segments",
        "segments",
        "sigma=3 q=0.1 k=2 steps=40 | sigma=0.7 q=0.002 k=2 steps=1000 | sigma=10 q=1 k=2 steps=3",
        1043,
        "both",
        ["1e-6"],
    ),
    ("two steps", "poisson", "sigma=1 q=0.1 k=2", 2, "both", [0.1, 0.3, 5]),
    ("two steps", "poisson", "sigma=0.5 q=0.01 k=4", 2, "both", [0.01, 8]),
    ("two steps", "poisson-replace", "sigma=1 q=0.1", 2, "replace", [0.2]),
    ("tiny rate", "poisson", "sigma=4 q=0.00033 k=1", 10_000, "both", [0.03, 0.0686]),
    ("few steps", "poisson", "sigma=1 q=0.2 k=1", 10, "remove", ["1e-5", "1e-9"]),
    ("small sigma", "poisson", "sigma=0.1 q=0.1 k=1", 500, "remove", ["1e-5", "1e-15"]),
    ("epsilon 50", "poisson", "sigma=1 q=0.05 k=2", 2000, "both", [50]),
    ("epsilon 200", "poisson", "sigma=0.5 q=0.1 k=1", 1500, "remove", [200]),
    ("epsilon 200", "poisson", "sigma=0.6 q=0.3 k=1", 1200, "add", [200]),
    ("epsilon 1000", "poisson", "sigma=0.5 q=0.2 k=1", 2000, "remove", [800, 1000]),
    ("epsilon 1000", "poisson", "sigma=2 q=0.1 k=8", 12_000, "add", [1000]),
    ("million steps", "poisson", "sigma=4 q=0.001 k=8", 1_000_000, "both", ["1e-6", "1e-20"]),
    ("billion steps", "poisson", "sigma=100 q=0.001 k=1", 1_000_000_000, "both", ["1e-5", "1e-25"]),
    ("billion steps", "poisson", "sigma=40 q=0.00002 k=16", 1_000_000_000, "both", ["1e-10"]),
    ("large group", "poisson", "sigma=20 q=0.001 k=100", 1000, "both", [0.6]),
    ("full batch", "poisson", "sigma=30 q=1 k=4", 200, "both", ["1e-6"]),
]


def epsilons_of(pair, parameters, steps, direction, wanted):
    for value in wanted:
        if isinstance(value, str):
            log10_delta = mp.log10(mp.mpf(value))
            yield epsilon_for(steps_of(pair, parameters, steps, direction), log10_delta)
        else:
            yield mp.mpf(str(value))


def table():
    for name, pair, parameters, steps, directions, wanted in PLAN:
        for direction in ("add", "remove") if directions == "both" else (directions,):
            for epsilon in epsilons_of(pair, parameters, steps, direction, wanted):
                start = time.perf_counter()
                delta = evaluate(pair, parameters, steps, direction, epsilon)
                print(
                    f"{name}: {parameters} T={steps} {direction} epsilon={mp.nstr(epsilon, 7)} "
                    f"delta={mp.nstr(delta, 17)} ({time.perf_counter() - start:.1f} s)",
                    file=sys.stderr,
                    flush=True,
                )
                if delta == 0:
                    continue  # "add" beyond the largest possible loss: nothing to compare digits of
                yield (
                    name,
                    pair,
                    parameters,
                    steps,
                    direction,
                    mp.nstr(epsilon, 17),
                    mp.nstr(delta, 17),
                    DIGITS,
                )


def check():
    """Routes that share nothing must agree: a one-dimensional integral, the line, counts and panels."""

    def same(a, b, digits=DIGITS - 1):
        assert abs(a - b) < mp.mpf(10) ** -digits * abs(b), (mp.nstr(a, 20), mp.nstr(b, 20))

    one_record = GaussianMixture(1, binomial(1, "0.01"), [0, 1], "remove")
    same(by_line([(one_record, 1000)], "2.53773"), mp.mpf("3.6181786803872183e-8"))  # privacy_curves.csv
    # E[e^(z loss)] is z (z + 1) times the integral of e^(z epsilon) delta(epsilon): nodes against thresholds.
    halves = GaussianMixture(1, *subsets(["0.3", "0.2"], ["1", "0.5"], mp.fsum), "add")
    z = mp.mpf(2)
    for step in (PoissonReplace("0.8", "0.2"), halves, one_record, FixedReplaceOne(1, 100, 1000)):
        moment = mp.fsum(mp.exp(m + z * loss) for m, loss in step.law(z, 1))
        breaks = [-40, -8, -2, mp.log("0.99"), mp.log("0.9"), 0, -mp.log("0.56"), 1, 2, 4, 8, 16, 32]
        with mp.workdps(25):
            integral = mp.quad(lambda e, step=step: mp.exp(z * e) * step.one_step(e), sorted(breaks))
        same(moment, z * (z + 1) * integral, digits=11)
    # The line against masses on a grid, convolved in double precision.
    for step, steps in (
        (PoissonReplace(2, "0.05"), 100),
        (FixedReplaceOne(2, 100, 1000), 100),
        (GaussianMixture(2, *subsets(["0.1", "0.05"], ["0.3", "1"], mp.fsum), "add"), 200),
    ):
        epsilon = epsilon_for([(step, steps)], -4)
        same(by_line([(step, steps)], epsilon), mp.mpf(by_grid(step, steps, float(epsilon))), digits=5)
    # Replacing a group: the same transform in closed form, a mixture of exponentials of z (z + 1).
    spread = hypergeometric(1000, 2, 500)
    moments = [(h, (2 * mp.mpf(j) / 3) ** 2) for j, h in enumerate(spread)]

    def integrand(y):
        z = mp.mpc(2, y)
        one = mp.fsum(h * mp.exp(z * (z + 1) * d / 2) for h, d in moments)
        return ((one**20 - moments[0][0] ** 20) * mp.exp(-z * 8) / (z * (z + 1))).real

    line = mp.quad(integrand, [0, 1, 2, 4, 8, 16, 32]) / mp.pi
    same(replace_group_delta(8, 3, 500, 1000, 2, 20), line)
    # Laplace noise: panels against the closed form and the two-step integral.
    for direction in ("add", "remove"):
        pair = LaplaceMixture(1, 1, "0.1", direction)
        for steps, exact in ((1, pair.one_step), (2, pair.two_steps)):
            epsilon = steps * mp.mpf("0.04")
            same(pair.by_panels(steps, epsilon, 36), exact(epsilon))
    # The joined law is a probability, and its transform at -1 is one.
    for step in (FixedReplaceOne(1, 100, 1000), FixedReplaceOne(2, 256, 60000)):
        law = step.law(mp.mpf(0), 1)
        same(mp.fsum(mp.exp(m) for m, _ in law), mp.mpf(1), digits=25)
        same(mp.fsum(mp.exp(m - loss) for m, loss in law), mp.mpf(1), digits=25)
        at = mp.mpf("0.05")
        curve = mp.fsum(mp.exp(m) * max(0, 1 - mp.exp(at - loss)) for m, loss in law)
        same(curve, step.one_step(at), digits=2)
    print("the routes agree")


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--check", action="store_true", help="only hold the routes against each other")
    if parser.parse_args().check:
        check()
        return
    rows = list(table())
    with TABLE.open("w", encoding="utf-8", newline="") as file:
        file.write(HEADER)
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["name", "pair", "parameters", "steps", "direction", "epsilon", "delta", "digits"])
        writer.writerows(rows)


if __name__ == "__main__":
    main()
