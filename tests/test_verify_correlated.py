"""Certificates of random bins under correlated noise (V20 to V22): the chain, its transform, the integral."""

import json
import math

import numpy as np
import pytest
from flint import acb, arb, ctx
from nightly import some
from scipy.special import ndtr
from verified_steps import proven

import hockeystick as hs
import hockeystick_verify
from hockeystick._curves import bins_witness
from hockeystick_verify import NotProvenError, RefusedError, check, correlated


@pytest.fixture(autouse=True)
def precision():
    """Balls with enough bits, and the usual ones afterwards."""
    before, ctx.prec = ctx.prec, 160
    yield
    ctx.prec = before


def chain_of(bins, epochs, sigma, first, decay):
    return correlated.chain_of(bins, epochs, arb(sigma), arb(first), arb(decay))


def lattice_of(spacing, reach, shift, turn, alike=50):
    return correlated.Lattice(arb(spacing), reach, arb(shift), arb(turn), alike)


def transform(chain, lattice, s):
    """Sum over the lattice for E[e^(-sW)]."""
    rate = -s * acb(0, -lattice.turn).exp() / chain.bins
    turned = (lattice.turn**2 * chain.cost / 2).exp()
    return complex((turned * correlated.Operators(chain, lattice).transform(rate)).mid())


def means_of(bins, epochs, first, decay):
    """Means of the noise of a run by bin, from its matrix, for noise of size 1."""
    steps = bins * epochs
    column = [1.0, first] + [first * decay**j for j in range(1, steps)]
    matrix = np.array([[column[t - s] if t >= s else 0.0 for s in range(steps)] for t in range(steps)])
    return [matrix @ (np.arange(steps) % bins == a) for a in range(bins)]


CHAINS = [(4, 3, 2.0, 0.5, 0.5), (3, 1, 1.5, 0.4, 0.7), (1, 4, 2.0, 0.5, 0.3), (5, 2, 3.0, 0.8, 0.0)]


# ---- V20


@pytest.mark.parametrize(("bins", "epochs", "sigma", "first", "decay"), CHAINS)
def test_the_chain_has_the_covariances_of_the_matrix(bins, epochs, sigma, first, decay):
    chain, steps = chain_of(bins, epochs, sigma, first, decay), bins * epochs
    sizes = [mean @ mean / sigma**2 for mean in means_of(bins, epochs, first, decay)]
    assert [2 * float(half) for half in chain.halves] == pytest.approx(sizes[::-1], rel=1e-12)
    # h_t = z_t + decay h_(t+1), as rows of coefficients; v = (x, H_b, ..., H_1).
    rows = np.zeros((steps + 1, steps))
    for t in range(steps - 1, -1, -1):
        rows[t] = decay * rows[t + 1] + np.eye(steps)[t]
    sums = [rows[a:steps:bins].sum(axis=0) for a in range(bins)]
    last = [rows[bins:steps:bins].sum(axis=0)] if epochs > 1 else []
    values = np.array([*last, *sums[::-1]])
    covariances = values @ values.T
    precision = np.linalg.inv(covariances)
    assert float(chain.variance) == pytest.approx(covariances.diagonal().max(), rel=1e-12)
    shifts = [sigma / (1 + first - decay)] if epochs > 1 else [0.0]
    for _ in range(bins):
        shifts.append(sigma - (first - decay) * shifts[-1])
    shift = np.array(shifts if epochs > 1 else shifts[1:])
    pull, weights = np.abs(precision @ shift), [float(weight) for weight, _ in chain.coordinates]
    assert float(chain.cost) == pytest.approx(shift @ precision @ shift, rel=1e-12)
    pulls = [float(each) for _, each in chain.coordinates]
    if epochs > 1:
        pulls, weights = [pulls[-1], *pulls[:-1]], [weights[-1], *weights[:-1]]
    assert pulls == pytest.approx(pull, rel=1e-11, abs=1e-13)
    assert np.linalg.eigvalsh(np.diag(weights) - precision).min() > -1e-12
    assert np.linalg.eigvalsh(np.diag(weights) / 2 - precision).min() < -1e-2


# ---- V21


