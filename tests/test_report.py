"""Reports: one file that says what is guaranteed, on the safe side, and discloses nothing else."""

import base64
import os
import re
import stat
import sys
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from report_pages import page, words

import hockeystick as hs
from hockeystick.accountants import (
    GroupAccountant,
    IndividualAccountant,
    MonteCarloAccountant,
    RenyiGroupAccountant,
    ShuffleAccountant,
)

RUN = {"noise_multiplier": 1.0, "sample_rate": 0.01, "steps": 100}
CURVE = hs.privacy_curve(**RUN)


def followed(accountant, history=((1.0, 0.01, 100),)):
    accountant.history = list(history)
    return accountant


def code_of(markdown):
    (code,) = re.findall(r"```python\n(.*?)\n```", markdown, re.DOTALL)
    return code


def test_the_page_says_what_is_guaranteed(tmp_path):
    found = page(CURVE, tmp_path, dataset_size=10_000, pictures=False)
    text = words(found)
    shown = float(
        re.search(r"epsilon = ([\d.]+) and delta = 1 in 100,000 for one record that is added", text)[1]
    )
    lower, upper = CURVE.bounds(delta=1e-5)
    assert upper <= shown <= upper * (1 + 2e-4)
    times = float(re.search(r"more than ([\d.]+) times as likely in one case as in the other", text)[1])
    assert np.exp(upper) <= times <= np.exp(upper) * 1.01
    tradeoff = hs.TradeoffCurve.from_curve(CURVE)
    right = float(re.search(r"right in at most ([\d.]+) %", text)[1]) / 100
    assert tradeoff.attack_success(0.5) <= right <= tradeoff.attack_success(0.5) * 1.01
    hits = float(re.search(r"false alarm in 1 % of the cases finds at most ([\d.]+) %", text)[1]) / 100
    assert 1 - tradeoff(0.01) <= hits <= (1 - tradeoff(0.01)) * 1.01
    assert found.row("noise that is added")[1].endswith("of one record (noise multiplier 1)")
    assert "joins a batch with a probability of 0.01" in found.row("how batches are drawn")[1]
    assert (
        found.row("how close to the truth")[1] == "exact: there are data for which no smaller epsilon holds"
    )
    assert found.row("proven by")[1] == "GROUP, Theorem 18"
    assert found.row("attacker")[1] == "an adversary who sees the output of every step"
    said = found.row("epsilon lies between")[1]
    ends = [float(end) for end in re.match(r"([\d.]+) and ([\d.]+); this is proven", said).groups()]
    assert found.row("certified interval of epsilon")[1].startswith(f"{said.partition(';')[0]}, for the dom")
    assert ends[0] <= lower <= upper <= ends[1]
    assert ends[1] == shown  # one epsilon with one rounding
    assert ends[1] - ends[0] < 2e-4 * upper


def test_large_factors_are_written_without_an_exponent(tmp_path):
    run = hs.privacy_curve(noise_multiplier=1.0, sample_rate=256 / 60_000, steps=2344, group_size=8)
    text = words(page(run, tmp_path, pictures=False))
    factor = re.search(r"more than (\S+) times as likely", text)[1]
    assert re.fullmatch(r"\d{1,3}(,\d{3})+", factor)
    assert np.exp(run.epsilon(1e-5)) <= float(factor.replace(",", "")) <= 1.01 * np.exp(run.epsilon(1e-5))


def test_other_names_of_arguments_are_answered_with_ours(tmp_path):
    with pytest.raises(TypeError, match="did you mean target"):
        hs.report(CURVE, tmp_path / "a.md", target_epsilon=3)
    with pytest.raises(TypeError, match="did you mean records_per_person"):
        hs.plan(epsilon=3, delta=1e-5, dataset_size=1000, epochs=1, records_per_user=4)


