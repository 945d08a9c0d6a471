"""One record against dp-accounting: its two discretisations enclose our certified interval."""

import pytest

import hockeystick as hs

pytestmark = pytest.mark.opacus

INTERVAL = 2e-4
"""Width of the cells of dp-accounting's loss distributions."""

ROUNDING = 1e-9
"""Its FFT and the tails it truncates, relative to a delta of at least 1e-7."""

RUNS = [
    pytest.param(1.0, 0.01, 1000, id="usual"),
    pytest.param(1.0, 0.2, 10, id="few steps"),
    pytest.param(2.0, 0.05, 500, id="more noise"),
    pytest.param(0.6, 0.001, 100, id="little noise"),
    pytest.param(8.0, 1.0, 20, id="full batch"),
    pytest.param(1.0, 0.1, 1, id="one step"),
]


def peer(sigma, rate, steps, pessimistic):
    from dp_accounting.pld import privacy_loss_distribution as pld

    one = pld.from_gaussian_mechanism(
        sigma,
        sampling_prob=rate,
        value_discretization_interval=INTERVAL,
        pessimistic_estimate=pessimistic,
        use_connect_dots=False,
    )
    return one.self_compose(steps, tail_mass_truncation=1e-15) if steps > 1 else one


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize(("sigma", "rate", "steps"), RUNS)
def test_delta_lies_between_its_optimistic_and_pessimistic_estimates(sigma, rate, steps):
    optimistic, pessimistic = (peer(sigma, rate, steps, choice) for choice in (False, True))
    run = {"noise_multiplier": sigma, "sample_rate": rate, "steps": steps}
    for epsilon in hs.get_epsilon(delta=[1e-2, 1e-4, 1e-6], **run):
        lower, upper = hs.get_delta(epsilon=epsilon, bounds=True, **run)
        low = optimistic.get_delta_for_epsilon(epsilon)
        high = pessimistic.get_delta_for_epsilon(epsilon)
        assert low <= high
        assert low * (1 - ROUNDING) <= upper
        assert high * (1 + ROUNDING) >= lower


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize(("sigma", "rate", "steps"), RUNS)
def test_epsilon_lies_between_its_optimistic_and_pessimistic_estimates(sigma, rate, steps):
    optimistic, pessimistic = (peer(sigma, rate, steps, choice) for choice in (False, True))
    run = {"noise_multiplier": sigma, "sample_rate": rate, "steps": steps}
    for delta in (1e-2, 1e-4, 1e-6):
        lower, upper = hs.get_epsilon(delta=delta, bounds=True, **run)
        assert optimistic.get_epsilon_for_delta(delta) <= upper * (1 + ROUNDING)
        assert pessimistic.get_epsilon_for_delta(delta) >= lower * (1 - ROUNDING)
