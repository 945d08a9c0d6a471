"""Slow values straight from the definitions, sharing nothing with the library: mpmath and plain sums."""

import mpmath as mp
import numpy as np

mp.mp.dps = 40


def binomial(group_size, sample_rate):
    """Weights and shifts of Binomial(k, q); the rate may be a decimal string."""
    q = mp.mpf(sample_rate)
    weights = [mp.binomial(group_size, j) * q**j * (1 - q) ** (group_size - j) for j in range(group_size + 1)]
    return weights, list(range(group_size + 1))


def hypergeometric(group_size, batch_size, dataset_size):
    """Weights of the members in the batch, and twice their number."""
    total = mp.binomial(dataset_size, batch_size)
    first, last = max(0, group_size + batch_size - dataset_size), min(group_size, batch_size)
    weights = [
        mp.binomial(group_size, j) * mp.binomial(dataset_size - group_size, batch_size - j) / total
        for j in range(first, last + 1)
    ]
    return weights, [2 * j for j in range(first, last + 1)]


def poisson_binomial(rates):
    """Weights and shifts of a sum of independent coins."""
    weights = [mp.mpf(1)]
    for q in map(mp.mpf, rates):
        weights = [a * (1 - q) + b * q for a, b in zip([*weights, 0], [0, *weights], strict=True)]
    return weights, list(range(len(weights)))


def log_ratio(x, sigma, weights, shifts):
    """log MoG/N(0, sigma^2) at x."""
    variance = mp.mpf(sigma) ** 2
    return mp.log(
        mp.fsum(
            w * mp.exp((s * x - mp.mpf(s) ** 2 / 2) / variance) for w, s in zip(weights, shifts, strict=True)
        )
    )


def one_step_delta(epsilon, sigma, weights, shifts, direction):
    """Hockey-stick divergence of one step with shifts >= 0, by the threshold where the loss is epsilon."""
    sigma, epsilon = mp.mpf(sigma), mp.mpf(epsilon)
    sign = 1 if direction == "remove" else -1
    lowest = mp.log(weights[0]) if shifts[0] == 0 else -mp.inf
    if sign * epsilon <= lowest:
        return 1 - mp.exp(epsilon) if sign == 1 else mp.mpf(0)
    low, high = mp.mpf(-1), mp.mpf(1)
    while log_ratio(low, sigma, weights, shifts) > sign * epsilon:
        low *= 2
    while log_ratio(high, sigma, weights, shifts) < sign * epsilon:
        high *= 2
    for _ in range(150):
        middle = (low + high) / 2
        if log_ratio(middle, sigma, weights, shifts) < sign * epsilon:
            low = middle
        else:
            high = middle

    def mixture_cdf(x, side):
        return mp.fsum(w * mp.ncdf(side * (x - s) / sigma) for w, s in zip(weights, shifts, strict=True))

    if sign == 1:
        return mixture_cdf(low, -1) - mp.exp(epsilon) * mp.ncdf(-low / sigma)
    return mp.ncdf(low / sigma) - mp.exp(epsilon) * mixture_cdf(low, 1)


def gaussian_delta(epsilon, mean):
    """Hockey-stick divergence of N(mean, 1) and N(0, 1): any number of steps without sampling."""
    epsilon, mean = mp.mpf(epsilon), mp.mpf(mean)
    return mp.ncdf(mean / 2 - epsilon / mean) - mp.exp(epsilon) * mp.ncdf(-mean / 2 - epsilon / mean)


def renyi_of_whole_order(order, sigma, weights, shifts):
    """D_order(MoG || N(0)) for order 2 or 3: expand the power and integrate each Gaussian term."""
    variance = mp.mpf(sigma) ** 2
    pairs = list(zip(weights, map(mp.mpf, shifts), strict=True))
    if order == 2:
        moment = mp.fsum(v * w * mp.exp(s * t / variance) for v, s in pairs for w, t in pairs)
    else:
        assert order == 3
        moment = mp.fsum(
            u * v * w * mp.exp((r * s + s * t + t * r) / variance)
            for u, r in pairs
            for v, s in pairs
            for w, t in pairs
        )
    return mp.log(moment) / (order - 1)