def test_the_page_has_groups_schemes_and_deltas(tmp_path):
    found = page(CURVE, tmp_path, dataset_size=10_000, group_sizes=[1, 3, 9], delta=1e-6, pictures=False)
    for size in (1, 3, 9):
        epsilon = hs.get_epsilon(delta=1e-6, group_size=size, **RUN)
        assert epsilon <= float(found.row(str(size))[1]) <= epsilon * (1 + 2e-4)
    for other in hs.explain(delta=1e-6, dataset_size=10_000, **RUN)["other_schemes"][:-1]:
        assert float(found.row(other["scheme"])[1]) == pytest.approx(other["epsilon"], rel=2e-4)
    shuffled = followed(ShuffleAccountant(100, 10_000)).get_epsilon(1e-6)
    assert float(found.row("shuffling, replace")[1]) == pytest.approx(shuffled, rel=2e-4)
    for delta in (1e-4, 1e-5, 1e-6, 1e-7, 1e-8):
        assert (
            CURVE.epsilon(delta)
            <= float(found.row(f"1 in {round(1 / delta):,}")[1])
            <= CURVE.epsilon(delta) * (1 + 2e-4)
        )


@pytest.mark.parametrize(
    ("adjacency", "claim"),
    [
        ("remove", "times as likely with one record in the data as without, up to"),
        ("add", "times as likely without one record in the data as with, up to"),
        ("replace", "training on the data others in the place of one record. No outcome"),
    ],
)
def test_the_words_follow_the_relation(adjacency, claim, tmp_path):
    curve = hs.privacy_curve(adjacency=adjacency, **RUN)
    assert claim in words(page(curve, tmp_path, pictures=False))


@pytest.mark.slow
def test_it_stands_alone(tmp_path):
    found = page(followed(GroupAccountant(2)), tmp_path, target=1.0)
    assert not {"script", "link", "iframe", "object"} & set(found.tags)
    assert found.tags.count("img") == 5
    for name, value in found.attributes:
        assert not name.startswith("on")
        if name == "href":
            assert re.match(r"https://(arxiv\.org/abs|doi\.org)/|http://sites\.computer\.org/debull/", value)
        if name == "src":
            assert value.startswith("data:image/svg+xml;base64,")
            picture = base64.b64decode(value.partition(",")[2]).decode("utf-8")
            assert "<svg" in picture
            assert not re.search(r"<(script|image|text)\b|href=\"(?!#)", picture)
    assert ("content", "default-src 'none'; style-src 'unsafe-inline'; img-src data:") in found.attributes
    alternatives = [value for name, value in found.attributes if name == "alt"]
    assert len(alternatives) == 5
    assert all(alternatives)


@pytest.mark.slow
def test_it_does_not_use_the_picture_manager(tmp_path):
    import matplotlib as mpl
    from matplotlib import pyplot

    before, backend, figures = dict(mpl.rcParams), mpl.get_backend(), pyplot.get_fignums()
    page(CURVE, tmp_path)
    assert pyplot.get_fignums() == figures
    assert (dict(mpl.rcParams), mpl.get_backend()) == (before, backend)


@pytest.mark.slow
def test_the_same_arguments_give_the_same_file(tmp_path):
    first = hs.report(CURVE, tmp_path / "report.html").read_bytes()
    assert hs.report(hs.privacy_curve(**RUN), tmp_path / "report.html").read_bytes() == first


SOURCES = {
    "curve": CURVE,
    "two kinds": CURVE + hs.privacy_curve(noise_multiplier=3.0, sample_rate=0.1, steps=7),
    "replaced": hs.privacy_curve(
        noise_multiplier=4.0,
        sampling=hs.WithoutReplacement(10, 500),
        steps=400,
        adjacency="replace",
        group_size=2,
        tolerance=1e-4,
    ),
    "full batch": hs.privacy_curve(
        noise_multiplier=9.0, sampling=hs.FullBatch(), steps=3, adjacency="replace"
    ),
    "laplace": hs.privacy_curve(mechanism=hs.Laplace(1.3), sample_rate=0.05, steps=100),
    "response": hs.privacy_curve(mechanism=hs.RandomizedResponse(0.7), sample_rate=0.5, steps=3),
    "rates": hs.privacy_curve(group=hs.Group(rates=[0.1, 0.3]), noise_multiplier=2.0, steps=3),
    "norms": hs.privacy_curve(
        group=hs.Group(norms=[0.1, 0.3], gradients="orthogonal"),
        noise_multiplier=2.0,
        steps=3,
        sample_rate=0.1,
    ),
    "orthogonal": hs.privacy_curve(
        group=hs.Group(2, gradients="orthogonal"), noise_multiplier=2.0, steps=3, sample_rate=0.1
    ),
    "tradeoff": (hs.TradeoffCurve.gaussian(1 / 3).subsample(0.1) * 100).compose(
        hs.TradeoffCurve.gaussian(0.2)
    ),
    "points": hs.TradeoffCurve.from_points([0.0, 0.1, 1.0], [0.9, 0.6, 0.0]).inverse().group(2),
    "of curve": hs.TradeoffCurve.from_curve(CURVE).minimum(hs.TradeoffCurve.from_epsilon_delta(0.5, 1e-6)),
    "of shuffle": hs.shuffle.tradeoff(hs.Shuffle(10, 1000), noise_multiplier=7.0),
    "group": followed(
        GroupAccountant(3), [(1.0, 0.01, 5), (hs.Laplace(3.0), hs.FullBatch(), 2), (1.0, 0.1, 4)]
    ),
    "own rates": followed(GroupAccountant(group=hs.Group(rates=[0.1, 0.3])), [(1.0, 0.01, 5)]),
    "renyi": followed(RenyiGroupAccountant(3, "jensen", orders=[2.0, 4.5, 30.0, 900.0]), [(5.0, 0.01, 5)]),
    "skellam": followed(RenyiGroupAccountant(2), [(hs.Skellam(100.0), 0.1, 2)]),
    "simulation": followed(MonteCarloAccountant(2, samples=1000)),
    "shuffle": followed(ShuffleAccountant(10, 1000, 2, "batch")),
}

