"""Delta of composed pairs by inversion along a line, and by masses on a grid: routes of `make_pairs`."""

from functools import cached_property

import mpmath as mp
import numpy as np
from pair_losses import GaussianMixture, log_sum_exp, root_of_increasing

DIGITS = 15
"""Agreement asked of two different evaluations of the same number."""
NEGLIGIBLE = 105
"""Nodes whose weight is below exp(-NEGLIGIBLE), 45 digits, are dropped."""


class Line:
    """Transforms of several (step, count) along one line Re z = c."""

    def __init__(self, steps, tilt, fineness):
        self.tilt = mp.mpf(tilt)
        self.parts = []
        self.log_moment = mp.mpf(0)
        for step, count in steps:
            law = [(mass + self.tilt * loss, loss) for mass, loss in step.law(self.tilt, fineness)]
            total = log_sum_exp([share for share, _ in law])
            law = [(mp.exp(share - total), loss) for share, loss in law if share > total - NEGLIGIBLE]
            self.parts.append((law, count))
            self.log_moment += count * total

    @cached_property
    def moments(self):
        """Mean and variance of the tilted loss."""
        mean = variance = mp.mpf(0)
        for law, count in self.parts:
            first = mp.fsum(share * loss for share, loss in law)
            mean += count * first
            variance += count * mp.fsum(share * (loss - first) ** 2 for share, loss in law)
        return mean, variance

    def log_size(self, heights):
        """Log of the modulus of the normalised transform, in double precision."""
        total = np.zeros(len(heights))
        for law, count in self.parts:
            shares = np.array([float(share) for share, _ in law])
            losses = np.array([float(loss) for _, loss in law])
            for start in range(0, len(heights), 256):
                part = slice(start, start + 256)
                transform = np.abs(np.exp(1j * np.outer(heights[part], losses)) @ shares)
                total[part] += count * np.log(np.maximum(transform, 1e-15))
        return total

    def delta(self, epsilon, spacing, smallest):
        """The trapezoid sum; terms are left out once they stay below `smallest` (a log).

        None where the terms left out may be larger than that.
        """
        scale = self.log_moment - self.tilt * epsilon
        turns = [[mp.expj(spacing * loss) for _, loss in law] for law, _ in self.parts]
        states = [[mp.mpc(share) for share, _ in law] for law, _ in self.parts]
        turn = mp.expj(-spacing * epsilon)
        phase, total, quiet = mp.mpc(1), mp.mpf(0), 0
        for i in range(20_000):
            z = mp.mpc(self.tilt, i * spacing)
            transform = mp.fprod(
                mp.exp(count * mp.log(mp.fsum(state)))
                for state, (_, count) in zip(states, self.parts, strict=True)
            )
            term = transform * phase / (z * (z + 1))
            total += term.real / 2 if i == 0 else term.real
            quiet = quiet + 1 if scale + mp.log(abs(term) * spacing) < smallest else 0
            if quiet == 3:
                break
            phase *= turn
            states = [
                [s * t for s, t in zip(state, turning, strict=True)]
                for state, turning in zip(states, turns, strict=True)
            ]
        else:
            raise RuntimeError("the transform does not die away")
        # The loss may be near a lattice: the transform then comes back further up.
        far = np.linspace(float(i * spacing), float(2.5 * i * spacing), 3001)
        log_terms = self.log_size(far) + float(scale + mp.log(spacing)) - 2 * np.log(far)
        if np.any(log_terms > float(smallest) + 1):
            return None  # or the nodes are too few for these heights
        return spacing / mp.pi * total * mp.exp(scale)


def last_tilt(steps, still_left):
    """The largest c, roughly, for which still_left(mean, log moment, c); from small c upward, since the
    quadrature grows with c."""
    with mp.workdps(20):
        low = mp.mpf("1e-3")
        while still_left(*coarse(steps, 2 * low), 2 * low):
            low *= 2
        high = 2 * low
        for _ in range(14):
            middle = mp.sqrt(low * high)
            if still_left(*coarse(steps, middle), middle):
                low = middle
            else:
                high = middle
        return low


def best_tilt(steps, epsilon):
    """Minimise K(c) - c epsilon roughly, by where the tilted mean passes epsilon."""
    return last_tilt(steps, lambda mean, _log_moment, _c: mean < epsilon)


def coarse(steps, tilt):
    """Tilted mean and log moment, good enough to choose by."""
    line = Line(steps, tilt, mp.mpf("0.4"))
    return line.moments[0], line.log_moment


