"""The page of the experiments says what the stored numbers are, and some of them are found again."""

import itertools
import json
import re

import numpy as np
import pytest

import hockeystick as hs
from benches.experiments import page
from benches.experiments.effort import FULL
from benches.experiments.results import Results
from benches.experiments.shuffle import stored_models, with_other_sizes

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


def test_stored_runs_of_other_batch_sizes_are_kept():
    def run(size, clipping, accuracy):
        return {"batch_size": size, "clipping": clipping, "test_accuracy": accuracy}

    length = {"epochs": 100, "examples": 55_000, "tested_after": [50, 100]}
    now = {**length, "runs": [run(1024, "individual", 0.8), run(1024, "batch", 0.5)]}
    before = {
        **length,
        "runs": [run(256, "batch", 0.4), run(256, "individual", 0.7), run(1024, "batch", 0.3)],
    }
    kept = with_other_sizes(now, before)
    assert [(each["batch_size"], each["test_accuracy"]) for each in kept] == [
        (256, 0.7),
        (256, 0.4),
        (1024, 0.8),
        (1024, 0.5),
    ]
    for other in ({}, {**before, "epochs": 3}, {**before, "examples": 5_000}):
        assert with_other_sizes(now, other) == now["runs"]


@pytest.mark.parametrize("changed", [None, "noise_multiplier", "held_out", "choices"])
def test_stored_runs_with_other_settings_are_not_kept(tmp_path, changed):
    results = Results("shuffle", tmp_path, FULL)
    assert stored_models(results) == {}
    results.numbers = {"noise_multiplier": 4.0, "held_out": 5000, "choices": {"softmax": ((1.0,), (3.0,))}}
    results.numbers["models"] = {"softmax": {"epochs": 100}}
    results.write()
    if changed is not None:
        results.numbers[changed] = 3.0
    assert stored_models(results) == ({"softmax": {"epochs": 100}} if changed is None else {})


def test_what_the_text_says_of_individual_is_stored():
    """Numbers in sentences, which no table has."""
    stored, text = STORED["individual"], page.PAGE.read_text("utf-8")
    own = stored["individual_clipping"]
    said = [f"{own[name]['summary']['correlation_with_log_loss']:.2f}" for name in ("softmax", "adult")]
    assert f"{said[0]} with softmax regression, and {said[1]} on Adult" in text
    for name in ("shirt", "trouser"):
        of_class = [
            group["mean_epsilon"][group["names"].index(name)]
            for group in (stored["clipping_norms"][norm]["groups"]["class"] for norm in ("1.5 M", "0.5 M"))
        ]
        assert f"{name}s{' go' * (name == 'shirt')} from {of_class[0]:.2f} to {of_class[1]:.2f}" in text
    errors = [f"{100 * stored['released'][name]['mean_relative_error']:.2f}" for name in ("softmax", "adult")]
    assert f"ours are {errors[0]} and\n{errors[1]} %" in text


FIGURES = json.loads((page.FOLDER / "figures.json").read_text("utf-8"))


def test_groups_lose_less_at_low_rates():
    found = FIGURES["sampling"]
    for rate, noise, epsilons in zip(
        found["rates"], found["noise_multipliers"], found["epsilon"], strict=True
    ):
        run = {"noise_multiplier": noise, "sample_rate": rate, "steps": 100, "group_size": found["sizes"]}
        assert hs.get_epsilon(delta=1e-5, **run) == pytest.approx(epsilons, rel=1e-4)
    assert [round(epsilons[-1], 1) for epsilons in (found["epsilon"][0], found["epsilon"][-1])] == [8.5, 26.8]
    four = found["sizes"].index(4)
    exact, black_box = ([row[four] for row in found[key]] for key in ("epsilon", "black_box"))
    assert sorted(exact[:3]) == exact[:3]
    assert sorted(black_box, reverse=True) == black_box
    assert [row[0] for row in found["delta"]] == pytest.approx([1e-5] * 4, rel=1e-3)


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
    run = {"epsilon": found["epsilons"], "delta": 1e-6, "sample_rate": found["rates"][3], "steps": 10_000}
    noise = hs.get_noise_multiplier(**run)
    assert noise == pytest.approx([row[3] for row in found["poisson"]], rel=1e-5)


def test_the_noise_stops_following_the_rate_slightly_below_one():
    transitions = np.array(FIGURES["noise"]["transitions"])
    assert [round(transitions[:, 1].min(), 2), round(transitions[:, 1].max(), 2)] == [0.84, 0.92]
    for epsilon, (rate, noise) in zip(FIGURES["noise"]["epsilons"], transitions, strict=True):
        near = noise * np.array([0.98, 1.02])
        target = {"epsilon": epsilon, "delta": 1e-6, "steps": 10_000}
        rates = hs.get_sample_rate(noise_multiplier=near, tolerance=1e-4, **target)
        assert np.diff(np.log(near)) / np.diff(np.log(rates)) == pytest.approx(0.5, abs=0.02)
        assert rates[0] < rate < rates[1]


def test_fixed_batches_with_epsilon_10_can_need_more_noise_than_poisson_samples_with_epsilon_1():
    found = FIGURES["noise"]
    ten, five, one = (found["epsilons"].index(epsilon) for epsilon in (10.0, 5.0, 1.0))
    assert found["fixed"][ten][0] > found["poisson"][one][0]
    assert found["fixed"][ten][-1] == pytest.approx(found["poisson"][five][-1], rel=0.15)
    fixed = hs.WithoutReplacement(100, 1_000_000)
    epsilon = hs.get_epsilon(
        delta=1e-6, noise_multiplier=found["poisson"][one][0], sampling=fixed, steps=10_000
    )
    assert epsilon > 10.0
    table = found["table"]
    assert np.round(table["poisson"], 3).tolist() == [1.171, 0.947, 0.782, 0.629]
    assert np.round(table["fixed"], 3).tolist() == [17.463, 15.252, 12.976, 10.617]


def test_each_of_three_pairs_is_the_worst_somewhere():
    curves = np.array(list(FIGURES["pairs"]["delta"].values()))
    assert set(np.argmax(curves, axis=0)) == {0, 1, 2}
    assert list(dict.fromkeys(np.argmax(curves[:, 1:], axis=0).tolist())) == [1, 2, 0]


def test_the_joined_pair_is_between_one_direction_and_the_renyi_accountants():
    found = FIGURES["joined"]
    one = found["one_step"]
    assert one["joined"] == pytest.approx(np.maximum(one["remove"], one["add"]), rel=1e-4)
    names = ("one_direction", "joined", "renyi", "wang")
    for lower, upper in itertools.pairwise(names):
        assert np.all(np.less(found[lower], found[upper]))
    assert [round(found["epsilon_at_1e-5"][name], 2) for name in names] == [1.83, 2.2, 2.47, 3.58]


def test_the_index_of_figures_has_every_picture_that_the_papers_have():
    """A line for each paper's figures, and every link leads to a page or a heading that is there."""
    text = page.PAGE.with_name("figures.md").read_text("utf-8")
    for paper in ("GROUP", "RGP", "PITFALLS", "INDIVIDUAL", "SHUFFLE"):
        assert f"| {paper} |" in text
    for target in re.findall(r"\]\(([\w./-]+\.(?:md|ipynb))", text):
        assert (page.PAGE.parent / target).exists(), target
