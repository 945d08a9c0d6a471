"""Certificates: the checker proves what the engine answers, and believes nothing that it is given."""

import ast
import copy
import json
import subprocess
import sys
from collections import Counter
from pathlib import Path

import certificate_runs
import numpy as np
import pytest
from certificate_runs import certified, random_run
from certificate_schema import fault
from documented_certificates import CURVES, DELTA, DELTAS, FOLDER, LONG, SLOW
from reference_rows import rows

import hockeystick as hs
import hockeystick_verify
from hockeystick._curves import described_run
from hockeystick._curves.chain_of_bins import described_chain
from hockeystick_verify import RefusedError, check, checker, few_steps, read

CURVE = hs.privacy_curve(noise_multiplier=1.0, sample_rate=0.01, steps=1000)
CERTIFICATE = CURVE.certify(delta=1e-5)


def tampered(change):
    """Text of a good certificate after a change to its document."""
    document = json.loads(CERTIFICATE.to_json())
    change(document)
    return json.dumps(document)


def changed(path, value):
    """A change that sets one entry."""

    def change(document):
        *places, last = path
        for place in places:
            document = document[place]
        document[last] = value

    return change


# ---- what is proven


def test_the_proven_interval_is_within_the_claims_and_the_claims_hold_the_answer():
    verified, lines = CERTIFICATE.verify()
    assert verified, lines
    upper, lower = CERTIFICATE.claims
    assert upper["at_most"] == lower["at_least"] == 1e-5
    least, most = CURVE.bounds(delta=1e-5)
    assert lower["epsilon"] <= least <= most <= upper["epsilon"]
    assert upper["epsilon"] - lower["epsilon"] < 1e-6


def curve_of(row):
    """Curve of a row of tests/data/privacy_curves.csv."""
    kind, *numbers = row["weights"].split()
    run = {"noise_multiplier": float(row["sigma"]), "steps": int(row["steps"]), "adjacency": row["direction"]}
    if kind == "binomial":
        run |= {"sample_rate": float(numbers[1]), "group_size": int(numbers[0])}
    elif kind == "hypergeometric":
        size, batch, records = map(int, numbers)
        run |= {"sampling": hs.WithoutReplacement(batch, records), "group_size": size}
    else:
        run |= {"group": hs.Group(rates=[float(rate) for rate in numbers[0].split(";")])}
    return hs.privacy_curve(**run)


@pytest.mark.parametrize(
    "row", rows("privacy_curves.csv"), ids=lambda row: f"{row['name']}-{row['direction']}"
)
def test_the_checker_recomputes_the_reference_values(row):
    # The references have decimal rates, and the checker the doubles next to them: 1e-14 of delta in one row.
    found = check(read(curve_of(row).certify(epsilon=float(row["epsilon"])).to_json()))
    assert all(each.holds for each in found)
    delta, error = float(row["delta"]), max(1e-13, 10.0 ** (1 - int(row["digits"])))
    assert found[0].lower * (1 - error) <= delta <= found[0].upper * (1 + error)
    assert found[0].upper - found[0].lower < 1e-9 * delta


@pytest.mark.parametrize("delta", [1e-30, 1e-100])
def test_tiny_deltas_are_proven(delta):
    verified, lines = CURVE.certify(delta=delta).verify()
    assert verified, lines


QUICK = (
    0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 14, 15, 16,
    17, 18, 19, 20, 21, 22, 27, 28, 29, 30, 32, 35, 37, 755, 820, 3500, 3501, 3505,
    2175, 2481, 2781, 3405, 3546, 3590, 3653, 4600, 4601, 4603, 4604, 4606, 4623, 5126, 5132,
)  # fmt: skip
"""Random runs that take seconds to check; 755, 820, 2175, 2781, 3405, 3590, 3653, 4623 and 5126 once failed,
and 2481, 3546 and 5132 had no certificate."""
LONGER = {2481, 3405, 5126, 755}
"""Of which each takes five to twenty seconds."""