def ratios(bins, epochs, sigma, first, decay, points):
    """W of two bins at points of a plane, and their weights."""
    means = means_of(2, epochs, first, decay)
    gram = np.array([[a @ b for b in means] for a in means]) / sigma**2
    root = np.linalg.cholesky(gram)
    x, y = np.meshgrid(points, points, indexing="ij")
    losses = [root[0, 0] * x, root[1, 0] * x + root[1, 1] * y]
    ratio = sum(np.exp(g - gram[a, a] / 2) for a, g in enumerate(losses)) / 2
    return ratio, np.exp(-(x**2 + y**2) / 2) / (2 * math.pi) * (points[1] - points[0]) ** 2


@pytest.mark.parametrize(
    "chain", some(map(pytest.param, [(2, 2, 2.0, 0.6, 0.3), (2, 3, 3.0, 0.4, 0.0), (2, 1, 2.0, 0.5, 0.5)]))
)
def test_transforms_are_integrals_and_do_not_depend_on_the_turn(chain):
    ratio, weights = ratios(*chain, np.linspace(-9.0, 9.0, 241))
    for s in (1.5 + 0j, 0.5 + 2j):
        wanted = np.sum(weights * np.exp(-s * ratio))
        for turn in (0.0, 0.4, 0.9):
            found = transform(chain_of(*chain), lattice_of(0.25, 60, 1.0, turn), acb(s.real, s.imag))
            assert found == pytest.approx(wanted, abs=1e-11)
    # To the left of the imaginary axis there is the continuation alone.
    left = acb(-0.3, 2.0)
    both = [transform(chain_of(*chain), lattice_of(0.25, 60, 1.0, turn), left) for turn in (0.5, 1.0)]
    assert both[0] == pytest.approx(both[1], abs=1e-11)


def test_bins_that_are_taken_as_one_are_enclosed():
    chain, s = chain_of(6, 2, 3.0, 0.5, 0.4), acb(0.3, -1.0)
    each, merged = (
        correlated.Operators(chain, lattice_of(0.4, 40, 1.0, 0.3, alike)).transform(s) for alike in (6, 2)
    )
    assert merged.contains(each) or merged.overlaps(each)
    assert float(merged.real.rad()) > 1e3 * float(each.real.rad())


def sums_of_one(spacing, reach, turn, sigma=1e6):
    """Error of the sum for s next to 0 in a chain of one Gaussian, over e^(theta^2 B / 2)."""
    chain = chain_of(1, 1, sigma, 0.0, 0.0)
    factor = math.exp(-(turn**2) * float(chain.cost) / 2)
    lattice = lattice_of(spacing, reach, 1.0, turn)
    return abs(transform(chain, lattice, acb(1e-30)) - 1.0) * factor


@pytest.mark.parametrize("epochs", [1, 3])
def test_small_lattices_are_multiplied_by_complex_matrices(monkeypatch, epochs):
    """On a small lattice a product with the real matrix takes less than scaling before and after it.

    The limit on work counts products alone, so that small lattices are multiplied by complex matrices.
    """
    chain, lattice, rate = (
        chain_of(4, epochs, 2.0, 0.5, 0.5),
        lattice_of(0.5, 12, 1.0, 0.5),
        acb(-0.1, 0.05),
    )
    operators = correlated.Operators(chain, lattice)

    def refused(*_):
        raise AssertionError

    with monkeypatch.context() as patched:
        patched.setattr(operators, "moved_by_bins", refused)
        by_complex = operators.transform(rate)
        patched.setattr(correlated, "SMALL", 0)
        with pytest.raises(AssertionError):
            operators.transform(rate)
    monkeypatch.setattr(correlated, "SMALL", 0)
    by_real = operators.transform(rate)
    assert by_real.overlaps(by_complex)
    assert abs(by_real - by_complex) < 1e-20


def test_what_moves_all_points_at_once_is_charged():
    """Of closed chains with up to twelve equal bins each product with the real matrix scales all entries."""
    chain = chain_of(13, 2, 2.0, 0.5, 0.5)
    assert correlated.entries_of(chain, 57, 1) - correlated.entries_of(chain, 31, 1) > 12 * 57**2
    squared = chain_of(14, 2, 2.0, 0.5, 0.5)
    assert correlated.entries_of(squared, 57, 1) < correlated.entries_of(chain, 57, 1)


