"""Pairs and their privacy losses from the definitions, in mpmath: what `make_pairs` composes."""

from functools import cache, cached_property
from itertools import pairwise, product

import mpmath as mp

mp.mp.dps = 40

# ---- laws of the number of members in a batch ---------------------------------------------------


def binomial(size, rate):
    rate = mp.mpf(rate)
    return [mp.binomial(size, j) * rate**j * (1 - rate) ** (size - j) for j in range(size + 1)]


def hypergeometric(population, members, batch):
    ways = mp.binomial(population, batch)
    return [
        mp.binomial(members, j) * mp.binomial(population - members, batch - j) / ways
        for j in range(min(members, batch) + 1)
    ]


def subsets(rates, norms, length):
    """Weight and shift of every subset; equal shifts are put together."""
    found = {}
    for chosen in product((False, True), repeat=len(rates)):
        weight = mp.fprod(r if c else 1 - r for r, c in zip(map(mp.mpf, rates), chosen, strict=True))
        shift = length([mp.mpf(v) for v, c in zip(norms, chosen, strict=True) if c])
        found[shift] = found.get(shift, mp.mpf(0)) + weight
    shifts = sorted(found)
    return [found[s] for s in shifts], shifts


def log_sum_exp(terms):
    top = max(terms)
    return top + mp.log(mp.fsum(mp.exp(t - top) for t in terms))


def root_of_increasing(function, level, low, high):
    """Where an increasing function passes a level, to full precision."""
    width = high - low
    while function(low) > level:
        low, width = low - width, 2 * width
    while function(high) < level:
        high, width = high + width, 2 * width
    for _ in range(int(3.4 * mp.mp.dps) + 40):
        middle = (low + high) / 2
        if function(middle) < level:
            low = middle
        else:
            high = middle
    return (low + high) / 2


# ---- quadrature nodes ---------------------------------------------------------------------------


def equal_nodes(low, high, count):
    step = (high - low) / count
    return [(low + i * step, mp.log(step)) for i in range(count + 1)]


@cache
def gauss_legendre(degree):
    """Nodes and weights on [-1, 1]; 3 * 2**(degree - 1) of them."""
    return mp.calculus.quadrature.GaussLegendre(mp.mp).calc_nodes(degree, mp.mp.prec + 20)


def panel_nodes(breaks, degree):
    return [
        ((a + b) / 2 + (b - a) / 2 * x, mp.log(w * (b - a) / 2))
        for a, b in pairwise(breaks)
        for x, w in gauss_legendre(degree)
    ]


# ---- pairs of smooth noise ----------------------------------------------------------------------


class GaussianMixture:
    """(mixture, N(0)) for "remove" and (N(0), mixture) for "add"; shifts >= 0, increasing."""

    def __init__(self, sigma, weights, shifts, direction):
        self.sigma, self.direction = mp.mpf(sigma), direction
        self.weights, self.shifts = weights, [mp.mpf(s) for s in shifts]
        self.lines = [
            (mp.log(w) - s * s / (2 * self.sigma**2), s / self.sigma**2)
            for w, s in zip(self.weights, self.shifts, strict=True)
            if w > 0
        ]

    def log_ratio(self, x):
        return log_sum_exp([a + b * x for a, b in self.lines])

    def law(self, tilt, fineness):
        """Nodes (log of the share under P, loss), good for transforms at Re z = tilt."""
        power = 1 + tilt if self.direction == "remove" else -tilt
        reach = 16 * self.sigma
        low = -reach + min(mp.mpf(0), power * self.shifts[-1])
        high = reach + max(mp.mpf(1), power) * self.shifts[-1]
        spacing = min(self.sigma, self.sigma**2 / self.shifts[-1]) / (6 * fineness)
        sign = 1 if self.direction == "remove" else -1
        out = []
        for x, log_step in equal_nodes(low, high, int((high - low) / spacing) + 1):
            base = -x * x / (2 * self.sigma**2) - mp.log(self.sigma * mp.sqrt(2 * mp.pi)) + log_step
            ratio = self.log_ratio(x)
            out.append((base + ratio if sign == 1 else base, sign * ratio))
        return out

    def one_step(self, epsilon):
        def mixture_tail(x, side):
            return mp.fsum(
                w * mp.ncdf(side * (x - s) / self.sigma)
                for w, s in zip(self.weights, self.shifts, strict=True)
            )

        least = mp.log(self.weights[0]) if self.shifts[0] == 0 else -mp.inf
        level = epsilon if self.direction == "remove" else -epsilon
        if level <= least + mp.mpf("1e-37"):  # so far out that no digit changes
            return 1 - mp.exp(epsilon) if self.direction == "remove" else mp.mpf(0)
        x = root_of_increasing(self.log_ratio, level, mp.mpf(0), self.sigma)
        if self.direction == "remove":
            return mixture_tail(x, -1) - mp.exp(epsilon) * mp.ncdf(-x / self.sigma)
        return mp.ncdf(x / self.sigma) - mp.exp(epsilon) * mixture_tail(x, 1)