@pytest.mark.slow
@pytest.mark.parametrize(
    "number", [pytest.param(number, marks=pytest.mark.long if number in LONGER else ()) for number in QUICK]
)
def test_random_runs_are_verified(number):
    """More are in docs/certificates/random_runs.json, and in `test_many_random_runs_are_verified`."""
    certificate = certified(random_run(number))
    assert certificate is not None
    assert fault(json.loads(certificate.to_json())) is None
    verified, lines = certificate.verify()
    assert verified, lines


@pytest.mark.long
@pytest.mark.parametrize("first", range(0, 5000, 100))
def test_many_random_runs_are_verified(first):
    counts = {"verified": 0, "too expensive": 0}
    for number in range(first, first + 100):
        try:
            certificate = certified(random_run(number))
        except hs.UnsupportedError:
            counts["too expensive"] += 1
            continue
        verified, lines = (True, []) if certificate is None else certificate.verify()
        assert verified, (number, lines)
        counts["verified"] += 1
    assert counts["verified"] == 100, counts


def test_one_step_and_full_batches_have_closed_forms():
    runs = (
        {"noise_multiplier": 0.7, "sample_rate": 0.3, "steps": 1, "group_size": 3},
        {"noise_multiplier": 30.0, "sampling": hs.FullBatch(), "steps": 500, "adjacency": "replace"},
        {"noise_multiplier": 4.0, "sampling": hs.WithoutReplacement(10, 10), "steps": 3},
    )
    for run in runs:
        verified, lines = hs.privacy_curve(**run).certify(delta=1e-6).verify()
        assert verified, lines


@pytest.mark.slow
def test_few_steps_at_a_small_rate_are_proven_with_a_cut():
    curve = hs.privacy_curve(noise_multiplier=1.0, sample_rate=0.001, steps=2, adjacency="remove")
    certificate = curve.certify(epsilon=0.2)
    assert '"cut"' in certificate.to_json()
    verified, lines = certificate.verify()
    assert verified, lines


def test_losses_that_are_never_exceeded_have_delta_zero():
    curve = hs.privacy_curve(noise_multiplier=1.0, sample_rate=0.01, steps=10, adjacency="add")
    (proven,) = check(read(curve.certify(epsilon=1.0).to_json()))
    assert (proven.lower, proven.upper, proven.holds) == (0.0, 0.0, True)


def mark_of(name):
    return pytest.mark.long if name in LONG else pytest.mark.slow if name in SLOW else ()


@pytest.mark.parametrize("name", [pytest.param(name, marks=mark_of(name)) for name in CURVES])
def test_numbers_of_the_documentation_have_certificates(name):
    printed, curve = CURVES[name]
    document = read((FOLDER / f"{name}.json").read_bytes())
    upper, lower = check(document)
    assert upper.holds
    assert lower.holds
    if isinstance(curve, hs.PrivacyCurve):
        assert document["run"] == described_run.described(curve.segments, curve.adjacency)
    elif name == "benchmark-bins":  # which takes a minute to certify
        steps = curve._steps, curve._adjacency
        assert document["run"] == described_chain(curve._mechanism, 3.9, curve._sampling, *steps)
    else:  # made anew at another place, which has the same run
        assert document["run"] == curve.certify(epsilon=0.3).run
    digits = len(str(printed).partition(".")[2])
    if name in DELTAS:
        assert upper.epsilon == lower.epsilon == DELTAS[name]
        assert round(upper.upper, digits) == round(lower.lower, digits) == printed
        low, high = curve.bounds(epsilon=DELTAS[name])
        assert lower.lower <= high
        assert low <= upper.upper <= high * (1 + 1e-6)
    else:
        assert document["claims"][0]["at_most"] == document["claims"][1]["at_least"] == DELTA
        assert upper.epsilon == pytest.approx(printed, rel=1e-7, abs=10.0**-digits)
    page = (FOLDER.parent / "certificates.md").read_text("utf-8")
    assert f"| `{name}.json` | {printed} |" in page


def test_every_documented_certificate_is_one_that_is_checked():
    assert {path.stem for path in FOLDER.glob("*.json")} == {*CURVES, "random_runs"}


