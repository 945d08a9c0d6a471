"""Delta of one step by the definition of hockey-stick divergences: shares nothing with the library.

Every function takes the numbers as the library takes them, as doubles, and returns a value that is right to
far more digits than those have.
"""

import mpmath as mp

DIGITS = 80
"""Enough for losses of 1e-25 in differences of probabilities next to 1."""


def weights_of_poisson(rate, group):
    q = mp.mpf(rate)
    return {j: mp.binomial(group, j) * q**j * (1 - q) ** (group - j) for j in range(group + 1)}


def weights_of_fixed_batch(batch, dataset):
    """One record of a batch, which pushes another one out: the sum moves by 2."""
    rate = mp.mpf(batch) / dataset
    return {0: 1 - rate, 2: rate}


def laplace_tail(x, centre, scale):
    """P(Lap(centre, scale) > x)."""
    gap = (x - centre) / scale
    return mp.exp(-gap) / 2 if gap >= 0 else 1 - mp.exp(gap) / 2


def laplace_delta(epsilon, scale, weights, direction):
    """The mixture of Laplace laws around the shifts, with these weights, against the one around 0.

    The ratio grows with the output, so that outputs on one side of a threshold count. The threshold lies
    between two neighbouring shifts, where the ratio is a + b e^(2x/scale).
    """
    # Ratios as small as e^-epsilon are found as differences of numbers that are not.
    with mp.workdps(DIGITS + int(abs(epsilon))):
        e, b = mp.mpf(epsilon), mp.mpf(scale)
        shifts = sorted(s for s in weights if weights[s] > 0)

        def ratio(x):
            return mp.fsum(weights[s] * mp.exp((abs(x) - abs(x - s)) / b) for s in shifts)

        level = mp.exp(e if direction == "remove" else -e)
        ends = sorted({mp.mpf(0), *map(mp.mpf, shifts)})
        if level <= ratio(ends[0]):
            below, above = -mp.inf, False
        elif level >= ratio(ends[-1]):
            below, above = mp.inf, True
        else:
            j = max(i for i, x in enumerate(ends) if ratio(x) < level)
            constant = mp.fsum(weights[s] * mp.exp(s / b) for s in shifts if s <= ends[j])
            rising = mp.fsum(weights[s] * mp.exp(-s / b) for s in shifts if s > ends[j])
            below, above = b / 2 * mp.log((level - constant) / rising), None
        if direction == "remove":
            if above is not None:
                return mp.mpf(0) if above else 1 - mp.exp(e)
            mixture = mp.fsum(weights[s] * laplace_tail(below, s, b) for s in shifts)
            return mixture - mp.exp(e) * laplace_tail(below, 0, b)
        if above is not None:
            return 1 - mp.exp(e) if above else mp.mpf(0)
        mixture = mp.fsum(weights[s] * (1 - laplace_tail(below, s, b)) for s in shifts)
        return 1 - laplace_tail(below, 0, b) - mp.exp(e) * mixture


def response_delta(epsilon, keep, unseen, direction):
    """Randomised response: one law has its bit set with probability 1 - `unseen`, the other never."""
    with mp.workdps(DIGITS):
        p = mp.mpf(keep)
        mixed = [unseen * (1 - p) + (1 - unseen) * p, unseen * p + (1 - unseen) * (1 - p)]
        plain = [1 - p, p]
        pair = zip(mixed, plain, strict=True) if direction == "remove" else zip(plain, mixed, strict=True)
        return mp.fsum(max(a - mp.exp(mp.mpf(epsilon)) * b, mp.mpf(0)) for a, b in pair)


def gaussian_tail(x, centre, sigma):
    return mp.ncdf((centre - x) / sigma)


def gaussian_delta(epsilon, sigma, p_weights, q_weights):
    """Mixtures of normal laws around their shifts; the ratio of the densities grows with the output."""
    with mp.workdps(60):
        e, s = mp.mpf(epsilon), mp.mpf(sigma)

        def log_ratio(x):
            of = [
                mp.fsum(w * mp.exp((2 * x * c - c * c) / (2 * s * s)) for c, w in weights.items())
                for weights in (p_weights, q_weights)
            ]
            return mp.log(of[0] / of[1])

        low, high = -s, s
        while log_ratio(low) > e and low > -1e5 * s:
            low *= 2
        while log_ratio(high) < e and high < 1e5 * s:
            high *= 2
        if log_ratio(low) > e:
            return 1 - mp.exp(e)
        if log_ratio(high) < e:
            return mp.mpf(0)
        for _ in range(220):
            middle = (low + high) / 2
            low, high = (middle, high) if log_ratio(middle) < e else (low, middle)
        of = [
            mp.fsum(w * gaussian_tail(low, c, s) for c, w in weights.items())
            for weights in (p_weights, q_weights)
        ]
        return of[0] - mp.exp(e) * of[1]


def laplace_divergence(order, scale, weights, direction):
    """D_order, by the mean of r^p - 1 - p (r - 1) >= 0: the mean of r - 1 is 0."""
    with mp.workdps(40):
        b, a = mp.mpf(scale), mp.mpf(order)
        p = a if direction == "remove" else 1 - a
        shifts = sorted(s for s in weights if weights[s] > 0)
        last = shifts[-1]

        def value(x):
            moved = mp.fsum(weights[s] * mp.expm1((abs(x) - abs(x - s)) / b) for s in shifts)
            log_ratio = mp.log1p(moved)
            return mp.expm1(p * log_ratio) - p * moved

        # Kinks at the shifts, and where the ratio is 1 nothing special happens.
        ends = sorted({mp.mpf(0), *map(mp.mpf, shifts)})
        inner = mp.quad(lambda x: value(x) * mp.exp(-x / b) / (2 * b), ends)
        total = value(mp.mpf(-1)) / 2 + value(mp.mpf(last)) * mp.exp(-last / b) / 2 + inner
        return mp.log1p(total) / (a - 1)