class PoissonReplace:
    """P = (1-q) N(0) + q N(-1), Q its mirror image. In x -> -x the loss increases."""

    def __init__(self, sigma, rate):
        self.sigma, self.rate = mp.mpf(sigma), mp.mpf(rate)

    def log_mixture(self, x):
        """Log of (1-q) N(0) + q N(1) over N(0)."""
        return mp.log(1 - self.rate + self.rate * mp.exp((x - mp.mpf(1) / 2) / self.sigma**2))

    def loss(self, x):
        return self.log_mixture(x) - self.log_mixture(-x)

    def law(self, tilt, fineness):
        reach = 16 * self.sigma + 1 + tilt
        spacing = min(self.sigma, self.sigma**2) / (6 * fineness)
        count = int(2 * reach / spacing) + 1
        return [
            (
                -x * x / (2 * self.sigma**2)
                - mp.log(self.sigma * mp.sqrt(2 * mp.pi))
                + log_step
                + self.log_mixture(x),
                self.loss(x),
            )
            for x, log_step in equal_nodes(-reach, reach, count)
        ]

    def one_step(self, epsilon):
        x = root_of_increasing(self.loss, epsilon, mp.mpf(0), self.sigma)

        def upper_tail(shift):
            return (1 - self.rate) * mp.ncdf(-x / self.sigma) + self.rate * mp.ncdf((shift - x) / self.sigma)

        return upper_tail(1) - mp.exp(epsilon) * upper_tail(-1)


class FixedReplaceOne:
    """The joined loss law. With y = (log likelihood ratio of N(0) against N(2)) the loss is

        log(1 - g + g e^y)      where it is positive, y > 0, under (1-g) N(2) + g N(0);
        -log(1 - g + g e^{-y})  where it is negative, y < 0, under N(0);
        0                       with what is left over.

    y is N(v/2, v) under N(0) and N(-v/2, v) under N(2), with v = 4 / sigma^2.
    """

    def __init__(self, sigma, batch, population):
        self.sigma, self.share = mp.mpf(sigma), mp.mpf(batch) / population
        self.variance = 4 / self.sigma**2

    def amplified(self, y):
        return mp.log(1 - self.share + self.share * mp.exp(y))

    def law(self, tilt, fineness):
        v, scale = self.variance, mp.sqrt(self.variance)
        constant = -mp.log(mp.sqrt(2 * mp.pi * v))
        width = min(scale, mp.mpf(1)) / fineness
        positive = [i * width for i in range(int((16 * scale + (1 + tilt) * v) / width) + 2)]
        negative = [-i * width for i in range(int((16 * scale + v) / width) + 2)][::-1]
        out = []
        for y, log_weight in panel_nodes(positive, 4):
            under_q = -((y + v / 2) ** 2) / (2 * v) + constant + log_weight
            out.append((under_q + self.amplified(y), self.amplified(y)))
        for y, log_weight in panel_nodes(negative, 4):
            out.append((-((y - v / 2) ** 2) / (2 * v) + constant + log_weight, -self.amplified(-y)))
        atom = (1 - self.share) * (mp.ncdf(scale / 2) - mp.ncdf(-scale / 2))
        if atom > 0:
            out.append((mp.log(atom), mp.mpf(0)))
        return out

    def one_step(self, epsilon):
        direction = "remove" if epsilon >= 0 else "add"
        return GaussianMixture(self.sigma, [1 - self.share, self.share], [0, 2], direction).one_step(epsilon)


