"""What has a proven dominating pair is answered, everything else is refused with what to use instead."""

from functools import cache
from itertools import product

import numpy as np
import pytest

import hockeystick as hs
from hockeystick.accountants import GroupAccountant

# What is supported is asked here, not how narrow the answers are.
pytestmark = pytest.mark.filterwarnings("ignore::hockeystick.WideIntervalWarning")

MECHANISMS = {
    "gaussian": {"noise_multiplier": 5.0},
    "laplace": {"mechanism": hs.Laplace(20.0)},
    "response": {"mechanism": hs.RandomizedResponse(0.6)},
}
SCHEMES = {
    "poisson": {"sampling": hs.Poisson(0.1)},
    "fixed": {"sampling": hs.WithoutReplacement(10, 100)},
    "full": {"sampling": hs.FullBatch()},
}
ADJACENCIES = ("add_remove", "add", "remove", "replace")
GROUPS = {
    "one": {"group_size": 1},
    "several": {"group_size": 3},
    "group of one": {"group": hs.Group(1, gradients="orthogonal")},
    "group of several": {"group": hs.Group(3)},
    "one rate": {"group": hs.Group(rates=[0.1])},
    "rates": {"group": hs.Group(rates=[0.1, 0.05])},
    "norms": {"group": hs.Group(norms=[1.0, 0.5])},
    "orthogonal": {"group": hs.Group(3, gradients="orthogonal")},
    "rates and norms": {"group": hs.Group(rates=[0.1, 0.05], norms=[1.0, 0.5])},
    "rates, orthogonal": {"group": hs.Group(rates=[0.1, 0.05], gradients="orthogonal")},
    "bounded cosine": {"group": hs.Group(3, cosine=0.4)},
    "rates, bounded cosine": {"group": hs.Group(rates=[0.1, 0.05], cosine=0.4)},
}
PLAIN = {"one", "several", "group of one", "group of several"}


def is_supported(mechanism, scheme, adjacency, group):
    """docs/theory/dominating-pairs.md, row by row."""
    replace = adjacency == "replace"
    if mechanism in ("laplace", "response"):
        return {
            "poisson": group in PLAIN | {"one rate", "rates"},
            "full": group in PLAIN,
            "fixed": group in PLAIN,
        }[scheme]
    if scheme == "fixed":
        return group in PLAIN
    if scheme == "full":
        return group in PLAIN or (not replace and group in {"norms", "orthogonal", "bounded cosine"})
    return not replace or not group.endswith("orthogonal")


COMBINATIONS = list(product(MECHANISMS, SCHEMES, ADJACENCIES, GROUPS))
SUPPORTED = [c for c in COMBINATIONS if is_supported(*c)]
UNSUPPORTED = [c for c in COMBINATIONS if not is_supported(*c)]


def arguments(mechanism, scheme, adjacency, group):
    return {
        **MECHANISMS[mechanism],
        **SCHEMES[scheme],
        "adjacency": adjacency,
        **GROUPS[group],
    }


def label(combination):
    return " ".join(combination)


@cache
def interval(run):
    """Epsilon of five steps of a run, given by its items: what several refusals advise is asked once."""
    return hs.get_epsilon(delta=1e-3, steps=5, bounds=True, **dict(run))


@pytest.mark.parametrize("combination", SUPPORTED, ids=label)
def test_a_supported_combination_is_answered(combination):
    run = arguments(*combination)
    lower, upper = interval(frozenset(run.items()))
    assert 0.0 < lower <= upper < np.inf
    curve = hs.privacy_curve(steps=5, **run)
    assert curve.epsilon(1e-3) == pytest.approx(upper, rel=2e-6)
    assert f"adjacency {combination[2]!r}" in str(curve)


@pytest.mark.parametrize("combination", UNSUPPORTED, ids=label)
def test_an_unsupported_combination_is_refused_by_every_function(combination):
    run = arguments(*combination)
    target = {"epsilon": 1.0, "delta": 1e-5}
    with pytest.raises(hs.UnsupportedError, match="not supported together: use ") as caught:
        hs.get_epsilon(delta=1e-5, steps=5, **run)
    for question in (
        lambda: hs.get_delta(epsilon=1.0, steps=5, **run),
        lambda: hs.get_steps(**target, **run),
        lambda: hs.privacy_curve(steps=5, **run),
    ):
        with pytest.raises(hs.UnsupportedError, match="not supported together") as again:
            question()
        assert str(again.value) == str(caught.value)
    if combination[0] == "gaussian":
        run.pop("noise_multiplier")
        with pytest.raises(hs.UnsupportedError, match="not supported together"):
            hs.get_noise_multiplier(**target, steps=5, **run)


@pytest.mark.parametrize("combination", UNSUPPORTED, ids=label)
def test_the_advice_of_a_refusal_can_be_followed(combination):
    with pytest.raises(hs.UnsupportedError) as caught:
        hs.get_epsilon(delta=1e-5, steps=5, **arguments(*combination))
    advice = str(caught.value).partition(" together: use ")[2].split("; or ")
    assert advice
    for sentence in advice:
        run = followed(arguments(*combination), sentence)
        assert interval(frozenset(run.items()))[1] < np.inf


