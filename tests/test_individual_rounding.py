"""Roundings of individual accounting, which go up: checked in exact arithmetic."""

import math
import time
from fractions import Fraction
from types import SimpleNamespace

import numpy as np
import pytest

import hockeystick as hs
from hockeystick.accountants import IndividualAccountant, IndividualFilter
from hockeystick.accountants._adaptive_clipping import noise_of
from hockeystick.accountants._individual.accounts import shifts_of
from hockeystick.accountants._individual.deferred import complete_accounts
from hockeystick.accountants._individual.histories import _rounded_down
from hockeystick.accountants._individual.norms import quotients_rounded_up
from hockeystick.kernels import rdp_to_epsilon

RANDOM = np.random.default_rng(11)


@pytest.mark.parametrize("divisor", [1.0, 3.0, 0.1, 7.3, 1e-150, 1e150])
def test_quotients_are_the_next_floats_above_the_exact_ones(divisor):
    values = np.minimum(
        np.concatenate((RANDOM.uniform(0, divisor, 1000), np.arange(1, 60) * (divisor / 60))), divisor
    )
    for value, found in zip(values.tolist(), quotients_rounded_up(values, divisor).tolist(), strict=True):
        exact = Fraction(value) / Fraction(divisor)
        assert Fraction(math.nextafter(found, 0.0)) < exact <= Fraction(found) <= 1


def test_exact_quotients_stay_as_they_are_and_tiny_ones_are_not_zero():
    for divisor in (1.0, 3.0, 0.1, 1e150):
        values = divisor * np.array([0.0, 2.0**-40, 0.25, 0.5, 1.0])
        found = quotients_rounded_up(values, divisor).tolist()
        assert found == [0.0, 2.0**-40, 0.25, 0.5, 1.0]
    assert 0.0 < quotients_rounded_up(np.array([5e-324]), 1e150)[0] < 1e-300
    assert quotients_rounded_up(np.array([]), 3.0).shape == (0,)


def test_an_example_with_a_tiny_norm_has_a_loss():
    accountant = IndividualAccountant(2, 1e150, exact=False)
    accountant.update_norms([5e-324, 0.0])
    assert accountant._state.relative_norms()[0] > 0.0
    accountant.step(noise_multiplier=1.0, sample_rate=1.0)
    some, none = complete_accounts(accountant._state).rdp
    assert np.all(some > 0.0)
    assert np.all(none == 0.0)


def test_shifts_of_batches_of_a_fixed_size_are_rounded_up():
    norms = np.concatenate((RANDOM.uniform(0, 1, 1000), [0.0, 1e-17, 5e-324, 2.0**-52, 0.5, 1.0]))
    shifts, largest, _ = shifts_of(norms, hs.WithoutReplacement(2, 4))
    assert largest == 2.0
    for norm, found in zip(norms.tolist(), shifts.tolist(), strict=True):
        exact = 1 + Fraction(norm)
        assert Fraction(math.nextafter(found, 0.0)) < exact <= Fraction(found) <= 2


def test_noise_in_units_of_a_norm_is_the_next_float_below():
    for noise, norm in RANDOM.uniform(0.1, 2.0, (1000, 2)).tolist():
        exact = Fraction(noise) / Fraction(norm)
        found = _rounded_down(exact)
        assert Fraction(found) <= exact < Fraction(math.nextafter(found, math.inf))
    assert _rounded_down(Fraction(3, 4)) == 0.75
    assert _rounded_down(Fraction(0)) == 0.0
    assert _rounded_down(Fraction(10) ** 320) == np.finfo(float).max


def test_the_noise_of_adaptive_clipping_is_rounded_down():
    for noise, count in zip(RANDOM.uniform(0.1, 2.0, 1000), RANDOM.uniform(1.0, 20.0, 1000), strict=True):
        optimizer = SimpleNamespace(noise_multiplier=float(noise), unclipped_num_std=float(count))
        # sigma_e^-2 + sigma_u^-2 with sigma_e^-2 = sigma^-2 - (2 sigma_u)^-2.
        inverse = Fraction(optimizer.noise_multiplier) ** -2
        inverse += Fraction(3, 4) * Fraction(optimizer.unclipped_num_std) ** -2
        exact = 1 / inverse
        assert exact * (1 - Fraction(1, 10**14)) <= Fraction(noise_of(optimizer)) ** 2 <= exact


def test_a_budget_far_below_the_rounding_of_epsilon_is_found_at_once():
    started = time.perf_counter()
    epsilon = float(rdp_to_epsilon([10.0], [1e-10], 1e-5))
    gate = IndividualFilter(epsilon=epsilon, delta=1e-5, order=10.0)
    budget = gate._budget(10.0)
    assert time.perf_counter() - started < 1.0
    assert 0.9999e-10 < budget <= 1.0001e-10
    assert rdp_to_epsilon([10.0], [budget], 1e-5) <= epsilon
    for epsilon in (0.5, 1.0, 8.0):
        gate = IndividualFilter(epsilon=epsilon, delta=1e-5)
        budget = gate._budget(64.0)
        assert rdp_to_epsilon([64.0], [budget], 1e-5) <= epsilon
        assert rdp_to_epsilon([64.0], [budget * (1 + 1e-12)], 1e-5) > epsilon * (1 - 1e-12)
