"""Reports as JSON: the facts as fields, and the questions that an accountant cannot answer."""

import json

import hockeystick as hs


def test_reports_for_programs_have_the_guarantee_and_the_questions(tmp_path):
    curve = hs.privacy_curve(noise_multiplier=1.0, sample_rate=0.01, steps=1000)
    given = {"noise_is_exact": "discrete Gaussian", "trust": "central", "clipping norm": 1.0}
    path = hs.report(curve, tmp_path / "privacy.json", dataset_size=60_000, details=given)
    found = json.loads(path.read_text("utf-8"))
    lower, upper = curve.bounds(delta=1e-5)
    assert found["guarantee"]["epsilon"] == upper
    assert found["guarantee"]["epsilon_at_least"] == lower
    assert found["guarantee"]["neighbours"] == "add_remove"
    assert found["deployment"] == {
        "title": "Privacy report", "records": 60_000, "details": {"clipping norm": "1.0"}
    }  # fmt: skip
    assert found["model"]["trust"] == "central"
    assert found["accounting"]["independently_verified"] is None
    assert found["hazards"]["delta_and_records"] == "delta is below 1/60000"
    questions = found["hazards"]["assumptions_an_accountant_cannot_see"]
    assert questions["noise_is_exact"]["answer"] == "discrete Gaussian"
    assert {name for name, each in questions.items() if each["answer"] is None} == {*questions} - {
        "noise_is_exact"
    }
    large = hs.report(curve, tmp_path / "privacy.json", delta=1e-3, dataset_size=60_000)
    assert "NOT below" in json.loads(large.read_text("utf-8"))["hazards"]["delta_and_records"]


def test_reports_for_programs_attach_the_certificate(tmp_path):
    curve = hs.privacy_curve(noise_multiplier=1.0, sample_rate=0.01, steps=1000)
    path = hs.report(curve, tmp_path / "privacy.json", certified=True)
    proof = json.loads(path.read_text("utf-8"))["accounting"]["independently_verified"]
    assert proof["verified"]
    assert proof["certificate"] == json.loads(curve.certify(delta=1e-5).to_json())
    assert proof["sha256"] == curve.certify(delta=1e-5).sha256
    assert proof["checker"].startswith("hockeystick_verify ")


def test_reports_for_programs_have_no_infinities(tmp_path):
    bare = hs.privacy_curve(noise_multiplier=0.0, sample_rate=0.5, steps=1)
    path = hs.report(bare, tmp_path / "privacy.json")
    assert json.loads(path.read_text("utf-8"))["guarantee"]["epsilon"] is None