def test_the_table_of_random_runs_is_about_these_runs_and_all_proofs_in_it_hold():
    summary = json.loads((FOLDER / "random_runs.json").read_text("utf-8"))["summary"]
    found = certificate_runs.outcomes()
    counts = Counter(row["outcome"] for row in found.values())
    assert {name: summary[name] for name in counts} == counts
    assert summary["runs"] == len(found)
    assert set(counts) <= {"verified", "too expensive", "out of time", "no finite epsilon"}
    numbers = sorted(found)
    for number in (*numbers[:40], *numbers[-10:]):
        run, row = random_run(number), found[number]
        assert ("+".join(run.schemes), run.curve.steps) == (row["schemes"], row["steps"])
        assert run.delta == pytest.approx(row["delta"], rel=1e-12)
    assert certificate_runs.table() in certificate_runs.PAGE.read_text("utf-8")


# ---- what is refused, or not proven


@pytest.mark.parametrize(
    ("path", "value", "reason"),
    [
        (("claims", 0, "at_most"), 0.99e-5, "not verified: the proven interval"),
        (("claims", 1, "at_least"), 1.01e-5, "not verified: the proven interval"),
        (("claims", 0, "epsilon"), 1.8, "not verified: the proven interval"),
        (("run", "steps", 0, "count"), 1001, "not verified: the proven interval"),
        (("run", "steps", 0, "mechanism", "noise_multiplier"), 0.999, "not verified: the proven interval"),
        (("run", "steps", 0, "sampling", "sample_rate"), 0.0101, "not verified: the proven interval"),
        (("run", "steps", 0, "group", "size"), 2, "V6: a strip reaches where"),
        (("run", "adjacency"), "replace", "refused: witness lacks 'replace'"),
        (("witness", "remove", "spacing"), 3.0, "not verified: the proven interval"),
        (("witness", "remove", "terms"), 4, "not verified: the proven interval"),
        (("witness", "remove", "outer_tilt"), 1.0, "V3: outer_tilt must be above tilt"),
        (("witness", "remove", "kinds", 0, "nodes"), 20, "V7: the nodes do not reach"),
        (("witness", "remove", "kinds", 0, "spacing"), 8.0, "V6: the nodes are too far apart"),
        (("witness", "remove", "kinds", 0, "height"), 1.6, "V6: a strip reaches where"),
        (("witness", "remove", "kinds", 0, "shift"), 2.9, "V6: a strip reaches where"),
        (("witness", "remove", "kinds", 0, "shift_strip"), 1.1, "V6: shift_strip must be at most shift"),
        (("witness", "add", "tilt"), -0.5, "refused: tilt must be a number in"),
    ],
)
def test_tampered_certificates_fail_for_the_right_reason(path, value, reason):
    text = tampered(changed(path, value))
    verified, lines = hockeystick_verify.verify_text(text)
    assert not verified
    assert reason in lines[0]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "not JSON"),
        ("[" * 100_000, "not JSON"),
        ("9" * 100_000, "not JSON"),
        ('{"format": 1, "format": 2}', "two entries of one name"),
        ("[1]", "certificate must be an object"),
        (tampered(changed(("run", "steps", 0, "count"), float("nan"))), "count must be a whole number"),
        (tampered(changed(("run", "steps", 0, "count"), True)), "count must be a whole number"),
        (tampered(changed(("run", "steps", 0, "count"), 10**13)), "count must be a whole number"),
        (tampered(changed(("run", "steps", 0, "group", "size"), 10**9)), "group size must be a whole number"),
        (tampered(changed(("run", "steps", 0, "more"), 1)), "unknown entry 'more'"),
        (tampered(changed(("run", "steps"), [])), "steps must be a list"),
        (
            tampered(changed(("run", "steps", 0, "mechanism"), {"name": "laplace", "scale": 1})),
            "one of gaussian",
        ),
        (tampered(changed(("witness", "remove", "bits"), 10**6)), "bits must be a whole number"),
        (tampered(changed(("witness", "remove", "terms"), 10**9)), "terms must be a whole number"),
        (
            tampered(changed(("witness", "remove", "kinds", 0, "nodes"), 10**9)),
            "nodes must be a whole number",
        ),
        (tampered(changed(("witness", "remove", "kinds"), [])), "kinds must be a list of 1 to 1 entries"),
        (tampered(changed(("witness", "remove", "kinds"), [7])), "nodes must be a whole number"),
        (tampered(changed(("claims",), [])), "claims must be a list"),
        (tampered(changed(("claims", 0), {"epsilon": 1.0})), "either 'at_most' or 'at_least'"),
        (tampered(changed(("version",), 2)), "format must be"),
        ("0" * (hockeystick_verify.LARGEST_FILE + 1), "at most"),
    ],
)
def test_hostile_certificates_are_refused_before_any_work(text, reason, monkeypatch):
    def begun(*_):
        pytest.fail("work was begun")

    for module, name in ((checker, "Nodes"), (few_steps, "one_step"), (checker, "gaussian")):
        monkeypatch.setattr(module, name, begun)
    with pytest.raises(RefusedError, match=reason):
        check(read(text))


