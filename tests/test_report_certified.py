"""Reports with certificates: they state the proven epsilon, and the attached file has the hash."""

import base64
import hashlib
import json
import re

import numpy as np
import pytest
from report_pages import page, words

import hockeystick as hs
from hockeystick._rounding import rounded_down, rounded_up
from hockeystick.accountants import GroupAccountant
from hockeystick.plot._style import formula

RUN = {"noise_multiplier": 1.0, "sample_rate": 0.01, "steps": 1000}
CURVE = hs.privacy_curve(**RUN)
CUT = hs.privacy_curve(
    noise_multiplier=2.0,
    sampling=hs.Poisson(0.01, max_batch_size=128, dataset_size=10_000),
    steps=1000,
)
DELTA = 1e-5


@pytest.fixture(scope="module")
def cut():
    return CUT.certify(delta=DELTA)


@pytest.fixture
def given(cut, monkeypatch):
    """A certificate that is not made again, as that takes long, and how often it was asked for."""
    asked = []

    def certify(curve, **about):
        asked.append((curve, about))
        return cut

    monkeypatch.setattr(hs.PrivacyCurve, "certify", certify)
    return asked


def ends_of(certificate):
    (upper,) = [claim["epsilon"] for claim in certificate.claims if "at_most" in claim]
    lower = [claim["epsilon"] for claim in certificate.claims if "at_least" in claim]
    return lower[0] if lower else None, upper


@pytest.mark.slow
def test_the_epsilon_of_a_page_is_the_proven_one(cut, given, tmp_path):
    lower, upper = ends_of(cut)
    engine, shown = CUT.epsilon(DELTA), rounded_up(upper)
    target = 0.6372
    assert engine < target < upper  # so that they can be told apart
    found = page(CUT, tmp_path, certified=True, pictures=False, target=target)
    said = words(found)
    assert len(given) == 1
    assert f"epsilon = {shown} and delta" in said
    assert f"The target is NOT met: epsilon is {shown}" in said
    assert found.row("1")[1] == found.row("1 in 100,000")[1] == shown
    assert found.row("Poisson sampling, cut, add or remove")[1] == shown
    assert found.row("epsilon lies between")[1] == f"{rounded_down(lower)} and {shown}; this is proven"
    assert found.row("certified interval of epsilon")[1].startswith(f"{rounded_down(lower)} and {shown}, for")
    assert f"epsilon = {shown} and" in found.row("formal statement")[1]
    assert "hockeystick_verify" in found.row("type of accounting")[1]
    assert rounded_up(engine) not in said
    times = float(re.search(r"more than ([\d.]+) times as likely", said)[1])
    assert times >= np.exp(upper)
    assert "The epsilon that this report states for the run is the proven one" in said


@pytest.mark.slow
@pytest.mark.parametrize("name", ["report.md", "report.html", "report.json"])
def test_the_certificate_is_made_once(name, given, tmp_path, monkeypatch):
    verified = []
    monkeypatch.setattr(
        hs.Certificate, "verify", lambda self: (verified.append(self), (True, ["verified", "proven"]))[1]
    )
    hs.report(CUT, tmp_path / name, certified=True, pictures=False, group_sizes=[1])
    assert len(given) == len(verified) == 1


@pytest.mark.slow
def test_programs_and_markdown_get_the_proven_epsilon(cut, given, tmp_path):
    lower, upper = ends_of(cut)
    path = hs.report(CUT, tmp_path / "privacy.json", certified=True)
    found = json.loads(path.read_text("utf-8"))
    assert found["guarantee"]["epsilon"] == upper
    assert found["guarantee"]["epsilon_at_least"] == lower
    assert f"epsilon = {rounded_up(upper)} and" in found["guarantee"]["statement"]
    assert found["accounting"]["interval"].startswith(f"{rounded_down(lower)} and {rounded_up(upper)}, for")
    assert "is the proven one" in found["accounting"]["independently_verified"]["covers"]
    markdown = hs.report(CUT, tmp_path / "card.md", certified=True, group_sizes=[1]).read_text("utf-8")
    assert f"**Differential privacy with epsilon = {rounded_up(upper)} and" in markdown
    assert rounded_up(CUT.epsilon(DELTA)) not in markdown


@pytest.mark.slow
def test_without_a_lower_claim_there_is_an_upper_end_only(cut, given, tmp_path, monkeypatch):
    alone = cut.with_claims([claim for claim in cut.claims if "at_most" in claim])
    monkeypatch.setattr(hs.PrivacyCurve, "certify", lambda *_, **__: alone)
    found = page(CUT, tmp_path, certified=True, pictures=False, group_sizes=[1])
    shown = rounded_up(ends_of(cut)[1])
    assert found.row("epsilon is at most")[1] == f"{shown}; this is proven"
    assert "epsilon lies between" not in words(found)
    assert found.row("how close to the truth")[1].startswith("an upper bound")
    assert found.row("certified interval of epsilon")[1].startswith(f"at most {shown}; this is proven")
    made = json.loads(hs.report(CUT, tmp_path / "a.json", certified=True).read_text("utf-8"))
    assert made["guarantee"]["epsilon_at_least"] is None
    assert made["guarantee"]["epsilon"] == ends_of(cut)[1]


