"""Trade-off functions and outcomes by their formulas, for tests of the trade-off curves."""

import numpy as np
from scipy.special import ndtr, ndtri

from hockeystick import TradeoffCurve

gaussian, laplace = TradeoffCurve.gaussian, TradeoffCurve.laplace
from_epsilon_delta, from_points = TradeoffCurve.from_epsilon_delta, TradeoffCurve.from_points

ALPHA = np.concatenate([[0.0, 1e-300, 1e-12, 1e-6], np.linspace(0.001, 0.999, 23), [1 - 1e-9, 1.0]])
EPSILON = np.array([0.0, 1e-6, 0.05, 0.3, 1.0, 1.9, 4.0])
CORNERS = ([0.0, 0.1, 0.4, 1.0], [0.9, 0.5, 0.1, 0.0])
"""Neither symmetric nor without an event that tells all."""


def gaussian_beta(mu, alpha):
    return ndtr(-ndtri(alpha) - mu)


def gaussian_delta(mu, epsilon):
    return ndtr(mu / 2 - epsilon / mu) - np.exp(epsilon) * ndtr(-mu / 2 - epsilon / mu)


def laplace_beta(mu, alpha):
    """Laplace's F(F^-1(1 - α) - μ)."""
    with np.errstate(divide="ignore"):
        x = np.where(alpha <= 0.5, -np.log(2 * alpha), np.log(2 - 2 * alpha)) - mu
    return np.where(x < 0, 0.5 * np.exp(np.minimum(x, 0.0)), 1 - 0.5 * np.exp(-np.abs(x)))


def laplace_delta(mu, epsilon):
    return np.maximum(0.0, -np.expm1((epsilon - mu) / 2))


def bounded_beta(epsilon, delta, alpha):
    lines = [0 * alpha, 1 - delta - np.exp(epsilon) * alpha, np.exp(-epsilon) * (1 - delta - alpha)]
    return np.maximum.reduce(lines)


def corners_beta(alpha):
    return np.interp(alpha, *CORNERS)


def lower_hull(x, y):
    """Corners of the largest convex function below points."""
    hull = []
    for point in sorted(zip(x.tolist(), y.tolist(), strict=True)):
        while len(hull) > 1:
            (a, b), (c, d) = hull[-2:]
            if (d - b) * (point[0] - a) < (point[1] - b) * (c - a):
                break
            hull.pop()
        if hull and hull[-1][0] == point[0]:
            continue
        hull.append(point)
    return np.array(hull).T


def convexified(alpha, *points):
    x, y = (np.concatenate(parts) for parts in zip(*points, strict=True))
    return np.interp(alpha, *lower_hull(x, y))


class Outcomes:
    """A pair of laws as the probabilities of finitely many outcomes."""

    def __init__(self, p, q):
        self.p, self.q = np.asarray(p, dtype=float), np.asarray(q, dtype=float)

    @classmethod
    def of_corners(cls, alpha, beta):
        return cls(np.append(-np.diff(beta), 1 - beta[0]), np.append(np.diff(alpha), 0.0))

    @classmethod
    def of_epsilon_delta(cls, epsilon, delta):
        likely = 1 / (1 + np.exp(-epsilon))
        answers = (1 - delta) * np.array([likely, 1 - likely])
        return cls([*answers, delta, 0.0], [*answers[::-1], 0.0, delta])

    def __mul__(self, other):
        return Outcomes(np.outer(self.p, other.p).ravel(), np.outer(self.q, other.q).ravel())

    def swapped(self):
        return Outcomes(self.q, self.p)

    def one_sided_delta(self, epsilon):
        gains = self.p - np.exp(np.reshape(epsilon, (-1, 1))) * self.q
        return np.maximum(gains, 0.0).sum(axis=1).reshape(np.shape(epsilon))

    def delta(self, epsilon):
        return np.maximum(self.one_sided_delta(epsilon), self.swapped().one_sided_delta(epsilon))

    def beta(self, alpha):
        with np.errstate(divide="ignore", invalid="ignore"):
            order = np.argsort(-np.nan_to_num(self.p / self.q, nan=0.0), kind="stable")
        telling = self.p[self.q == 0].sum()
        order = order[self.q[order] > 0]
        alarms = np.append(0.0, np.cumsum(self.q[order]))
        hits = np.append(telling, telling + np.cumsum(self.p[order]))
        return np.interp(alpha, alarms, 1 - hits)


def assert_enclosed(curve, truth, error, **question):
    lower, upper = curve.bounds(**question)
    assert np.all(lower <= upper)
    assert np.all(lower <= truth + error), (lower - truth).max()
    assert np.all(upper >= truth - error), (truth - upper).max()
    assert np.all(upper - lower <= 2 * error + 1e-9), (upper - lower).max()


LEAVES = {
    **{f"gaussian({m})": (gaussian(m), lambda a, m=m: gaussian_beta(m, a)) for m in (1e-3, 0.5, 1.0, 4.0)},
    **{f"laplace({m})": (laplace(m), lambda a, m=m: laplace_beta(m, a)) for m in (1e-3, 0.5, 1.0, 6.0)},
    **{
        f"bounded({e}, {d})": (from_epsilon_delta(e, d), lambda a, e=e, d=d: bounded_beta(e, d, a))
        for e, d in [(0.0, 0.0), (0.7, 0.0), (1.0, 1e-3), (0.0, 0.3), (5.0, 0.9), (2.0, 1.0)]
    },
    "corners": (from_points(*CORNERS), corners_beta),
}
