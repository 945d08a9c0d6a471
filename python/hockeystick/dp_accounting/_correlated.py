"""Runs with correlated noise as events of dp-accounting."""

from __future__ import annotations

from typing import Any

from hockeystick import CorrelatedNoise, CyclicPoisson, FixedOrder, FullBatch, MinimumSeparation
from hockeystick._arguments import count_scalar
from hockeystick._curves.whole_runs import whole_run_kinds
from hockeystick._extras import needed
from hockeystick._vocabulary.step_kinds import in_order


def correlated_event(
    mechanism: CorrelatedNoise,
    *,
    sampling: FullBatch | FixedOrder | MinimumSeparation | CyclicPoisson,
    steps: int,
) -> Any:
    """Event of a run with correlated noise, for any accountant of dp-accounting.

    Parameters
    ----------
    mechanism : CorrelatedNoise
        With a noise multiplier.
    sampling : FullBatch, FixedOrder, MinimumSeparation or CyclicPoisson
        Who takes part when.
    steps : int
        Number of steps of the run, at least 1.

    Returns
    -------
    dp_accounting.DpEvent
        A Gaussian with the sensitivity of the run; for `CyclicPoisson` the Poisson-sampled Gaussians of the
        worst part. It describes what happens to one record, and says nothing about groups in several parts.

    Raises
    ------
    ValueError
        If an argument is out of range.
    TypeError
        If an argument has the wrong type, or the noise multiplier is missing.
    UnsupportedError
        If such a run has no account.
    ImportError
        If dp-accounting is not installed.

    Examples
    --------
    >>> import hockeystick as hs
    >>> noise = hs.CorrelatedNoise.toeplitz([1.0, 0.75], noise_multiplier=2.5)
    >>> hs.dp_accounting.correlated_event(noise, sampling=hs.CyclicPoisson(0.1, cycle=2), steps=100)
    SelfComposedDpEvent(event=PoissonSampledDpEvent(sampling_probability=0.1, \
event=GaussianDpEvent(noise_multiplier=1.9999999999999973)), count=50)
    """
    events = needed("dp_accounting", "dp-accounting").dp_event
    count = count_scalar(steps, "steps", 1)
    parts = []
    for kind, times in in_order(whole_run_kinds(mechanism, sampling, count, 1, "add_remove")):
        event = events.GaussianDpEvent(kind.noise)
        if isinstance(sampling, CyclicPoisson):
            event = events.PoissonSampledDpEvent(sampling.sample_rate, event)
        parts.append(event if times == 1 else events.SelfComposedDpEvent(event, times))
    return parts[0] if len(parts) == 1 else events.ComposedDpEvent(parts)