def test_aliases_of_the_lattice_are_nearly_attained():
    spacing = 1.75
    lattice = lattice_of(spacing, 40, 2 * math.pi / spacing, 0.0)
    error = float(correlated.error_of(chain_of(1, 1, 1e6, 0.0, 0.0), lattice, arb(0)))
    exact = sums_of_one(spacing, 40, 0.0)
    assert 0.9 * error < exact <= error


def test_turned_aliases_are_nearly_attained():
    # The pull is sigma: theta sigma = 0.8 moves one of the two nearest aliases towards 0.
    spacing, sigma = 1.75, 1e6
    turn = 0.8 / sigma
    lattice = lattice_of(spacing, 40, 2 * math.pi / spacing - 0.8, turn)
    error = float(correlated.error_of(chain_of(1, 1, sigma, 0.0, 0.0), lattice, arb(turn)))
    exact = sums_of_one(spacing, 40, turn)
    assert 0.5 * error < exact <= error


def test_two_coordinates_have_twice_the_aliases():
    spacing, chain = 1.75, chain_of(2, 1, 1e6, 0.0, 0.0)
    lattice = lattice_of(spacing, 40, 2 * math.pi / spacing, 0.0)
    error = float(correlated.error_of(chain, lattice, arb(0)))
    exact = abs(transform(chain, lattice, acb(1e-30)) - 1.0)
    assert 0.9 * error < exact <= error


def test_ends_of_the_lattice_are_nearly_attained():
    for bins in (1, 2):
        chain, lattice = chain_of(bins, 1, 1e6, 0.0, 0.0), lattice_of(0.05, 60, 10.0, 0.0)
        error = float(correlated.error_of(chain, lattice, arb(0)))
        exact = abs(transform(chain, lattice, acb(1e-30)) - 1.0)
        assert 0.8 * error < exact <= error


def test_lattices_that_are_moved_too_far_are_not_believed():
    chain = chain_of(2, 2, 2.0, 0.5, 0.5)
    with pytest.raises(NotProvenError, match="V21: the lattice is moved"):
        correlated.error_of(chain, lattice_of(0.3, 40, 3.2, 0.0), arb(0))
    with pytest.raises(NotProvenError, match="V21: the lattice is moved"):
        correlated.error_of(chain, lattice_of(0.3, 40, 0.1, 0.2), arb(1.8))


# ---- V22


def without_loss(monkeypatch, strike, start, scale, angle, spacing, nodes):
    """Enclosure of E[(K - 0)_+] by the transform 1, and the values of the sum and of its end."""
    contour = {"start": start, "scale": scale, "angle": angle, "spacing": spacing, "nodes": nodes}
    read = correlated.contour_of(contour)
    points = [read.at(j * read.spacing, read.angle) for j in range(nodes + 1)]
    monkeypatch.setattr(correlated, "transforms", lambda *_: (points, [acb(1)] * (nodes + 1), arb(0)))
    (found,) = correlated.puts({}, {"contour": contour}, [arb(strike)])
    return found


@pytest.mark.parametrize(
    ("strike", "start", "scale", "angle", "spacing", "nodes"),
    [
        # Nearly all of the bound is that of the line through s0, or of the outer hyperbola.
        (0.5250755, 23.42651, 213.2005, 0.04644823, 0.06042966, 130),
        (0.2286275, 2.216874, 2.175721, 0.7070172, 0.8852574, 9),
    ],
)
def test_errors_of_the_hyperbola_are_nearly_attained(
    strike, start, scale, angle, spacing, nodes, monkeypatch
):
    found = without_loss(monkeypatch, strike, start, scale, angle, spacing, nodes)
    exact, error = abs(float(found.mid()) - strike), float(found.rad())
    assert 0.6 * error < exact <= error


def test_what_is_beyond_the_hyperbola_is_nearly_attained(monkeypatch):
    # With little oscillation the terms that are left out have one sign.
    found = without_loss(monkeypatch, 1e-4, 1.0, 4.0, 0.12, 0.02, 120)
    exact, error = abs(float(found.mid()) - 1e-4), float(found.rad())
    assert 0.6 * error < exact <= error