def test_work_is_bounded_before_it_is_begun():
    document = json.loads(CERTIFICATE.to_json())
    witness = document["witness"]["remove"]
    witness["terms"] = 200_000
    witness["kinds"][0]["nodes"] = 400_000
    with pytest.raises(RefusedError, match="more nodes and points of the line than are computed"):
        check(document)


def run_of(mechanism, sampling, adjacency="remove", **group):
    step_ = {"mechanism": mechanism, "sampling": sampling, "group": group, "count": 4}
    return {"adjacency": adjacency, "steps": [step_]}


GAUSSIAN = {"name": "gaussian", "noise_multiplier": 2.0}
CLIPPING = {"name": "adaptive_clipping", "noise_multiplier": 1.0, "count_noise": 0.6}
POISSON = {"name": "poisson", "sample_rate": 0.1}


@pytest.mark.parametrize(
    ("run", "reason"),
    [
        # Each member moves the count of clipped gradients by 1/2, whatever bounds its gradient has.
        (run_of(CLIPPING, POISSON, size=1, norms=[0.01]), "each moves the count by 1/2"),
        (run_of(CLIPPING, POISSON, size=2, gradients="orthogonal"), "mechanism of orthogonal gradients"),
        # No data sets that differ in replaced records of full batches have rates.
        (run_of(GAUSSIAN, {"name": "full_batch"}, "replace", size=1, rates=[0.1]), "have no rates"),
        (run_of(GAUSSIAN, POISSON, "replace", size=2, gradients="orthogonal"), "added or removed records"),
        (run_of(GAUSSIAN, POISSON | {"microbatches": 2}, "replace", size=1), "added or removed, aligned"),
        (run_of(GAUSSIAN, POISSON | {"microbatches": 3000}, size=2), "more than 4096 records"),
    ],
)
def test_runs_of_which_no_pair_is_known_are_refused(run, reason):
    claims = [{"epsilon": 1.0, "at_most": 1.0}]
    witness = {hockeystick_verify.checker.directions(run)[0]: {"bits": 128}}
    with pytest.raises(RefusedError, match=reason):
        check({"run": run, "claims": claims, "witness": witness})


def test_a_record_that_is_in_every_sample_and_replaced_moves_the_sum_by_two():
    run = run_of(GAUSSIAN, POISSON | {"sample_rate": 1.0}, "replace", size=1)
    full = run_of(GAUSSIAN, {"name": "full_batch"}, "replace", size=1)
    found = []
    for each in (run, full):
        document = {"run": each, "claims": [{"epsilon": 1.0, "at_most": 0.51}]}
        found += check(document | {"witness": {"replace": {"bits": 128}}})
    assert found[0] == found[1]
    assert found[0].lower > 0.50
    curve = hs.privacy_curve(noise_multiplier=2.0, sampling=hs.Poisson(1.0), steps=4, adjacency="replace")
    assert curve.certify(epsilon=1.0).verify()[0]


