"""Type hints of all public names, and constructors that refuse nonsense."""

import importlib
import inspect
import typing

import numpy as np
import pytest

import hockeystick as hs

WITH_OTHERS = {"hockeystick.opacus": "opacus", "hockeystick.dp_accounting": "dp_accounting"}


def modules():
    found = ["hockeystick", "hockeystick.errors", "hockeystick.cli"]
    for name in hs.__all__:
        if name in ("opacus", "dp_accounting", "report"):
            continue
        value = getattr(hs, name)
        if inspect.ismodule(value):
            found.append(value.__name__)
    return [*found, *WITH_OTHERS]


def public(module):
    """Yield functions and classes of a module, and what these define."""
    for name in getattr(module, "__all__", ()):
        value = getattr(module, name)
        if inspect.isclass(value):
            yield name, value
            for attribute, member in vars(value).items():
                function = getattr(member, "__func__", getattr(member, "fget", member))
                if inspect.isfunction(function):
                    yield f"{name}.{attribute}", function
        elif inspect.isfunction(value):
            yield name, value


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[pytest.mark.opacus] * (name in WITH_OTHERS)) for name in modules()],
)
def test_type_hints_of_every_public_name_can_be_read(name):
    if name in WITH_OTHERS:
        pytest.importorskip(WITH_OTHERS[name])
    for label, value in public(importlib.import_module(name)):
        try:
            typing.get_type_hints(value)
        except NameError as error:  # noqa: PERF203 -- the message names the function
            pytest.fail(f"{name}.{label}: {error}")


def test_hints_are_those_of_the_signature():
    hints = typing.get_type_hints(hs.get_epsilon)
    assert set(hints) == {*inspect.signature(hs.get_epsilon).parameters, "return"}
    assert hints["group"] == hs.Group | None


KIND, COUNT = hs.privacy_curve(noise_multiplier=1.0, sample_rate=0.1, steps=5).segments[0]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (({}, "nonsense", -3), "adjacency"),
        (({}, "add_remove", -3), "tolerance"),
        (({}, "add_remove", float("nan")), "tolerance"),
        (("nonsense", "add_remove", 1e-6), "steps"),
        (({"nonsense": 5}, "add_remove", 1e-6), "steps"),
        (({KIND: -1}, "add_remove", 1e-6), "steps"),
        (({KIND: 1.5}, "add_remove", 1e-6), "steps"),
        (({KIND: True}, "add_remove", 1e-6), "steps"),
        (({KIND: 2**63}, "add_remove", 1e-6), "steps"),
    ],
)
def test_a_curve_is_made_of_what_makes_sense(arguments, message):
    with pytest.raises((ValueError, TypeError), match=message):
        hs.PrivacyCurve(*arguments)


def test_a_curve_keeps_its_own_steps():
    steps = {KIND: COUNT}
    curve = hs.PrivacyCurve(steps, "add_remove", 1e-6)
    before = curve.epsilon(1e-5)
    steps[KIND] = 1
    assert curve.epsilon(1e-5) == before


def test_a_noise_multiplier_is_that_of_gaussian_noise():
    run = {"epsilon": 1.0, "delta": 1e-5, "sample_rate": 0.1, "steps": 5}
    with pytest.raises(TypeError, match=r"takes no mechanism but .*get_epsilon"):
        hs.get_noise_multiplier(**run, mechanism=hs.Laplace(1.0))
    # The mechanisms that it takes say how Gaussian noise is correlated, or what is clipped.
    parameter = inspect.signature(hs.get_noise_multiplier).parameters["mechanism"]
    assert parameter.annotation == "CorrelatedNoise | BatchClipping | None"
    assert np.isfinite(hs.get_noise_multiplier(**run))