def test_the_outer_hyperbola_is_bounded_tightly():
    contour = correlated.Contour(arb(8), arb(6), arb(0.4), arb(0.1), 10)
    u = np.linspace(-30.0, 30.0, 600_001)
    point = 8 - 6 * (math.sin(0.8) * np.cosh(u) - 1j * math.cos(0.8) * np.sinh(u))
    speed = 6 * np.hypot(math.cos(0.8) * np.cosh(u), math.sin(0.8) * np.sinh(u))
    exact = float(np.sum(speed / abs(point) ** 2) * 1e-4)
    assert exact < float(contour.outer) < 1.1 * exact


def test_hyperbolas_around_the_pole_are_not_believed():
    good = {"start": 8.0, "scale": 6.0, "angle": 0.4, "spacing": 0.1, "nodes": 10}
    correlated.contour_of(good)
    for change in ({"scale": 12.0}, {"angle": 0.8}):
        with pytest.raises(NotProvenError, match="V22: the hyperbola must cross"):
            correlated.contour_of(good | change)


# ---- certificates

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore::hockeystick.WideIntervalWarning")]

CURVES = {
    "one epoch": hs.privacy_curve(
        mechanism=hs.CorrelatedNoise.lambda_cgd(0.5, noise_multiplier=3.0), sampling=hs.FixedBins(3), steps=3
    ),
    "two bands": hs.privacy_curve(
        mechanism=hs.CorrelatedNoise.toeplitz([2.0, -0.6], noise_multiplier=6.0),
        sampling=hs.FixedBins(2),
        steps=2,
        adjacency="add",
    ),
    "two epochs": hs.privacy_curve(
        mechanism=hs.CorrelatedNoise.lambda_cgd(0.5, noise_multiplier=3.0),
        sampling=hs.FixedBins(2),
        steps=4,
        adjacency="remove",
    ),
    "a part": hs.privacy_curve(
        mechanism=hs.CorrelatedNoise.lambda_cgd(0.5, noise_multiplier=3.0),
        sampling=hs.FixedBins(2),
        steps=3,
        adjacency="add",
    ),
}
EPSILON = 0.6


@pytest.fixture(scope="module")
def certificates():
    """Certificates of delta at EPSILON, made when they are asked for."""
    made = {}

    def certificate(name):
        if name not in made:
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(bins_witness, "TOLERANCES", (1e-6,))
                made[name] = CURVES[name].certify(epsilon=EPSILON)
        return made[name]

    return certificate


@pytest.mark.parametrize("name", some(CURVES))
def test_certificates_are_proven_and_claim_no_more_than_is_true(name, certificates):
    curve, certificate = CURVES[name], certificates(name)
    verified, lines = certificate.verify()
    assert verified, lines
    least, most = (float(end) for end in curve.bounds(epsilon=EPSILON))
    upper, *lower = certificate.claims
    assert most * (1 - 1e-6) <= upper["at_most"] < most * (1 + 1e-5)
    assert len(lower) == (name != "a part")
    assert all(least * (1 - 1e-5) < claim["at_least"] <= most for claim in lower)
    wrong = [upper | {"at_most": upper["at_most"] * (1 - 1e-4)}]
    wrong += [{"epsilon": EPSILON, "at_least": upper["at_most"] * (1 + 1e-4)}]
    for claim in wrong:
        assert not certificate.with_claims([claim]).verify()[0]


def test_epsilon_is_certified_at_a_delta():
    certificate = CURVES["one epoch"].certify(delta=1e-4)
    assert certificate.verify()[0]
    upper, lower = certificate.claims
    least, most = (float(end) for end in CURVES["one epoch"].bounds(delta=1e-4))
    assert lower["epsilon"] <= most
    assert least <= upper["epsilon"] < most * (1 + 1e-5)
    with pytest.raises(TypeError, match="exactly one"):
        CURVES["one epoch"].certify()


