"""The formulas of RGP, and the divergences of its pairs by their definitions, in 40-digit arithmetic."""

import mpmath as mp
from by_definition import binomial

mp.mp.dps = 40


def component(family, parameter, order, count, sensitivity=1):
    """Lemma 4.2, Theorem 4.3, equation 18 (with variance over squared sensitivity for mu), equation 20."""
    if count == 0:
        return mp.mpf(0)
    a, x, k = mp.mpf(order), mp.mpf(parameter), mp.mpf(count)
    if family == "gaussian":
        return a * k**2 / (2 * x**2)
    if family == "laplace":
        phi = a / (2 * a - 1) * mp.exp((a - 1) * k / x) + (a - 1) / (2 * a - 1) * mp.exp(-a * k / x)
        return mp.log(phi) / (a - 1)
    if family == "skellam":
        c = mp.mpf(sensitivity)
        mu = x / c**2
        first = ((2 * a - 1) * k**2 * c + 6 * k) / (4 * c**3 * mu**2)
        return a * k**2 / (2 * mu) + min(first, 3 * k / (2 * c * mu))
    return mp.log(x**a * (1 - x) ** (1 - a) + (1 - x) ** a * x ** (1 - a)) / (a - 1)


def weights_by_ratio(group_size, sample_rate):
    """Binomial(m, q) for q < 1 by the ratio of neighbours: fast for many members."""
    q = mp.mpf(sample_rate)
    weight, found = (1 - q) ** group_size, []
    for k in range(group_size + 1):
        found.append(weight)
        weight = weight * (group_size - k) / (k + 1) * q / (1 - q)
    return found


def theorem_3_1(order, component_rdp, sample_rate):
    """log(sum_k w_k e^((alpha - 1) tau_k)) / (alpha - 1), tau_k the entries of `component_rdp`."""
    excess = mp.mpf(order) - 1
    law = weights_by_ratio(len(component_rdp) - 1, sample_rate)
    moment = mp.fsum(w * mp.expm1(excess * tau) for w, tau in zip(law, component_rdp, strict=True))
    return mp.log1p(moment) / excess


def equation_12(order, component_rdp, sample_rate):
    """log(sum_k w_k^alpha e^((alpha - 1) tau_k)) / (alpha - 1), at least zero."""
    order = mp.mpf(order)
    law = weights_by_ratio(len(component_rdp) - 1, sample_rate)
    terms = (w**order * mp.exp((order - 1) * tau) for w, tau in zip(law, component_rdp, strict=True))
    return max(mp.log(mp.fsum(terms)) / (order - 1), mp.mpf(0))


def one_record(order, component, sample_rate):
    """Zhu and Wang 2019, the tight form, for a whole order; `component(power)` of that order."""
    q, order = mp.mpf(sample_rate), int(order)
    moment = mp.fsum(
        mp.binomial(order, power)
        * (1 - q) ** (order - power)
        * q**power
        * mp.exp((power - 1) * component(power))
        for power in range(order + 1)
    )
    return mp.log(moment) / (order - 1)


def divergence(order, p, q):
    """D_order of two lists of probabilities."""
    order = mp.mpf(order)
    return mp.log(mp.fsum(a**order * b ** (1 - order) for a, b in zip(p, q, strict=True))) / (order - 1)


def skellam_pair(variance, sensitivity, group_size, sample_rate, reach):
    """Probabilities of -reach..reach with the group's records in the batch, and without."""
    farthest = reach + group_size * sensitivity
    masses = [mp.exp(-mp.mpf(variance)) * mp.besseli(n, mp.mpf(variance)) for n in range(farthest + 1)]
    law, counts = binomial(group_size, sample_rate)
    places = range(-reach, reach + 1)
    without = [masses[abs(n)] for n in places]
    shifted = [
        mp.fsum(w * masses[abs(n - j * sensitivity)] for w, j in zip(law, counts, strict=True))
        for n in places
    ]
    return shifted, without


def laplace_divergence(order, scale, group_size, sample_rate, direction):
    """D_order of Laplace noise by quadrature between the kinks."""
    law, counts = binomial(group_size, sample_rate)
    b, order = mp.mpf(scale), mp.mpf(order)

    def density(x, shift):
        return mp.exp(-abs(x - shift) / b) / (2 * b)

    def power(x):
        shifted = mp.fsum(w * density(x, j) for w, j in zip(law, counts, strict=True))
        without = density(x, 0)
        p, q = (shifted, without) if direction == "remove" else (without, shifted)
        return p**order * q ** (1 - order)

    kinks = [-mp.inf, *counts, mp.inf]
    return mp.log(mp.quad(power, kinks)) / (order - 1)


def response_divergence(order, p, group_size, sample_rate, direction):
    """D_order of a bit that is set if a member of the group is in the batch."""
    seen = 1 - (1 - mp.mpf(sample_rate)) ** group_size
    one = 1 - mp.mpf(p) + seen * (2 * mp.mpf(p) - 1)
    group, nobody = [one, 1 - one], [1 - mp.mpf(p), mp.mpf(p)]
    return divergence(order, *((group, nobody) if direction == "remove" else (nobody, group)))