def test_the_file_for_plain_runs_needs_no_other_and_has_at_most_600_lines():
    path = Path(checker.__file__)
    assert len(path.read_text("utf-8").splitlines()) <= 600
    imported = {
        name for node in ast.walk(ast.parse(path.read_text("utf-8"))) if isinstance(node, ast.ImportFrom)
        for name in [str(node.module).partition(".")[0]]
    }  # fmt: skip
    assert "hockeystick_verify" not in imported
    alone = [sys.executable, "-P", str(path), str(FOLDER / "own-rates.json")]
    found = subprocess.run(alone, capture_output=True, text=True, check=True)
    assert found.stdout.startswith("verified\n")


def test_sums_in_processes_are_the_same_balls():
    document = json.loads((FOLDER / "fixed-batches.json").read_text("utf-8"))
    assert check(document, processes=2) == check(document)


def test_random_changes_never_raise_anything_but_the_two_errors():
    generator = np.random.default_rng(7)
    values = (None, True, "x", -1, 0, 1e-300, 1e300, 2**70, [], {}, [1.0], 0.5)
    for _ in range(150):
        document = copy.deepcopy(json.loads(CERTIFICATE.to_json()))
        place = document
        while True:
            keys = list(place) if isinstance(place, dict) else list(range(len(place)))
            key = keys[int(generator.integers(len(keys)))]
            if isinstance(place[key], dict | list) and place[key] and generator.random() < 0.8:
                place = place[key]
                continue
            place[key] = values[int(generator.integers(len(values)))]
            break
        hockeystick_verify.verify_text(json.dumps(document))


# ---- certificates in Python, in reports, on the command line


@pytest.mark.slow
def test_what_is_not_covered_is_refused_by_name():
    dealt = {"noise_multiplier": 2.0, "sampling": hs.RandomAllocation(10), "steps": 10}
    published = json.loads(hs.privacy_curve(group_size=65, **dealt).certify(delta=1e-5).to_json())
    assert all(witness["published"] for witness in published["witness"].values())
    cut = hs.Poisson(0.1, max_batch_size=14, dataset_size=100)
    mixed = hs.privacy_curve(group_size=2, **dealt)
    mixed = mixed + hs.privacy_curve(noise_multiplier=2.0, sampling=cut, steps=10, group_size=2)
    with pytest.raises(hs.UnsupportedError, match="on a lattice for one record"):
        mixed.certify(delta=1e-5)
    noiseless = hs.privacy_curve(noise_multiplier=1e-4, sample_rate=0.1, steps=10)
    with pytest.raises(hs.UnsupportedError, match=r"0\.001 or more"):
        noiseless.certify(epsilon=1.0)
    with pytest.raises(TypeError, match="exactly one"):
        CURVE.certify()
    with pytest.raises(ValueError, match="delta"):
        CURVE.certify(delta=2.0)


def test_certificates_are_saved_and_verified_as_files(tmp_path, capsys):
    path = CERTIFICATE.save(tmp_path / "certificate.json")
    assert hockeystick_verify.main([str(path)]) == 0
    assert "certificate.json: verified" in capsys.readouterr().out
    path.write_text(tampered(changed(("claims", 0, "at_most"), 1e-6)), "utf-8")
    assert hockeystick_verify.main([str(path)]) == 1
    assert "NOT PROVEN" in capsys.readouterr().out
    assert hockeystick_verify.main([str(tmp_path / "missing.json")]) == 2


def test_results_are_printed_as_json(tmp_path, capsys):
    good, bad, broken = (str(tmp_path / name) for name in ("good.json", "bad.json", "broken.json"))
    CERTIFICATE.save(good)
    Path(bad).write_text(tampered(changed(("claims", 0, "at_most"), 1e-6)), "utf-8")
    Path(broken).write_text("{}", "utf-8")
    missing = str(tmp_path / "missing.json")
    assert hockeystick_verify.main(["--json", good]) == 0
    (found,) = json.loads(capsys.readouterr().out)
    assert found == hockeystick_verify.as_document(good)
    assert (found["path"], found["verified"], found["reason"]) == (good, True, "")
    for claim in found["claims"]:
        assert claim["holds"]
        assert claim["lower"] <= claim["upper"]
    assert hockeystick_verify.main(["--json", good, bad, broken, missing]) == 2
    printed = capsys.readouterr()
    results = json.loads(printed.out)
    assert [each["path"] for each in results] == [good, bad, broken, missing]
    assert [each["verified"] for each in results] == [True, False, False, False]
    assert [claim["holds"] for claim in results[1]["claims"]] == [False, True]
    assert "does not imply" in results[1]["reason"]
    assert results[2]["reason"].startswith("refused: ")
    assert "No such file" in results[3]["reason"]
    assert "missing.json" in printed.err