@pytest.mark.parametrize("way", ["add", pytest.param("remove", marks=pytest.mark.long)])
def test_two_bins_in_two_epochs_are_an_integral(way):
    ratio, weights = ratios(2, 2, 3.0, 0.5, 0.5, np.linspace(-8.0, 8.0, 1201))
    growth = math.exp(EPSILON)
    positive = np.maximum(ratio - growth, 0) if way == "remove" else np.maximum(1 - growth * ratio, 0)
    true = float(np.sum(weights * positive))
    run = {"mechanism": CURVES["two epochs"].mechanism, "sampling": hs.FixedBins(2), "steps": 4}
    document = json.loads(hs.privacy_curve(**run, adjacency=way).certify(epsilon=EPSILON).to_json())
    lower, upper = proven(document["run"], document["witness"][way], EPSILON, way)
    assert lower * (1 - 1e-5) <= true <= upper * (1 + 1e-5)
    assert upper - lower < 1e-6 * true


def test_one_bin_is_a_gaussian():
    run = {"mechanism": hs.CorrelatedNoise.lambda_cgd(0.5, noise_multiplier=4.0), "sampling": hs.FixedBins(1)}
    certificate = hs.privacy_curve(**run, steps=2, adjacency="remove").certify(epsilon=0.2)
    (mean,) = means_of(1, 2, 0.5, 0.5)
    mu = math.sqrt(mean @ mean) / 4.0
    true = float(ndtr(mu / 2 - 0.2 / mu) - math.exp(0.2) * ndtr(-mu / 2 - 0.2 / mu))
    upper, lower = certificate.claims
    assert lower["at_least"] <= true <= upper["at_most"] < true * (1 + 1e-6)


def verified_with(document, part, path, value):
    """Verify a document with another value at the path below one of its parts."""
    *keys, last = path
    for key in keys:
        part = part[key]
    part[last] = value
    return hockeystick_verify.verify_text(json.dumps(document))


@pytest.mark.parametrize(
    ("name", "path", "value", "reason"),
    [
        ("one epoch", ("mechanism", "noise_multiplier"), 2.999, "the proven interval"),
        ("two bands", ("mechanism", "first"), 0.301, "the proven interval"),
        ("two bands", ("mechanism", "noise_multiplier"), 2.99, "the proven interval"),
        ("two bands", ("sampling", "batches"), 1, "the proven interval"),
        ("a part", ("count",), 5, "the proven interval"),
        ("a part", ("count",), 4, "verified"),
        ("one epoch", ("mechanism", "decay"), 1.0, "decay must be below 1"),
        ("one epoch", ("mechanism", "first"), 1.5, "first below 1 + decay"),
        ("one epoch", ("mechanism", "first"), -0.5, "first must be a number"),
        ("one epoch", ("mechanism", "name"), "gaussian", "mechanism must be one of"),
        ("one epoch", ("sampling", "name"), "random_allocation", "sampling under correlated noise"),
        ("one epoch", ("group", "size"), 2, "one record of norm 1"),
        ("one epoch", ("group", "norms"), [0.5], "one record of norm 1"),
        ("one epoch", ("group", "rates"), [0.5], "one record of norm 1"),
    ],
)
def test_a_run_that_is_another_one_is_not_proven(name, path, value, reason, certificates):
    document = json.loads(certificates(name).to_json())
    verified, lines = verified_with(document, document["run"]["steps"][0], path, value)
    assert verified == (reason == "verified")
    assert reason in lines[0]


def step(**changes):
    noise = {"name": "correlated_gaussian", "noise_multiplier": 3.0, "first": 0.5, "decay": 0.5}
    bins = {"name": "fixed_bins", "batches": 3}
    return {"mechanism": noise, "sampling": bins, "group": {"size": 1}, "count": 3} | changes


@pytest.mark.parametrize(
    ("steps", "way", "reason"),
    [
        ([step(), step(count=6)], "remove", "must be a list of 1 to 1"),
        ([step()], "replace", "direction under correlated noise"),
        ([step(sampling={"name": "full_batch"})], "remove", "lacks 'batches'"),
        ([step(count=10**9)], "remove", "epochs must be a whole number"),
        ([step(adjacency="add")], "mixed", "direction under correlated noise"),
        ([step(adjacency="add_remove")], "mixed", "witness lacks 'remove'"),
    ],
)
def test_bins_without_a_known_chain_are_refused(steps, way, reason, certificates):
    witness = json.loads(certificates("one epoch").to_json())["witness"]["remove"]
    with pytest.raises(RefusedError, match=reason):
        proven({"adjacency": way, "steps": steps}, witness, 0.5, way)


