"""The words and numbers of a report: one rounding, no names of the library, references in full."""

import re

import pytest
from report_pages import page, words

import hockeystick as hs
from hockeystick._rounding import rounded_down, rounded_up
from hockeystick.reporting._cited import REFERENCES

RUN = {"noise_multiplier": 1.0, "sample_rate": 0.01, "steps": 100}
CURVE = hs.privacy_curve(**RUN)


@pytest.mark.parametrize("adjacency", ["add_remove", "replace"])
def test_there_is_one_epsilon_no_placeholder_and_no_name_of_the_library(adjacency, tmp_path):
    curve = hs.privacy_curve(adjacency=adjacency, **RUN)
    found = page(curve, tmp_path, dataset_size=10_000, pictures=False)
    shown = re.search(r"epsilon = ([\d.]+) and", words(found))[1]
    relation = {"add_remove": "add or remove", "replace": "replace"}[adjacency]
    assert found.row("1")[1] == found.row("1 in 100,000")[1] == shown
    assert found.row(f"Poisson sampling, {relation}")[1] == shown
    for_officers = words(found).partition("For engineers")[0]
    for word in ("please", "1e-05", "add_remove", "hs.", "check_loader", "not known to this report"):
        assert word not in for_officers, word
    for word in ("tight", "dominating pair", "GROUP", "PITFALLS", "Theorem"):
        assert word not in for_officers, word


EVERY_SCHEME = {
    "fixed": {"sampling": hs.WithoutReplacement(10, 500)},
    "full": {"sampling": hs.FullBatch()},
    "dealt": {"sampling": hs.RandomAllocation(10)},
    "bins": {"sampling": hs.FixedBins(10)},
    "cut": {"sampling": hs.Poisson(0.1, max_batch_size=60, dataset_size=500)},
    "shuffled": {"sampling": hs.Shuffle(10, 500), "adjacency": "zero_out"},
    "laplace": {"sample_rate": 0.1, "mechanism": hs.Laplace(3.0)},
    "response": {"sample_rate": 0.1, "mechanism": hs.RandomizedResponse(0.6)},
    "members": {"group": hs.Group(rates=[0.1, 0.2])},
}


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=pytest.mark.slow) if name == "laplace" else name for name in EVERY_SCHEME],
)
def test_what_is_assumed_is_said_without_words_of_the_library(name, tmp_path):
    noise = {} if "mechanism" in EVERY_SCHEME[name] else {"noise_multiplier": 9.0}
    curve = hs.privacy_curve(steps=20, **noise, **EVERY_SCHEME[name])
    found = page(curve, tmp_path, group_sizes=[curve_size(name)], pictures=False)
    for_officers = words(found).partition("The same noise and steps")[0]
    assert not re.search(
        r"\w\(|_\w|tight|GROUP|PITFALLS|Theorem|\bpair\b|None", for_officers.replace("__", "")
    )


def curve_size(name):
    return 2 if name == "members" else 1


@pytest.mark.parametrize("sampling", ["poisson", "shuffle"])
def test_no_epsilon_stands_twice_with_two_roundings(sampling, tmp_path):
    sizes = {"batch_size": 100, "dataset_size": 10_000}
    run = hs.Run(sampling=sampling, noise_multiplier=1.3, steps=150, **sizes)
    found = page(run, tmp_path, pictures=False)
    poisson = found.row("Poisson sampling, add or remove")[1]
    own = re.search(r"epsilon = ([\d.]+) and", words(found))[1]
    lower, upper = found.row("shuffling, zero out")[1].split(" to ")
    assert own == {"poisson": poisson, "shuffle": upper}[sampling]
    assert f"Poisson accounting says {poisson}" in found.row("shuffling, zero out")[2]
    numbers = set(re.findall(r"(?<![\d.,])\d+\.\d+(?![\d%])(?! %)", words(found)))
    for shown in (poisson, own, lower, upper):
        value = float(shown)
        coarser = {round_(value, digits) for round_ in (rounded_up, rounded_down) for digits in (3, 4)}
        assert not (coarser - {shown}) & numbers, shown


def test_what_is_cited_is_given_in_full(tmp_path):
    fixed = hs.privacy_curve(noise_multiplier=1.0, sampling=hs.WithoutReplacement(10, 500), steps=30)
    rows = dict(row for row in page(fixed, tmp_path, pictures=False).rows if len(row) == 2)
    assert "https://arxiv.org/abs/2405.20769" in rows["PITFALLS"]
    assert "https://arxiv.org/abs/2303.00654" in rows["Ponomareva et al. 2023"]
    assert "GROUP" not in rows
    for name, full in REFERENCES.items():
        assert re.search(r"https?://\S+$", full), name
        assert re.search(r"\b20\d\d\b", full), name
        assert "et al." not in full, name