CHANGES = {
    "noise_multiplier in place of mechanism": {"noise_multiplier": 5.0, "mechanism": None},
    "sampling=Poisson(sample_rate)": SCHEMES["poisson"],
    "sampling=FullBatch()": SCHEMES["full"],
    "sampling=WithoutReplacement(batch_size, dataset_size)": SCHEMES["fixed"],
    "adjacency='add_remove', 'add' or 'remove'": {"adjacency": "remove"},
    "group_size=1": {"group": None, "group_size": 1},
    "a group_size, without rates, norms and orthogonal gradients": {"group": None, "group_size": 4},
    "group=Group(rates=...)": GROUPS["rates"],
    "group=Group(size=..., cosine=...)": GROUPS["bounded cosine"],
    "group=Group(rates=..., cosine=...)": GROUPS["rates, bounded cosine"],
    "group=Group(norms=...)": GROUPS["norms"],
    "group=Group(rates=..., norms=...)": GROUPS["rates and norms"],
    "group=Group(size=..., gradients='orthogonal')": GROUPS["orthogonal"],
    "group=Group(rates=..., gradients='orthogonal')": GROUPS["rates, orthogonal"],
}


def followed(run, sentence):
    changed = {**run}
    for change in sentence.split(" with "):
        if "group" in CHANGES[change]:
            changed.pop("group_size", None)
        changed.update(CHANGES[change])
    return changed


@pytest.mark.parametrize(
    ("combination", "words"),
    [
        (("gaussian", "poisson", "replace", "orthogonal"), ["'add_remove'", "a group_size"]),
        (("gaussian", "fixed", "add", "norms"), ["Poisson", "FullBatch", "a group_size"]),
        (("gaussian", "full", "remove", "rates"), ["Poisson"]),
        (("laplace", "fixed", "add_remove", "rates"), ["Poisson", "a group_size"]),
        (("response", "fixed", "remove", "rates"), ["Poisson", "a group_size"]),
        (("gaussian", "fixed", "remove", "orthogonal"), ["Poisson", "FullBatch", "a group_size"]),
        (("response", "poisson", "replace", "norms"), ["noise_multiplier", "a group_size"]),
        (("laplace", "fixed", "replace", "rates"), ["Poisson", "a group_size"]),
        (("laplace", "poisson", "add", "norms"), ["noise_multiplier", "a group_size"]),
    ],
)
def test_the_refusal_names_what_is_near(combination, words):
    with pytest.raises(hs.UnsupportedError) as caught:
        hs.get_epsilon(delta=1e-5, steps=5, **arguments(*combination))
    advice = str(caught.value).partition(": use ")[2]
    assert all(word in advice for word in words), advice


def test_one_group_too_many_in_an_array_is_refused():
    cut = hs.Poisson(0.1, max_batch_size=20, dataset_size=100)
    run = {"noise_multiplier": 1.0, "sampling": cut, "steps": 5, "adjacency": "replace"}
    assert hs.get_epsilon(delta=1e-5, group_size=[1, 1], **run).shape == (2,)
    with pytest.raises(hs.UnsupportedError, match="several records"):
        hs.get_epsilon(delta=1e-5, group_size=[1, 2], **run)
    with pytest.raises(hs.UnsupportedError, match="several records"):
        hs.get_group_size(epsilon=1.0, delta=1e-5, **run)


def test_the_noise_multiplier_of_laplace_noise_is_not_asked_for():
    with pytest.raises(TypeError, match="takes no mechanism"):
        hs.get_noise_multiplier(epsilon=1.0, delta=1e-5, sample_rate=0.1, steps=5, mechanism=hs.Laplace(1.0))


def test_the_black_box_needs_a_pair_for_one_record_only():
    run = {"delta": 1e-5, "steps": 1, "adjacency": "replace"}
    assert hs.black_box.get_epsilon(noise_multiplier=5.0, sample_rate=0.1, group_size=3, **run) < np.inf
    assert hs.black_box.get_epsilon(mechanism=hs.Laplace(9.0), sample_rate=0.1, group_size=3, **run) < np.inf
    with pytest.raises(hs.UnsupportedError, match="Skellam"):
        hs.black_box.get_epsilon(mechanism=hs.Skellam(9.0), sample_rate=0.1, group_size=3, **run)


def test_the_accountant_takes_the_steps_that_the_table_lists():
    for combination in COMBINATIONS:
        step = arguments(*combination)
        accountant = GroupAccountant(adjacency=step.pop("adjacency"), **GROUPS[combination[3]])
        for name in GROUPS[combination[3]]:
            del step[name]
        if is_supported(*combination):
            accountant.step(**step)
        else:
            with pytest.raises(hs.UnsupportedError, match="not supported together"):
                accountant.step(**step)
        assert len(accountant) == is_supported(*combination)


def test_an_upper_bound_that_need_not_be_attained_is_labelled():
    fixed = {"noise_multiplier": 2.0, "sampling": hs.WithoutReplacement(10, 100), "steps": 5}
    assert hs.privacy_curve(**fixed).tight
    assert hs.privacy_curve(group_size=2, **fixed).tight
    replaced = hs.privacy_curve(adjacency="replace", group_size=2, **fixed)
    assert not replaced.tight
    assert "upper bound" in str(replaced)
    tight = hs.privacy_curve(noise_multiplier=2.0, sample_rate=0.1, steps=5)
    assert tight.tight
    assert "upper bound" not in str(tight)
    assert (tight + hs.privacy_curve(group_size=2, **fixed)).tight
    assert not (replaced + replaced).tight


def test_mechanisms_without_an_exact_curve_are_refused_with_advice():
    with pytest.raises(hs.UnsupportedError, match=r"no exact privacy curve.*RenyiGroupAccountant"):
        hs.get_epsilon(delta=1e-5, mechanism=hs.Skellam(9.0), sample_rate=0.1, steps=5)