OPTIONS = {
    "title": "Digits: \"run\" 20 | 'final' {x} \\n",
    "details": {"learning rate": 0.5, "it's": 'a "quoted" | name', "β": "<b>`x`</b>"},
    "target": 3.0,
    "dataset_size": 10_000,
    "group_sizes": [1, 3],
}


@pytest.mark.slow
@pytest.mark.parametrize("name", SOURCES)
def test_the_code_in_it_makes_the_same_report(name, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    hs.report(SOURCES[name], "first.md", delta=1e-6)
    first = Path("first.md").read_text("utf-8")
    code = code_of(first)
    Path("first.md").unlink()
    space = {}
    exec(code, space)
    assert Path("first.md").read_text("utf-8") == first
    made = space.get("curve", space.get("accountant"))
    if not isinstance(made, hs.accountants.Accountant):
        assert made == SOURCES[name]
    printed = float(capsys.readouterr().out)
    source = SOURCES[name]
    assert printed == (source.get_epsilon(1e-6) if hasattr(source, "get_epsilon") else source.epsilon(1e-6))


class Fence(HTMLParser):
    """The text of the one block of code of a page."""

    def __init__(self, text):
        super().__init__()
        self.code, self.inside = "", False
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.inside |= tag == "code"

    def handle_endtag(self, tag):
        self.inside &= tag != "code"

    def handle_data(self, data):
        self.code += data if self.inside else ""


@pytest.mark.slow
@pytest.mark.parametrize("name", ["report.md", "report.html"])
@pytest.mark.parametrize("pictures", [True, False])
def test_the_code_in_it_keeps_every_option(name, pictures, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    hs.report(CURVE, name, delta=1e-6, pictures=pictures, **OPTIONS)
    first = Path(name).read_text("utf-8")
    code = code_of(first) if name.endswith(".md") else Fence(first).code
    Path(name).unlink()
    exec(code, {})
    assert Path(name).read_text("utf-8") == first


@pytest.mark.parametrize("draw", [0.1, hs.WithoutReplacement(2, 3), hs.FullBatch()])
def test_the_code_for_an_individual_accountant_makes_the_same_report(draw, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    accountant = IndividualAccountant(3, max_grad_norm=1 / 3)
    for noise in (1.0, 2.0):
        accountant.update_norms([0.1, 0.2, 0.3])
        for _ in range(5):
            accountant.step(
                noise_multiplier=noise, **{"sample_rate" if isinstance(draw, float) else "sampling": draw}
            )
    first = hs.report(accountant, "report.md", details={"learning rate": 0.5}).read_text("utf-8")
    Path("report.md").unlink()
    exec(code_of(first), {})
    assert Path("report.md").read_text("utf-8") == first


def test_markdown_says_the_same_numbers(tmp_path):
    markdown = hs.report(CURVE, tmp_path / "report.md", dataset_size=10_000).read_text("utf-8")
    rows = [line.strip("|").split(" | ") for line in markdown.splitlines() if line.startswith("|")]
    cells = [[cell.strip().replace("\\", "") for cell in row] for row in rows if "---" not in row[0]]
    found = page(CURVE, tmp_path, dataset_size=10_000, pictures=False)
    assert [row for row in found.rows if row] == [row for row in cells if row != ["", ""]]
    assert "<" not in markdown
    assert "![" not in markdown


def test_markdown_needs_no_matplotlib(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    hs.report(CURVE, tmp_path / "report.md")
    hs.report(CURVE, tmp_path / "report.html", pictures=False)
    with pytest.raises(ImportError, match=r'pip install "hockeystick\[plot\]"'):
        hs.report(CURVE, tmp_path / "other.html")
    assert not (tmp_path / "other.html").exists()


def individual(norms):
    accountant = IndividualAccountant(len(norms), max_grad_norm=2.0)
    accountant.update_norms(norms)
    for _ in range(30):
        accountant.step(noise_multiplier=1.0, sample_rate=0.1)
    return accountant


@pytest.mark.slow
@pytest.mark.parametrize("name", ["report.html", "report.md"])
def test_a_report_does_not_depend_on_the_norms_of_examples(name, tmp_path):
    some = hs.report(individual([0.1, 0.2, 0.3]), tmp_path / name).read_bytes()
    others = hs.report(individual([2.0, 2.0, 2.0]), tmp_path / name).read_bytes()
    assert some == others
    epsilons = individual([0.1, 0.2, 0.3]).get_epsilons(1e-5)
    for epsilon in epsilons:
        assert f"{epsilon:.3g}" not in some.decode("utf-8")
    assert "private data" in some.decode("utf-8")
    worst = hs.get_epsilon(delta=1e-5, noise_multiplier=1.0, sample_rate=0.1, steps=30)
    assert f"epsilon = {worst:.4g}"[:14] in some.decode("utf-8")


def test_texts_of_the_user_are_escaped(tmp_path):
    title, details = "<script>alert(1)</script>", {"rate | <b>": "*0.1* & `x`"}
    found = page(CURVE, tmp_path, title=title, details=details, pictures=False)
    assert "script" not in found.tags
    assert title in found.texts
    assert found.row("rate | <b>")[1] == "*0.1* & `x`"
    markdown = hs.report(CURVE, tmp_path / "r.md", title=title, details=details).read_text("utf-8")
    assert r"# \<script\>alert(1)\</script\>" in markdown
    assert r"| rate \| \<b\> | \*0.1\* &amp; \`x\` |" in markdown


def test_a_large_delta_is_noted(tmp_path):
    assert "Note: delta should" in words(page(CURVE, tmp_path, dataset_size=200_000, pictures=False))
    assert "Note: delta should" not in words(page(CURVE, tmp_path, dataset_size=20_000, pictures=False))


def test_the_size_of_the_data_set_is_taken_from_where_it_stands(tmp_path):
    fixed = hs.privacy_curve(noise_multiplier=1.0, sampling=hs.WithoutReplacement(10, 500), steps=300)
    for source in (fixed, followed(ShuffleAccountant(10, 500), [(1.0, 0.02, 3)]), individual([0.1] * 500)):
        assert ["records", "500"] in page(source, tmp_path, pictures=False, group_sizes=[1]).rows


def test_no_noise_is_no_guarantee(tmp_path):
    accountant = followed(GroupAccountant(), [(0.0, 0.1, 1)])
    text = words(page(accountant, tmp_path))
    assert "No guarantee at delta = 1 in 100,000 for one record" in text
    assert "times as likely" not in text


def test_clipping_of_batches_is_not_compared_with_other_schemes(tmp_path):
    text = words(page(SOURCES["shuffle"], tmp_path, pictures=False))
    assert "under other assumptions" not in text
    assert "strong adversary (knows batch membership)" in text


def test_an_existing_file_is_replaced_as_a_whole_or_not_at_all(tmp_path, monkeypatch):
    path = tmp_path / "report.md"
    path.write_text("old")
    monkeypatch.setattr(os, "replace", lambda *_: (_ for _ in ()).throw(OSError("disk")))
    with pytest.raises(OSError, match="disk"):
        hs.report(CURVE, path)
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]
    monkeypatch.undo()
    assert hs.report(CURVE, str(path)) == path
    assert path.read_text("utf-8").startswith("# Privacy report")
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.skipif(os.name != "posix", reason="permissions are those of POSIX")
def test_the_file_has_the_usual_permissions(tmp_path):
    usual = tmp_path / "usual"
    usual.touch()
    path = hs.report(CURVE, tmp_path / "report.md")
    assert stat.S_IMODE(path.stat().st_mode) == stat.S_IMODE(usual.stat().st_mode)


@pytest.mark.parametrize(
    ("source", "name", "options", "error", "message"),
    [
        (CURVE, "folder.html", {}, ValueError, "path must be a file, not an existing folder, got"),
        (
            CURVE,
            "report.pdf",
            {},
            ValueError,
            r"path must be a name that ends with one of \.html, \.htm, \.md",
        ),
        (CURVE, "missing/report.html", {}, ValueError, "path must be in a folder that exists"),
        (CURVE, None, {}, TypeError, "path must be a string or path-like, got int"),
        (CURVE, "r.md", {"delta": 0.0}, ValueError, r"delta must be in \(0, 1\), got 0.0"),
        (CURVE, "r.md", {"target": -1.0}, ValueError, r"target must be in \(0, inf\), got -1.0"),
        (CURVE, "r.md", {"group_sizes": [2, 1]}, ValueError, "group_sizes must be ascending"),
        (CURVE, "r.md", {"group_sizes": []}, ValueError, "group_sizes must be at least one size"),
        (CURVE, "r.md", {"dataset_size": 0}, ValueError, "dataset_size"),
        (CURVE, "r.md", {"details": [1]}, TypeError, "details must be a mapping, got list"),
        (CURVE, "r.md", {"details": {1: 2}}, TypeError, "a name in details must be a string"),
        (CURVE, "r.md", {"title": 3}, TypeError, "title must be a string"),
        (CURVE * 0, "r.md", {}, ValueError, "steps must be at least 1"),
        (GroupAccountant(), "r.md", {}, ValueError, "steps must be at least 1"),
        (3, "r.md", {}, TypeError, "curve_or_accountant must be a Run, a PrivacyCurve"),
        (None, "r.md", {}, TypeError, "give a curve or an accountant"),
    ],
)
def test_bad_arguments_are_refused_and_nothing_is_written(source, name, options, error, message, tmp_path):
    (tmp_path / "folder.html").mkdir()
    with pytest.raises(error, match=message):
        hs.report(source, 3 if name is None else tmp_path / name, **options)
    assert [path.name for path in tmp_path.rglob("*")] == ["folder.html"]


def test_the_verdict_is_a_sentence(tmp_path):
    epsilon = CURVE.epsilon(1e-5)
    met = words(page(CURVE, tmp_path, target=epsilon * 1.001, pictures=False))
    missed = words(page(CURVE, tmp_path, target=epsilon * 0.999, pictures=False))
    assert "The target is met: epsilon is" in met
    assert "The target is NOT met: epsilon is" in missed
    assert "The target" not in words(page(CURVE, tmp_path, pictures=False))


def test_it_says_who_is_protected_and_who_is_less(tmp_path):
    found = words(page(followed(GroupAccountant(8)), tmp_path, pictures=False))
    more = hs.get_epsilon(delta=1e-5, group_size=16, **RUN)
    assert "for any person with at most 8 records, whose records are added or removed" in found
    stated = re.search(r"more than 8 records in the data. For 16 records epsilon is ([\d.]+)\.", found)
    assert more <= float(stated[1]) <= more * (1 + 2e-4)
    for covered in ("tried to find settings", "earlier or later models", "training code does what"):
        assert covered in found
    assert "Nobody is protected" in words(page(followed(GroupAccountant(), [(0.0, 0.1, 1)]), tmp_path))


def test_the_form_has_what_is_given_and_a_line_to_sign(tmp_path):
    form = {
        "model": "digits <3>",
        "dataset": "digits of 2025",
        "responsible": "A. Example",
        "date": "2026-01-31",
    }
    found = page(CURVE, tmp_path, pictures=False, **form)
    rows = [found.row(name)[1] for name in ("model", "data set", "responsible", "date")]
    assert rows == list(form.values())
    assert set(found.row("signature")[1]) == {"_"}
    empty = page(CURVE, tmp_path, pictures=False)
    for name in ("model", "data set", "responsible", "date", "signature"):
        assert set(empty.row(name)[1]) == {"_"}
    with pytest.raises(TypeError, match="model"):
        page(CURVE, tmp_path, model=3)
