"""The page of the experiments says what the stored numbers are, and some of them are found again."""

import json
import re

import pytest

import hockeystick as hs
from benches.experiments import page

STORED = {paper: json.loads((page.FOLDER / f"{paper}.json").read_text("utf-8")) for paper in page.PAPERS}


def test_the_tables_of_the_page_are_the_stored_numbers():
    text = page.PAGE.read_text("utf-8")
    shown = [found[2] for found in page.MARKS.finditer(text)]
    assert set(shown) <= set(page.TABLES)
    assert len(shown) == len(set(shown)) >= 12
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
