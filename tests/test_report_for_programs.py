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


CURVE = hs.privacy_curve(noise_multiplier=1.0, sample_rate=0.01, steps=1000)


def report_of(tmp_path, source=CURVE, **arguments):
    """The fields of a report."""
    return json.loads(hs.report(source, tmp_path / "privacy.json", **arguments).read_text("utf-8"))


def test_hazards_have_the_terms_of_the_publication_and_say_what_is_seen(tmp_path):
    given = {"trust": "central", "timing_is_hidden": "the machine is offline"}
    hazards = report_of(tmp_path, dataset_size=60_000, details=given)["hazards"]
    assert hazards["source"] == "NIST SP 800-226"
    terms = hazards["terms"]
    assert {each["source"] for each in terms.values()} == {"NIST SP 800-226"}
    seen = {term: each["seen"] for term, each in terms.items()}
    assert [term for term in seen if seen[term] == "yes"] == ["Privacy Parameters", "Query Models"]
    assert [term for term in seen if seen[term] == "in part"] == [
        "Unit of Privacy",
        "Bounded and Unbounded Differential Privacy",
        "Algorithms and Correctness",
        "Floating-Point Arithmetic",
    ]
    assert [term for term in seen if seen[term] == "no"] == [
        "Mixing Differential Privacy With Other Data Releases",
        "Utility",
        "Bias",
        "Trust Models",
        "Timing Channels",
        "Backend Issues",
        "Tuning Hyperparameters",
        "Data Security and Access Control",
        "Data Collection Exposure",
    ]
    assert all((each["answer"] is None) == (each["seen"] == "no") for each in terms.values())
    assert terms["Trust Models"]["questions"]["trust"]["answer"] == "central"
    assert terms["Timing Channels"]["questions"]["timing_is_hidden"]["answer"] == "the machine is offline"
    parameters = terms["Privacy Parameters"]["answer"]
    assert parameters == "epsilon is at most 1.8283 at delta = 1e-05; delta is below 1/60000"


def test_every_question_belongs_to_one_hazard(tmp_path):
    hazards = report_of(tmp_path)["hazards"]
    asked = [name for each in hazards["terms"].values() for name in each["questions"]]
    assert sorted(asked) == sorted(["trust", *hazards["assumptions_an_accountant_cannot_see"]])


def test_hazards_follow_the_adjacency_and_the_proof(tmp_path):
    replaced = hs.privacy_curve(noise_multiplier=1.0, sample_rate=0.01, steps=10, adjacency="replace")
    terms = report_of(tmp_path, replaced, certified=True)["hazards"]["terms"]
    assert terms["Bounded and Unbounded Differential Privacy"]["answer"].startswith("bounded: ")
    assert "epsilon was proven by hockeystick_verify" in terms["Algorithms and Correctness"]["answer"]
    terms = report_of(tmp_path)["hazards"]["terms"]
    assert terms["Bounded and Unbounded Differential Privacy"]["answer"].startswith("unbounded: ")
    assert terms["Algorithms and Correctness"]["answer"].endswith("; not checked by another program")
    tradeoff = hs.tradeoff.TradeoffCurve.gaussian(1.0)
    terms = report_of(tmp_path, tradeoff)["hazards"]["terms"]
    assert terms["Bounded and Unbounded Differential Privacy"]["seen"] == "no"


def test_registry_fields_are_filled_as_far_as_they_are_known(tmp_path):
    given = {
        "trust": "central",
        "data_curators": "Example Institute",
        "data_product_type": "Machine learning model",
        "release_type": "twice",
        "publication_date": "2026-13-01",
        "tuning_is_counted": "tuned on public data",
        "justification": "a target of 2",
    }
    registry = report_of(tmp_path, details=given, model="digits")["registry"]
    found, missing = registry["deployment"], registry["missing"]
    assert found["basic"] == {
        "name": "digits",
        "data_curators": ["Example Institute"],
        "data_product_type": "Machine learning model",
    }
    assert found["privacy_loss"]["privacy_parameters"] == {
        "epsilon": CURVE.bounds(delta=1e-5)[1], "delta": 1e-5
    }  # fmt: skip
    assert found["privacy_loss"]["privacy_unit"] == "one record"
    assert found["deployment_model"] == {"model_name": "Central"}
    assert found["implementation"]["preprocessing_and_hyperparameter_tuning"] == "tuned on public data"
    assert found["implementation"]["justification"] == "a target of 2"
    assert "Gaussian noise, noise multiplier 1" in found["implementation"]["mechanisms"]
    assert found["accounting"]["composition"].startswith("1000 steps")
    assert missing["deployment_model/release_type"] == ["One release", "Many releases"]
    assert missing["basic/publication_date"] is None
    assert "basic/data_curators" not in missing


def test_registry_fields_of_details_come_first_and_infinities_are_left_out(tmp_path):
    given = {"name": "another", "trust": "two servers", "publication_date": "2026-12-01"}
    registry = report_of(tmp_path, details=given, model="digits")["registry"]
    assert registry["deployment"]["basic"] == {"name": "another", "publication_date": "2026-12-01"}
    assert registry["deployment"]["deployment_model"] == {"model_name_details": "two servers"}
    assert "deployment_model/model_name" in registry["missing"]
    bare = hs.privacy_curve(noise_multiplier=0.0, sample_rate=0.5, steps=1)
    found = report_of(tmp_path, bare)["registry"]["deployment"]
    assert found["privacy_loss"]["privacy_parameters"] == {"delta": 1e-5}