class LaplaceMixture:
    """Shifts 0..k. Left of 0 and right of k the log ratio is constant: the loss has two atoms."""

    def __init__(self, scale, size, rate, direction):
        self.scale, self.size, self.direction = mp.mpf(scale), size, direction
        self.weights = binomial(size, rate)
        self.sign = 1 if direction == "remove" else -1

    def log_ratio(self, x):
        return log_sum_exp(
            [mp.log(w) + (abs(x) - abs(x - j)) / self.scale for j, w in enumerate(self.weights) if w > 0]
        )

    def tail(self, law, x, side):
        """P(side * (noise + shift) > side * x) under "noise" or "mixture"."""
        shifts = [(mp.mpf(1), 0)] if law == "noise" else list(zip(self.weights, range(99), strict=False))
        return mp.fsum(w * self.noise_tail(side * (x - s) / self.scale) for w, s in shifts)

    @staticmethod
    def noise_tail(t):
        return mp.exp(-t) / 2 if t >= 0 else 1 - mp.exp(t) / 2

    @property
    def laws(self):
        return ("mixture", "noise") if self.direction == "remove" else ("noise", "mixture")

    @cached_property
    def atoms(self):
        """((mass, loss) at x <= 0, (mass, loss) at x >= k), under P."""
        p, k = self.laws[0], mp.mpf(self.size)
        return (
            (self.tail(p, mp.mpf(0), -1), self.sign * self.log_ratio(mp.mpf(0))),
            (self.tail(p, k, 1), self.sign * self.log_ratio(k)),
        )

    def density(self, x):
        """Density of P at x in [0, k]."""
        base = mp.exp(-x / self.scale) / (2 * self.scale)
        return base * mp.exp(self.log_ratio(x)) if self.direction == "remove" else base

    def crossing(self, epsilon):
        """x in (0, k) where the loss is epsilon."""
        return root_of_increasing(self.log_ratio, self.sign * epsilon, mp.mpf(0), mp.mpf(self.size))

    def one_step(self, epsilon):
        losses = sorted(loss for _, loss in self.atoms)
        if epsilon >= losses[1]:
            return mp.mpf(0)
        if epsilon < losses[0]:
            return 1 - mp.exp(epsilon)
        x, (p, q) = self.crossing(epsilon), self.laws
        return self.tail(p, x, self.sign) - mp.exp(epsilon) * self.tail(q, x, self.sign)

    def two_steps(self, epsilon):
        total = mp.fsum(mass * self.one_step(epsilon - loss) for mass, loss in self.atoms)
        low, high = sorted(loss for _, loss in self.atoms)
        knots = [self.sign * self.log_ratio(mp.mpf(j)) for j in range(self.size + 1)]
        kinks = [self.crossing(epsilon - v) for v in knots if low < epsilon - v < high]
        breaks = sorted({mp.mpf(j) for j in range(self.size + 1)} | set(kinks))
        return total + mp.fsum(
            mp.exp(log_weight) * self.density(x) * self.one_step(epsilon - self.sign * self.log_ratio(x))
            for x, log_weight in panel_nodes(breaks, 5)
        )

    def by_panels(self, steps, epsilon, degree):
        """One record only. Between T low + i gap and T low + (i+1) gap the curve of T steps is analytic."""
        assert self.size == 1
        (mass_low, low), (mass_high, high) = sorted(self.atoms, key=lambda atom: atom[1])
        gap = high - low
        nodes = [(1 - mp.cos(mp.pi * (2 * i + 1) / (2 * degree))) / 2 for i in range(degree)]
        share = [(-1) ** i * mp.sin(mp.pi * (2 * i + 1) / (2 * degree)) for i in range(degree)]

        def basis(u):
            """Lagrange polynomials of the nodes at u, barycentric."""
            if u in nodes:
                return [mp.mpf(node == u) for node in nodes]
            terms = [s / (u - node) for s, node in zip(share, nodes, strict=True)]
            total = mp.fsum(terms)
            return [term / total for term in terms]

        def place(x):
            return (self.sign * self.log_ratio(x) - low) / gap

        same = mp.diag([mass_low] * degree)
        below = mp.diag([mass_high] * degree)
        for row, u in enumerate(nodes):
            x_u = self.crossing(low + u * gap)
            for x, log_weight in panel_nodes([mp.mpf(0), x_u, mp.mpf(1)], 5):
                v, weight = place(x), mp.exp(log_weight) * self.density(x)
                target, at = (same, u - v) if v < u else (below, 1 + u - v)
                for column, value in enumerate(basis(at)):
                    target[row, column] += weight * value
        zero = mp.zeros(degree, 1)
        curve = {}
        for done in range(steps):
            before = {i: curve.get(i, zero) for i in range(done + 1)}
            before[-1] = mp.matrix([1 - mp.exp(done * low + (u - 1) * gap) for u in nodes])
            curve = {i: same * before[i] + below * before[i - 1] for i in range(done + 1)}
        position = (epsilon - steps * low) / gap
        panel = int(mp.floor(position))
        return mp.fdot(basis(position - panel), curve[panel])