def test_groups_and_accountants_state_the_proven_epsilon(tmp_path):
    accountant = GroupAccountant(8)
    accountant.history = [(1.0, 0.01, 1000)]
    _, upper = ends_of(accountant.privacy_curve().certify(delta=DELTA))
    found = page(accountant, tmp_path, certified=True, pictures=False, dataset_size=10_000)
    assert f"epsilon = {rounded_up(upper)} and" in words(found)
    assert found.row("8")[1] == rounded_up(upper)
    assert found.row("Poisson sampling, add or remove")[1] == rounded_up(upper)


@pytest.mark.slow
def test_pictures_show_the_proven_epsilon(cut, given, tmp_path, monkeypatch):
    drawn = []

    def picture(block):
        from matplotlib.figure import Figure

        axes = Figure().subplots()
        block.draw(axes)
        drawn.extend(text.get_text() for text in axes.texts)
        if axes.get_legend() is not None:
            drawn.extend(text.get_text() for text in axes.get_legend().get_texts())
        return ""

    monkeypatch.setattr("hockeystick.reporting._html._picture", picture)
    page(CUT, tmp_path, certified=True)
    upper = rounded_up(ends_of(cut)[1])
    assert rf"({upper}, ${formula(DELTA)}$)" in drawn
    assert upper in drawn
    assert rounded_up(CUT.epsilon(DELTA)) not in " ".join(drawn)


def test_poisson_accounting_beside_shuffled_batches_is_the_same_number(tmp_path):
    run = hs.Run(sampling="poisson", noise_multiplier=1.3, steps=150, batch_size=100, dataset_size=10_000)
    found = page(run, tmp_path, pictures=False, certified=True)
    own = found.row("Poisson sampling, add or remove")[1]
    assert f"epsilon = {own} and" in words(found)
    assert f"Poisson accounting says {own}" in found.row("shuffling, zero out")[2]


@pytest.mark.slow
def test_what_fails_stands_first_and_the_accountant_answers(tmp_path, monkeypatch):
    monkeypatch.setattr(hs.Certificate, "verify", lambda _: (False, ["not verified: V3"]))
    found = page(CURVE, tmp_path, certified=True, pictures=False)
    said = words(found)
    assert said.index("Not verified") < said.index("The guarantee in plain words")
    assert "could NOT prove the bounds below" in said
    assert "The epsilon that this report states for the run is the proven one" not in said
    assert f"epsilon = {rounded_up(CURVE.epsilon(DELTA))} and" in said
    made = json.loads(hs.report(CURVE, tmp_path / "a.json", certified=True).read_text("utf-8"))
    assert made["guarantee"]["epsilon"] == CURVE.epsilon(DELTA)
    assert not made["accounting"]["independently_verified"]["verified"]


def test_nothing_is_said_of_proofs_without_a_certificate(tmp_path):
    said = words(page(CURVE, tmp_path, pictures=False))
    assert "independent" not in said
    assert "SHA-256" not in said


@pytest.mark.parametrize("source", [CURVE, GroupAccountant(2)])
def test_the_code_in_it_makes_the_same_report(source, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    if source is not CURVE:
        source.history = [(1.0, 0.01, 100)]
    first = hs.report(source, "card.md", certified=True).read_text("utf-8")
    (code,) = re.findall(r"```python\n(.*?)\n```", first, re.DOTALL)
    (tmp_path / "card.md").unlink()
    exec(code, {})
    assert (tmp_path / "card.md").read_text("utf-8") == first
    assert capsys.readouterr().out == ""


# ---- the file that is attached


def test_the_saved_file_has_the_hash_that_is_shown(tmp_path):
    found = page(CURVE, tmp_path, certified=True, pictures=False)
    shown = found.row("certificate, SHA-256")[1]
    (source,) = [value for name, value in found.attributes if name == "href" and value.startswith("data:")]
    assert ("download", "certificate.json") in found.attributes
    kind, _, data = source.partition(";base64,")
    assert kind == "data:application/json"
    saved = base64.b64decode(data, validate=True)
    assert hashlib.sha256(saved).hexdigest() == shown == CURVE.certify(delta=DELTA).sha256
    assert "one line feed at the end of every line, the last one too" in words(found)
    (tmp_path / "certificate.json").write_bytes(saved)
    import hockeystick_verify

    assert hockeystick_verify.main([str(tmp_path / "certificate.json")]) == 0
    # What is copied from the page lacks the last line feed alone.
    assert saved.decode() in {text + "\n" for text in found.texts}
    assert not {"script", "link", "iframe", "object"} & set(found.tags)


def test_the_hash_of_the_attached_certificate_can_be_computed_again(tmp_path):
    path = hs.report(CURVE, tmp_path / "privacy.json", certified=True)
    proof = json.loads(path.read_text("utf-8"))["accounting"]["independently_verified"]
    (expression,) = re.findall(r"in Python: (.*)$", proof["sha256_of"])
    text = eval(expression, {"json": json, "certificate": proof["certificate"]})
    assert hashlib.sha256(text).hexdigest() == proof["sha256"]