@pytest.mark.parametrize("method", [None, "allocation", "lattice"])
def test_other_proofs_refuse_correlated_noise(method):
    witness = {"bits": 128}
    if method == "allocation":
        witness |= {"method": method, "spacing": 0.1, "terms": 9, "rules": []}
    elif method == "lattice":
        witness |= {"method": method, "spacing": 0.5, "points": 64, "first": -32, "kinds": []}
        witness |= {"tilt": 1.0, "outer_tilt": 2.0, "left_tilt": 1.0}
    with pytest.raises(RefusedError, match=r"(mechanism|sampling) must be one of"):
        proven({"adjacency": "remove", "steps": [step()]}, witness, 0.5)


@pytest.mark.parametrize(
    ("path", "value", "reason"),
    [
        (("contour", "nodes"), 5, "the proven interval"),
        (("contour", "spacing"), 1.0, "the proven interval"),
        (("contour", "scale"), 1e3, "V22: the hyperbola must cross"),
        (("contour", "nodes"), 2000, "more nodes, or points of the lattice"),
        (("lattice", "spacing"), 3.0, "the proven interval"),
        (("lattice", "reach"), 5, "the proven interval"),
        (("lattice", "reach"), 500, "more nodes, or points of the lattice"),
        (("lattice", "shift"), 5.0, "V21: the lattice is moved"),
        (("lattice", "turn"), 1.6, "V21: the lattice is moved"),
        (("lattice", "turn"), -0.1, "turn must be a number"),
        (("bits",), 64, "the proven interval"),
    ],
)
def test_tampered_witnesses_fail_for_the_right_reason(path, value, reason, certificates):
    document = json.loads(certificates("two epochs").to_json())
    verified, lines = verified_with(document, document["witness"]["remove"], path, value)
    assert not verified
    assert reason in lines[0]


def test_runs_that_would_take_the_checker_long_are_refused_by_name():
    noise = hs.CorrelatedNoise.lambda_cgd(0.5, noise_multiplier=2.0)
    curve = hs.privacy_curve(mechanism=noise, sampling=hs.FixedBins(100), steps=100)
    with pytest.raises(hs.UnsupportedError, match="more than a minute or two"):
        curve.certify(epsilon=1.0)


def test_random_changes_never_raise_anything_but_the_two_errors(certificates):
    generator = np.random.default_rng(4)
    values = (None, True, "x", -1, 0, 1e-300, 1e300, 2**70, [], {}, [1.0], 0.5)
    for _ in range(40):
        document = place = json.loads(certificates("one epoch").to_json())
        while True:
            keys = list(place) if isinstance(place, dict) else list(range(len(place)))
            key = keys[int(generator.integers(len(keys)))]
            if isinstance(place[key], dict | list) and place[key] and generator.random() < 0.8:
                place = place[key]
                continue
            place[key] = values[int(generator.integers(len(values)))]
            break
        hockeystick_verify.verify_text(json.dumps(document))


def test_processes_prove_the_same(certificates):
    document = json.loads(certificates("one epoch").to_json())
    assert check(document, processes=2) == check(document)


def test_divergences_of_random_bins_are_refused_by_name_and_what_is_said_instead_works():
    curve = CURVES["one epoch"]
    for about, match in (
        ({"order": 4.0}, r"certify\(order=4.0\).*FixedOrder"),
        ({"alpha": 0.1}, "give epsilon"),
    ):
        with pytest.raises(hs.UnsupportedError, match=match):
            curve.certify(**about)
    with pytest.raises(TypeError, match="exactly one"):
        curve.certify(order=4.0, delta=1e-5)
    instead = hs.privacy_curve(
        mechanism=curve.mechanism,
        sampling=hs.FixedOrder(curve.sampling.batches),
        steps=curve.steps,
        adjacency=curve.adjacency,
    )
    assert instead.certify(order=4.0).verify()[0]
    assert instead.delta(EPSILON) >= curve.delta(EPSILON)