def test_the_same_run_has_the_same_certificate():
    again = hs.privacy_curve(noise_multiplier=1.0, sample_rate=0.01, steps=1000).certify(delta=1e-5)
    assert again.to_json() == CERTIFICATE.to_json()
    assert again.sha256 == CERTIFICATE.sha256


def test_reports_show_the_proof_and_attach_the_certificate(tmp_path):
    page = hs.report(CURVE, tmp_path / "card.md", certified=True).read_text("utf-8")
    assert "## Independently verified" in page
    assert CERTIFICATE.sha256 in page
    attached = page.partition("```json\n")[2].partition("\n```")[0] + "\n"
    assert attached == CERTIFICATE.to_json()
    assert "certified=True" in page
    html = hs.report(CURVE, tmp_path / "card.html", certified=True, pictures=False).read_text("utf-8")
    assert "<h2>Independently verified</h2>" in html
    plain = hs.report(CURVE, tmp_path / "plain.md").read_text("utf-8")
    assert "verified" not in plain


@pytest.mark.slow
def test_a_report_says_so_if_the_checker_disagrees(tmp_path, monkeypatch):
    monkeypatch.setattr(hs.Certificate, "verify", lambda _: (False, ["not verified: V3"]))
    page = hs.report(CURVE, tmp_path / "card.md", certified=True).read_text("utf-8")
    assert "## Not verified" in page
    assert "Do not rely on them" in page


def test_only_exact_curves_are_reported_with_certificates(tmp_path):
    accountant = hs.accountants.RenyiGroupAccountant()
    accountant.step(noise_multiplier=1.0, sample_rate=0.01)
    with pytest.raises(hs.UnsupportedError, match="exact privacy curves"):
        hs.report(accountant, tmp_path / "card.md", certified=True)
    assert not (tmp_path / "card.md").exists()


def test_the_command_line_certifies_and_verifies(tmp_path):
    from click import testing

    from hockeystick.cli._commands import hockeystick

    path = str(tmp_path / "made.json")
    run = ["--noise-multiplier", "1", "--sample-rate", "0.01", "--steps", "1000"]
    made = testing.CliRunner().invoke(hockeystick, ["certify", "--path", path, "--delta", "1e-5", *run])
    assert made.exit_code == 0, made.output
    assert CERTIFICATE.sha256 in made.output
    checked = testing.CliRunner().invoke(hockeystick, ["verify", path, "--progress", "--processes", "2"])
    assert checked.exit_code == 0
    assert "200/200" in checked.output
    assert "verified" in checked.output
    as_json = testing.CliRunner().invoke(hockeystick, ["verify", path, "--json"])
    assert (as_json.exit_code, json.loads(as_json.stdout)[0]["verified"]) == (0, True)
    Path(path).write_text("{}", "utf-8")
    refused = testing.CliRunner().invoke(hockeystick, ["verify", path, "--json"])
    assert (refused.exit_code, json.loads(refused.stdout)[0]["verified"]) == (1, False)
    both = testing.CliRunner().invoke(hockeystick, ["certify", "--path", path, *run])
    assert both.exit_code == 2


def test_the_checker_imports_nothing_of_the_accountant():
    folder = Path(hockeystick_verify.__file__).parent
    imported = set()
    for file in folder.glob("*.py"):
        for node in ast.walk(ast.parse(file.read_text("utf-8"))):
            if isinstance(node, ast.Import):
                imported |= {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                assert node.level == 0
                imported.add(str(node.module).partition(".")[0])
    ours = {"hockeystick_verify", "flint"}
    assert ours <= imported
    assert imported - ours <= sys.stdlib_module_names