def renyi_of_one_record(order, sigma, sample_rate):
    """D_order((1-q) N(0) + q N(1) || N(0)) for a whole order, by the binomial theorem."""
    q, variance = mp.mpf(sample_rate), mp.mpf(sigma) ** 2
    moment = mp.fsum(
        mp.binomial(order, j) * (1 - q) ** (order - j) * q**j * mp.exp(mp.mpf(j * (j - 1)) / (2 * variance))
        for j in range(order + 1)
    )
    return mp.log(moment) / (order - 1)


def renyi_by_quadrature(order, sigma, weights, shifts, direction):
    """D_order for any real order, by the trapezoid rule in extended precision.

    E[r^b] is taken as 1 + E[r^b - 1 - b (r - 1)], the part in brackets having one sign, so that a small
    divergence keeps its digits. Nodes are added until two counts agree to 1e-13.
    """
    real = np.longdouble
    exponent = real(order) if direction == "remove" else 1 - real(order)
    sigma, shifts = real(sigma), np.array(shifts, dtype=real)
    log_weights = np.array([mp.nstr(mp.log(w), 25) for w in weights]).astype(real)
    low = -14 * sigma + min(real(0), exponent * shifts.max())
    high = 14 * sigma + max(real(1), exponent) * shifts.max()

    def value(nodes):
        x = np.linspace(low, high, nodes, dtype=real)
        terms = log_weights + (x[:, None] * shifts - shifts**2 / 2) / sigma**2
        top = terms.max(axis=1)
        loss = top + np.log(np.exp(terms - top[:, None]).sum(axis=1))
        log_density = -(x**2) / (2 * sigma**2) - np.log(sigma * np.sqrt(2 * real(np.pi)))
        log_power = log_density + exponent * loss
        largest = log_power.max()
        if largest > 50:  # a large divergence: nothing to cancel, and e^largest may overflow
            log_moment = largest + np.log(np.exp(log_power - largest).sum() * (x[1] - x[0]))
            return log_moment / (real(order) - 1)
        if 0 < abs(order - 1) < 1e-2:  # the parts of order b - 1, or b: what they share is left out
            if direction == "remove":
                parts = np.exp(loss) * np.expm1((exponent - 1) * loss) - (exponent - 1) * np.expm1(loss)
            else:
                parts = np.expm1(exponent * loss) - exponent * np.expm1(loss)
            apart = parts * np.exp(log_density)
        else:
            rest = np.exp(log_density) + exponent * (np.exp(log_density + loss) - np.exp(log_density))
            apart = np.exp(log_power) - rest
        near_one = _excess(np.clip(loss, -1e-3, 1e-3), exponent) * np.exp(log_density)
        excess = np.where(np.abs(loss) < 1e-3, near_one, apart)
        return np.log1p(excess.sum() * (x[1] - x[0])) / (real(order) - 1)

    nodes, last = 2001, real("nan")
    while nodes < 3_000_000:
        now = value(nodes)
        if abs(now - last) <= real(1e-13) * now:
            return float(now)
        nodes, last = 2 * nodes - 1, now
    raise RuntimeError("the trapezoid rule has not settled")


def _excess(loss, exponent):
    """e^(b l) - 1 - b (e^l - 1) for small l, by its Taylor series."""
    total, power, factorial = 0, loss, 1
    second = exponent * (exponent - 1)
    gap = 0  # b^n - b, which is of order b - 1 where that is small
    for n in range(2, 12):
        power, factorial = power * loss, factorial * n
        gap = exponent * gap + second
        total = total + gap * power / factorial
    return total


def epsilon_of_rdp(order, rdp, delta):
    """RGP, Lemma 2.2."""
    order = mp.mpf(order)
    return rdp + mp.log((order - 1) / order) - (mp.log(delta) + mp.log(order)) / (order - 1)
