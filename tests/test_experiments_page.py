"""The page of the experiments says what the stored numbers are, and some of them are found again."""

import json
import re

import numpy as np
import pytest

import hockeystick as hs
from benches.experiments import page

STORED = {paper: json.loads((page.FOLDER / f"{paper}.json").read_text("utf-8")) for paper in page.PAPERS}


def test_the_tables_of_the_page_are_the_stored_numbers():
    text = page.PAGE.read_text("utf-8")
    shown = [found[2] for found in page.MARKS.finditer(text)]
    assert set(shown) <= set(page.TABLES)
    assert len(shown) == len(set(shown)) >= 18
    assert page.filled(text, page.FOLDER) == text


def test_a_changed_number_would_be_noticed():
    text = page.PAGE.read_text("utf-8")
    number = f"{STORED['individual']['runs']['adult']['mean_epsilon']:.2f}"
    assert number in text
    assert page.filled(text.replace(number, "7.77"), page.FOLDER) == text


def test_every_picture_of_the_page_is_stored_and_every_stored_one_is_shown():
    shown = re.findall(r"\(experiments/([\w-]+\.png)\)", page.PAGE.read_text("utf-8"))
    assert sorted(shown) == sorted(path.name for path in page.FOLDER.glob("*.png"))
    assert len(shown) >= 16


@pytest.mark.parametrize("bound", ["black_box", "jensen", "exact", "curve"])
def test_the_noise_of_rgp_is_found_again(bound):
    stored = STORED["rgp"]
    target = {
        "epsilon": 4.0,
        "delta": stored["delta"],
        "sample_rate": stored["sample_rate"],
        "steps": stored["steps"],
        "group_size": stored["sizes"],
    }
    if bound == "curve":
        found = hs.get_noise_multiplier(**target)
    else:
        found = hs.renyi.calibrate_dp(hs.Gaussian, bound=bound, **target)
    assert stored["noise_multipliers"]["by_size"][bound] == pytest.approx(found, rel=1e-5)


def test_the_noise_of_individual_is_found_again():
    for run in STORED["individual"]["runs"].values():
        rate, steps = (
            run["batch_size"] / run["examples"],
            run["examples"] // run["batch_size"] * run["epochs"],
        )
        noise = hs.get_noise_multiplier(epsilon=2.4, delta=1e-5, sample_rate=rate, steps=steps)
        assert run["noise_multiplier"] == pytest.approx(noise, rel=1e-5)


def test_epsilons_of_group_are_found_again():
    stored = STORED["group"]["bounds"]
    run = {key: STORED["group"]["run"][key] for key in ("noise_multiplier", "sample_rate", "steps", "delta")}
    sizes = np.array(stored["sizes"])
    assert stored["exact"] == pytest.approx(hs.get_epsilon(group_size=sizes, **run), rel=1e-5)
    assert stored["black_box"] == pytest.approx(hs.black_box.get_epsilon(group_size=sizes, **run), rel=1e-5)
    for bar in stored["monte_carlo"]:
        assert bar["half_width"] <= STORED["group"]["effort"]["half_width"]
        assert bar["lower"] <= 1e-3 <= bar["upper"]


def test_no_attack_of_group_contradicts_the_guarantee():
    audits = STORED["group"]["audit"]
    for row in audits["crafted"] + audits["picture"]:
        assert row["epsilon_at_least"] <= row["reported"]
    poisoning = STORED["group"]["poisoning"]
    for found in poisoning["targets"].values():
        for row in found["rows"]:
            assert row["interval"][0] <= row["at_most"] <= row["at_most_black_box"]
            curve = hs.privacy_curve(**poisoning["run"], group_size=row["copies"])
            allowed = 1.0 - float(curve.beta(found["without_copies_at_most"]))
            assert row["at_most"] == pytest.approx(allowed, rel=1e-4)


def test_epsilons_of_shuffle_are_found_again():
    for row in STORED["shuffle"]["epsilons"][::4]:
        for clipping in ("individual", "batch"):
            for number, size in enumerate((1, row["group_size"])):
                curve = hs.shuffle.tradeoff(
                    hs.Shuffle(row["batch_size"], 60_000),
                    noise_multiplier=STORED["shuffle"]["noise_multiplier"],
                    epochs=row["epochs"],
                    group_size=size,
                    clipping=clipping,
                )
                found = float(curve.epsilon(STORED["shuffle"]["delta"]))
                assert row[clipping][number] == pytest.approx(found, rel=1e-5)


def test_both_ways_to_clip_had_equally_many_choices_and_the_best_was_taken():
    for model in STORED["shuffle"]["models"].values():
        assert len({len(run["tried"]) for run in model["runs"]}) == 1
        for run in model["runs"]:
            best = max(run["tried"], key=lambda each: each["held_out_accuracy"])
            assert (best["path"], best["clipping_norm"]) == (run["path"], run["clipping_norm"])
            assert run["history"][-1] == run["test_accuracy"]
