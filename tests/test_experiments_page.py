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
    text = "".join(each.read_text("utf-8") for each in (page.PAGE, page.PAGE.with_name("figures.md")))
    shown = re.findall(r"\(experiments/([\w-]+\.png)(?:#only-\w+)?\)", text)
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


FIGURES = json.loads((page.FOLDER / "figures.json").read_text("utf-8"))


def test_groups_lose_less_at_low_rates():
    found = FIGURES["sampling"]
    for rate, noise, epsilons in zip(
        found["rates"], found["noise_multipliers"], found["epsilon"], strict=True
    ):
        run = {"noise_multiplier": noise, "sample_rate": rate, "steps": 100, "group_size": found["sizes"]}
        assert hs.get_epsilon(delta=1e-5, **run) == pytest.approx(epsilons, rel=1e-4)
    assert [round(epsilons[-1], 1) for epsilons in (found["epsilon"][0], found["epsilon"][-1])] == [8.5, 26.8]
    one, eight = ([row[place] for row in found["delta"]] for place in (0, 3))
    assert one == sorted(one, reverse=True)
    assert eight == sorted(eight)


def test_epsilon_grows_like_the_root_of_the_steps_until_it_is_large():
    first, *_, last = FIGURES["steps"]["epsilon"]
    steps = FIGURES["steps"]["steps"]
    ratio = first[0][steps.index(100)] / first[0][0]
    assert 12.0 < ratio < 13.0
    assert last[-1][-1] / last[-1][steps.index(100)] > 30.0


def test_curves_of_added_and_removed_records_cross_after_two_steps():
    found = FIGURES["crossing"]
    rows = [np.subtract(*both) for both in zip(found["add"], found["remove"], strict=True)]
    assert rows[0].max() == 0.0
    assert rows[1].max() > 0.015
    assert rows[1].min() < -0.05
    run = {"mechanism": hs.Laplace(1.0), "sample_rate": 0.5, "steps": 2, "adjacency": "add"}
    again = hs.get_delta(epsilon=found["epsilons"][::10], **run)
    assert again == pytest.approx(found["add"][1][::10], rel=1e-5, abs=1e-12)


def test_fixed_batches_take_twice_the_noise_of_poisson_samples():
    found = FIGURES["noise"]
    assert np.array(found["fixed"]) == pytest.approx(2.0 * np.array(found["poisson"]), rel=1e-4)
    run = {"epsilon": 1.0, "sample_rate": found["rates"][3], "steps": 10_000}
    noise = hs.get_noise_multiplier(delta=found["deltas"], **run)
    assert noise == pytest.approx([row[3] for row in found["poisson"]], rel=1e-5)
