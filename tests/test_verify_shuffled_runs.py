"""Certificates of shuffled batches, and what the checker does not believe of them (V28)."""

import json
from collections import Counter

import numpy as np
import pytest
from click.testing import CliRunner
from test_verify_shuffled import ALL, PUBLISHED, largest_output, proven, run_of, step

import hockeystick as hs
from hockeystick.cli._commands import hockeystick
from hockeystick_verify import NotProvenError, RefusedError, check, shuffled, shuffled_pair

EPOCH = {"noise_multiplier": 1.0, "sampling": hs.Shuffle(600, 60_000), "adjacency": "zero_out", "steps": 100}


def relative(found, wanted):
    return found / wanted - 1.0


RUNS = {
    "one epoch": (EPOCH, 1e-5),
    "much noise": (EPOCH | {"noise_multiplier": 2.0}, 1e-5),
    "ten epochs": (EPOCH | {"steps": 1000}, 1e-5),
    "a part": (EPOCH | {"steps": 250, "sampling": hs.Shuffle(600, 60_123)}, 1e-6),
    "replaced": (EPOCH | {"steps": 250, "adjacency": "replace"}, 1e-5),
    "group": (EPOCH | {"noise_multiplier": 4.0, "steps": 200, "group_size": 5}, 1e-7),
    "tiny delta": (EPOCH | {"noise_multiplier": 3.0, "steps": 300}, 1e-90),
    "many epochs": (EPOCH | {"noise_multiplier": 10.0, "steps": 80_000}, 1e-5),
    "less than an epoch": (EPOCH | {"steps": 30}, 1e-5),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", RUNS)
def test_certificates_have_the_ends_of_the_engine(name):
    arguments, delta = RUNS[name]
    found = hs.privacy_curve(**arguments)
    lower, upper = found.bounds(delta=delta)
    certificate = found.certify(delta=delta)
    verified, lines = certificate.verify()
    assert verified, lines
    above, below = certificate.claims
    assert 0.0 <= relative(above["epsilon"], upper) < 1e-9
    assert relative(below["epsilon"], lower) > -1e-3
    assert below["epsilon"] < above["epsilon"]
    wrong = [{"epsilon": upper * (1 - 1e-5), "at_most": delta}, {"epsilon": upper, "at_least": delta * 1.01}]
    for claim in wrong:
        assert not certificate.with_claims([claim]).verify()[0]


def test_delta_is_certified_at_an_epsilon():
    found = hs.privacy_curve(**EPOCH)
    lower, upper = found.bounds(epsilon=4.0)
    certificate = found.certify(epsilon=4.0)
    above, below = certificate.claims
    assert above == {"epsilon": 4.0, "at_most": pytest.approx(upper, rel=1e-9)}
    assert below == {"epsilon": 4.0, "at_least": pytest.approx(lower, rel=1e-4)}
    (first, _) = check(json.loads(certificate.to_json()))
    assert (first.lower, first.upper) == (below["at_least"], above["at_most"])
    assert certificate.verify()[0]


@pytest.mark.slow
def test_noise_that_changes_is_certified():
    parts = [hs.privacy_curve(**EPOCH | {"noise_multiplier": noise}) for noise in (1.5, 2.0, 2.5)]
    found = parts[0] + parts[1] + parts[2]
    lower, upper = found.bounds(delta=1e-5)
    above, below = found.certify(delta=1e-5).claims
    assert 0.0 <= relative(above["epsilon"], upper) < 1e-9
    assert below["epsilon"] > lower  # the engine takes the largest noise of all of them
    group = hs.privacy_curve(**EPOCH | {"noise_multiplier": 4.0, "group_size": 3})
    group = group + hs.privacy_curve(**EPOCH | {"noise_multiplier": 6.0, "group_size": 3})
    certificate = group.certify(delta=1e-5)
    assert certificate.verify()[0]
    assert 0.0 <= relative(certificate.claims[0]["epsilon"], group.bounds(delta=1e-5)[1]) < 1e-3


def test_divergences_and_tradeoff_functions_are_certified():
    found = hs.privacy_curve(**EPOCH | {"group_size": 4, "adjacency": "replace", "noise_multiplier": 8.0})
    certificate = found.certify(order=6.0)
    assert certificate.claims == [{"order": 6.0, "at_most": pytest.approx(found.renyi(6.0), rel=1e-9)}]
    assert certificate.verify()[0]
    certificate = found.certify(alpha=0.1)
    assert certificate.claims[0]["at_least"] == pytest.approx(found.beta(0.1), rel=1e-3)
    assert certificate.claims[0]["at_least"] <= found.beta(0.1) * (1 + 1e-9)
    verified, lines = certificate.verify()
    assert verified, lines
    assert "beta(0.1) >= " in lines[1]
    with pytest.raises(ValueError, match="order must be in"):
        found.certify(order=1.0)
    with pytest.raises(ValueError, match="alpha must be in"):
        found.certify(alpha=0.0)


def test_runs_without_a_certificate_are_refused_by_name():
    silent = hs.ShuffledCurve(hs.Shuffle(2, 4), ((1e-4, 2),))
    with pytest.raises(hs.UnsupportedError, match=r"noise from 0\.001 to 1e\+09, got 0\.0001"):
        silent.certify(epsilon=1.0)
    with pytest.raises(hs.UnsupportedError, match="1 to 64 noise multipliers"):
        hs.ShuffledCurve(hs.Shuffle(2, 4), tuple((1.0 + i, 2) for i in range(65))).certify(delta=1e-5)
    with pytest.raises(hs.UnsupportedError, match="got 0"):
        (hs.privacy_curve(**EPOCH) * 0).certify(epsilon=1.0)
    with pytest.raises(TypeError, match="exactly one"):
        hs.privacy_curve(**EPOCH).certify()
    with pytest.raises(ValueError, match="delta"):
        hs.privacy_curve(**EPOCH).certify(delta=2.0)


@pytest.mark.slow
def test_large_groups_are_followed_or_refused():
    run = {"noise_multiplier": 40.0, "sampling": hs.Shuffle(50, 5000), "adjacency": "zero_out", "steps": 100}
    found = hs.privacy_curve(group_size=100, **run)
    lower, upper = found.bounds(delta=1e-5)
    above, below = found.certify(delta=1e-5).claims
    assert 0.0 <= relative(above["epsilon"], upper) < 1e-9
    assert below["epsilon"] > 1.2 * lower  # the engine follows 64 members
    with pytest.raises(hs.UnsupportedError, match=r"the checker proves epsilon <= .* only, where"):
        hs.privacy_curve(group_size=600, **run).certify(delta=1e-5)


def test_the_work_is_shared_and_reported():
    seen = []
    found = hs.privacy_curve(**EPOCH | {"steps": 300, "group_size": 2})
    certificate = found.certify(delta=1e-5, progress=lambda done, total: seen.append((done, total)))
    assert seen[-1] == (100, 100)
    assert len(seen) > 5
    document = json.loads(certificate.to_json())
    shuffled_pair.known_cells.cache_clear()
    alone = check(document)
    shuffled_pair.known_cells.cache_clear()
    assert check(document, processes=2) == alone


def test_reports_and_the_command_line_have_the_certificate(tmp_path):
    found = hs.privacy_curve(**EPOCH)
    page = hs.report(found, tmp_path / "card.md", certified=True, group_sizes=[1]).read_text("utf-8")
    assert "## Independently verified" in page
    assert "4.0631 and 4.3772; this is proven" in page
    document = json.loads(hs.report(found, tmp_path / "card.json", certified=True).read_text("utf-8"))
    assert document["guarantee"]["epsilon"] == found.certify(delta=1e-5).claims[0]["epsilon"]
    assert document["guarantee"]["epsilon_at_least"] == found.certify(delta=1e-5).claims[1]["epsilon"]
    path = str(tmp_path / "made.json")
    sizes = ["--sampling", "shuffle", "--batch-size", "600", "--dataset-size", "60000"]
    run = ["--noise-multiplier", "1", "--steps", "100", "--adjacency", "zero_out", *sizes]
    made = CliRunner().invoke(hockeystick, ["certify", "--path", path, "--delta", "1e-5", *run])
    assert made.exit_code == 0, made.output
    assert CliRunner().invoke(hockeystick, ["verify", path]).exit_code == 0


# ---- what is not believed


@pytest.fixture(scope="module")
def document():
    found = hs.privacy_curve(**EPOCH | {"steps": 250, "group_size": 2}).certify(delta=1e-5)
    return found.to_json()


@pytest.mark.parametrize(
    ("path", "value", "fails"),
    [
        ("mechanism noise_multiplier", 0.9, 0),
        ("mechanism noise_multiplier", 1.1, 1),
        ("group size", 3, 0),
        ("group size", 1, 1),
        ("count", 301, 0),
        ("count", 199, 1),
    ],
)
def test_another_run_has_other_ends(document, path, value, fails):
    changed = json.loads(document)
    entry, (*names, last) = changed["run"]["steps"][0], path.split()
    for name in names:
        entry = entry[name]
    entry[last] = value
    if path == "group size" and value == 1:
        changed["witness"]["zero_out"]["lower"]["members"] = 1
    assert [each.holds for each in check(changed)].index(False) == fails


def test_another_data_set_has_other_epochs(document):
    changed = json.loads(document)
    changed["run"]["steps"][0]["sampling"]["dataset_size"] = 30_000
    with pytest.raises(RefusedError, match="parts must be a list of 1 to 1 entries"):
        check(changed)
    changed = json.loads(document)
    changed["run"]["adjacency"] = "replace"
    with pytest.raises(RefusedError, match="witness lacks 'replace'"):
        check(changed)


def changes(document, generator):
    """Return a certificate with one number of its witness changed."""
    changed = json.loads(document)
    ends = changed["witness"]["zero_out"]
    where = str(generator.choice(("upper", "window", "edges", "members", "order", "unit", "block")))
    factor = float(generator.choice((0.0, 0.5, 0.9, 0.999, 1.001, 1.1, 2.0, 10.0)))
    lower = ends["lower"]
    if where == "upper":
        name = str(generator.choice(("pairs", "unit", "values", "coarser", "from")))
        value = ends["upper"][name]
        ends["upper"][name] = "most" if name == "from" else type(value)(value * factor)
    elif where == "window":
        name = str(generator.choice(list(lower["window"])))
        value = lower["window"][name]
        lower["window"][name] = type(value)(value * factor)
    elif where == "members":
        lower["members"] = 1
    elif where == "order":
        lower["order"] = "second"
    else:
        part = lower["parts"][int(generator.integers(2))]
        if where == "edges":
            part["edges"] = sorted(
                {int(edge * factor) for edge in part["edges"][:: int(generator.integers(1, 9))]}
            )
        elif where == "unit":
            part["unit"] *= factor
        else:
            part["block"] = int(generator.integers(1, 51))
    return changed


@pytest.mark.slow
def test_changed_witnesses_prove_nothing_that_is_false(document):
    """Any upper end is at least the mean over all placements, and any lower end is below it."""
    generator, outcomes = np.random.default_rng(28), Counter()
    found = hs.privacy_curve(**EPOCH | {"steps": 250, "group_size": 2})
    above, below = (claim["epsilon"] for claim in json.loads(document)["claims"])
    most = {at: float(found.bounds(epsilon=at)[1]) for at in (above, below)}
    for _ in range(60):
        changed = changes(document, generator)
        try:
            ends = check(changed)
        except (RefusedError, NotProvenError):
            outcomes["refused"] += 1
            continue
        assert ends[0].upper >= most[above] * (1 - 1e-6)
        assert ends[1].lower <= most[below] * (1 + 1e-6)
        assert ends[1].lower <= 1.02e-5  # what the best witness proves there
        outcomes["proven"] += 1
    assert outcomes["proven"] > 15
    assert outcomes["refused"] > 5


def refused(run, claims=({"epsilon": 1.0, "at_most": 1.0},), **ends):
    with pytest.raises(RefusedError) as error:
        proven(run, list(claims), **ends)
    return str(error.value)


def test_runs_that_are_not_covered_are_refused_by_name():
    one = step(1.0, 2)
    assert "adjacency of shuffled batches" in refused(run_of(one, adjacency="remove"))
    poisson = one | {"sampling": {"name": "poisson", "sample_rate": 0.5}}
    assert "sampling beside shuffled batches" in refused(run_of(one, poisson))
    laplace = one | {"mechanism": {"name": "laplace", "noise_multiplier": 1.0}}
    assert "mechanism of shuffled batches" in refused(run_of(laplace))
    assert "noise_multiplier must be" in refused(run_of(step(1e-4, 2)))
    assert "group of shuffled batches has an unknown entry 'rates'" in refused(
        run_of(one | {"group": {"size": 1, "rates": [0.5]}})
    )
    assert "more records than the data set" in refused(run_of(step(1.0, 2, size=6)))
    assert "more records than the data set" in refused(run_of(step(1.0, 2, batch=6)))
    assert "one data set, batch size and group" in refused(run_of(one, step(2.0, 2, size=2)))
    assert "kinds of epochs" in refused(run_of(*(step(1.0 + i, 2) for i in range(70))))
    assert "divergence of shuffled batches have 'at_most'" in refused(
        run_of(one), [{"order": 2.0, "at_least": 0.0}]
    )
    found = json.loads(
        hs.privacy_curve(noise_multiplier=1.0, sample_rate=0.1, steps=2).certify(epsilon=1.0).to_json()
    )
    found["witness"]["remove"] = {"bits": 128, "method": "shuffled", "upper": PUBLISHED, "lower": None}
    with pytest.raises(RefusedError, match="method must be one of"):
        check(found)


def test_witnesses_that_do_not_fit_are_refused_by_name():
    run, least = run_of(step(1.0, 2, 2, 4)), [{"epsilon": 1.0, "at_least": 0.0}]
    part = {"block": 1, "unit": 0.1, "edges": [1, 2]}
    assert "method for shuffled batches" in refused(run, method="lattice")
    assert "upper must be an object" in refused(run, upper=None)
    assert "output must be one of" in refused(run, least, lower=None)
    assert "must ascend" in refused(run, least, lower=largest_output([part | {"edges": [2, 2]}]))
    assert "no epoch of the run" in refused(run, least, lower=largest_output([None]))
    assert "block must be" in refused(run, least, lower=largest_output([part | {"block": 3}]))
    assert "members must be" in refused(run, least, lower=largest_output([part], members=2))
    assert "parts must be" in refused(run, least, lower=largest_output([part, part]))
    assert "order must be" in refused(run, least, lower=largest_output([part], order="third"))
    several = run_of(step(1.0, 4, 2, 4))
    assert "need a window" in refused(several, least, lower=largest_output([part]))
    assert "from must be" in refused(run, upper=ALL | {"from": "middle"})
    assert "coarser must be" in refused(run, upper=ALL | {"coarser": 0})


def test_work_is_bounded_before_it_is_done(monkeypatch):
    large, least = run_of(step(1.0, 1, 100, 10_000, 4000)), [{"epsilon": 1.0, "at_least": 0.0}]
    assert "would take too long to count" in refused(large, upper=ALL | {"pairs": 1000})
    assert "groups of up to 4096" in refused(run_of(step(1.0, 1, 100, 10_000, 5000)), upper=ALL)
    long = run_of(step(1.0, 10**9))
    assert "more values than are computed" in refused(long, upper=ALL | {"from": "most", "values": 100_000})
    with monkeypatch.context() as patch:
        patch.setattr(shuffled, "LARGEST_EVALUATIONS", 8)
        assert "more values than are computed" in refused(run_of(step(1.0, 20)), upper=ALL)
    edges = {"block": 1, "unit": 1e-3, "edges": list(range(30_000))}
    group = run_of(step(1.0, 1000, 100, 100_000, 64))
    assert "more cells than are computed" in refused(group, least, lower=largest_output([edges], members=64))
    window = {
        "spacing": 0.1,
        "points": 1 << 18,
        "first": -5,
        "tilt": 1.0,
        "outer_tilt": 2.0,
        "left_tilt": 0.0,
    }
    part = {"block": 1, "unit": 0.1, "edges": [1, 2]}
    lower = largest_output([part], window=window)
    assert "longer window" in refused(run_of(step(1.0, 8, 2, 4)), least, lower=lower)
    with pytest.raises(NotProvenError, match="window must begin below epsilon"):
        proven(
            run_of(step(1.0, 8, 2, 4)),
            least,
            lower=largest_output([part], window=window | {"points": 64, "first": 11}),
        )


def test_all_kinds_of_epochs_share_the_bounds_on_work(monkeypatch):
    """Each limit is about the whole run: many kinds of epochs took many times as long as one."""
    kinds = run_of(*(step(1.0 + i / 97, 1000 * 20, 1000, 10**6, 3) for i in range(4)))
    fine = {"pairs": 3, "unit": 0.01, "values": 400, "from": "most", "coarser": 1}
    assert proven(kinds, [{"epsilon": 1.0, "at_most": 1.0}], upper=fine)
    with monkeypatch.context() as patch:
        # Three products of 401 places, with one and a half times as many bits as usual.
        patch.setattr(shuffled, "LARGEST_PRODUCTS", 3 * 401**2 * 192 // 128 - 1)
        assert "more values than are computed" in refused(kinds, upper=fine)
        assert proven(run_of(kinds["steps"][0]), [{"epsilon": 1.0, "at_most": 1.0}], upper=fine)
    for name in ("LARGEST_POWER", "LARGEST_POWERS"):
        with monkeypatch.context() as patch:
            patch.setattr(shuffled, name, 1)
            assert "more values than are computed" in refused(kinds, upper=fine)
    products = run_of(*(step(1.0 + i / 97, 1000 * 8000, 1000, 10**6, 3) for i in range(4)))
    assert "more values than are computed" in refused(products, upper=fine | {"unit": 1.0, "values": 131071})
    window = {
        "spacing": 0.1,
        "points": 131_071,
        "first": -5,
        "tilt": 1.0,
        "outer_tilt": 2.0,
        "left_tilt": 1.0,
    }
    parts = [{"block": 1, "unit": 0.1, "edges": [1, 2]}] * 7
    several = run_of(*(step(1.0 + i / 97, 2, 2, 4) for i in range(7)))
    least = [{"epsilon": 1.0, "at_least": 0.0}]
    assert "longer window" in refused(several, least, lower=largest_output(parts, window=window))


def test_laws_of_large_groups_are_computed_once_for_all_noise():
    """Eight kinds of epochs of 4,096 members took minutes: every law was made anew."""
    run = shuffled.read_run(run_of(*(step(1.0 + i / 97, 9, 10**11, 10**12 - 1, 4096) for i in range(8))))
    shuffled.known_law.cache_clear()
    entry = {"pairs": 0, "unit": 1.0, "values": 100, "from": "least", "coarser": 1}
    law = shuffled.law_of_run(run, entry)
    assert shuffled.known_law.cache_info().misses == 1
    one = shuffled.law_of_part(run, 9, 0)
    assert set(one) == set(range(10))  # so many members, each in a batch of its own
    assert float(sum(one.values())) < 1.0 + 1e-9
    assert law.rest >= 0


@pytest.mark.slow
def test_many_kinds_of_noise_are_certified_within_the_limits():
    """With so many kinds of epochs the maker lists fewer places of the law."""
    curve = hs.privacy_curve(**EPOCH | {"noise_multiplier": 4.0, "group_size": 2})
    for i in range(1, 24):
        curve = curve + hs.privacy_curve(**EPOCH | {"noise_multiplier": 4.0 + i / 97, "group_size": 2})
    certificate = curve.certify(epsilon=1.0)
    assert certificate.verify()[0]
    assert 0.0 <= relative(certificate.claims[0]["at_most"], curve.bounds(epsilon=1.0)[1]) < 1e-2