def epsilon_for(steps, log10_delta):
    """An epsilon of six digits whose Chernoff bound is near the wanted delta."""
    goal = log10_delta * mp.log(10)
    c = last_tilt(steps, lambda mean, log_moment, c: log_moment - c * mean - mp.log(1 + c) > goal)
    return six_digits(coarse(steps, c)[0])


def six_digits(value):
    return mp.mpf(mp.nstr(value, 6))


def by_line(steps, epsilon):
    epsilon = mp.mpf(epsilon)
    tilt = best_tilt(steps, epsilon) * mp.mpf("0.9")  # further out the moments may explode
    first = Line(steps, tilt, 1)
    log_delta = first.log_moment - tilt * epsilon
    result, fineness = None, mp.mpf(1)
    for attempt in range(6):
        # Two evaluations with nothing in common: c, the nodes and the spacing all differ.
        values = []
        for c, finer in ((tilt, mp.mpf(1)), (tilt * mp.mpf("0.83"), mp.mpf("1.27"))):
            line = Line(steps, c, fineness * finer)
            wanted = log_delta - (DIGITS + 6) * mp.log(10)
            period = max(12 * mp.sqrt(line.moments[1]), -wanted / c) * (1 + attempt) * finer
            values.append(line.delta(epsilon, 2 * mp.pi / period, wanted))
        if all(value is not None and value > 0 for value in values):
            log_delta = mp.log(min(values))
            if abs(values[0] - values[1]) < mp.mpf(10) ** (-DIGITS - 1) * values[0]:
                result = values[0]
                break
        fineness *= mp.mpf("1.5")
    if result is None:
        raise RuntimeError(f"evaluations disagree: {values}")
    return result


def two_steps(step, epsilon):
    """The second step's curve at what the first has left, averaged over the first.

    One step's curve leaves 1 - exp(epsilon), or 0, at one point, smoothly but barely so. The integral is
    broken there; tanh-sinh nodes crowd at the break.
    """
    values = []
    if isinstance(step, GaussianMixture):
        sign = 1 if step.direction == "remove" else -1
        scale = step.sigma * mp.sqrt(2 * mp.pi)

        def integrand(x):
            ratio = step.log_ratio(x)
            density = mp.exp(-x * x / (2 * step.sigma**2) + (ratio if sign == 1 else 0)) / scale
            return density * step.one_step(epsilon - sign * ratio)

        breaks = [-14 * step.sigma, 14 * step.sigma + step.shifts[-1]]
        level = sign * epsilon - mp.log(step.weights[0])
        if level > mp.log(step.weights[0]):
            breaks.insert(1, root_of_increasing(step.log_ratio, level, mp.mpf(0), step.sigma))
        values = [mp.quad(integrand, breaks, maxdegree=degree) for degree in (7, 8)]
    else:
        for fineness in (mp.mpf("1.5"), mp.mpf("2.2")):
            law = [one for one in step.law(mp.mpf(0), fineness) if one[0] > -NEGLIGIBLE]
            values.append(mp.fsum(mp.exp(mass) * step.one_step(epsilon - loss) for mass, loss in law))
    assert abs(values[0] - values[1]) <= mp.mpf(10) ** (-DIGITS) * values[1], values
    return values[1]


def delta_of(steps, epsilon):
    (step, count), *others = steps
    if count == 1 and not others:
        return step.one_step(mp.mpf(epsilon))
    if count == 2 and not others:
        return two_steps(step, mp.mpf(epsilon))
    return by_line(steps, epsilon)


def by_grid(step, steps, epsilon):
    """Masses shared between the two neighbouring grid points, convolved by FFT; the error is O(width^2)."""
    law = step.law(mp.mpf(0), mp.mpf(20))
    masses = np.exp([float(m) for m, _ in law])
    losses = np.array([float(loss) for _, loss in law])
    keep = masses > 1e-18
    wide, narrow = (on_grid(masses[keep], losses[keep], steps, epsilon, width) for width in (4e-4, 2e-4))
    return (4 * narrow - wide) / 3


def on_grid(masses, losses, steps, epsilon, width):
    place = losses / width
    below = np.floor(place)
    part, size = place - below, 1 << 18
    grid = np.zeros(size)
    np.add.at(grid, below.astype(int) % size, masses * (1 - part))
    np.add.at(grid, (below.astype(int) + 1) % size, masses * part)
    composed = np.fft.irfft(np.fft.rfft(grid) ** steps, size)
    loss = width * np.where(np.arange(size) < 3 * size // 4, np.arange(size), np.arange(size) - size)
    return float(np.sum(composed * np.maximum(0, -np.expm1(epsilon - np.maximum(loss, epsilon)))))
