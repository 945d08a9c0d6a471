"""`hs.opacus.PrivacyEngine(public_dataset_size=)`: what is public does not depend on the records."""

import pytest
from opacus_runs import parts, train

import hockeystick as hs

pytestmark = [
    pytest.mark.opacus,
    # What torch and Opacus warn about on import and in hooks is theirs.
    pytest.mark.filterwarnings("ignore"),
]

DELTA = 1e-5


def made(records, batch_size=20, search=False, clipping="flat", **options):
    run = hs.opacus.PrivacyEngine(public_dataset_size=250, **options)
    given = parts(records=records, batch_size=batch_size)
    if search:
        return run, run.make_private_with_epsilon(
            **given, target_epsilon=6.0, target_delta=DELTA, epochs=4, clipping=clipping
        )
    return run, run.make_private(**given, noise_multiplier=1.0, clipping=clipping)


@pytest.mark.parametrize("records", [240, 241, 260, 15])
@pytest.mark.parametrize("clipping", ["flat", "per_layer"])
def test_what_is_public_does_not_depend_on_the_records(records, clipping):
    run = hs.opacus.PrivacyEngine(public_dataset_size=250)
    given = parts(records=records, batch_size=20)
    if clipping == "per_layer":
        given["max_grad_norm"] = [1.0, 1.0]
    _, optimizer, loader = run.make_private(**given, noise_multiplier=1.0, clipping=clipping)
    assert optimizer.expected_batch_size == 20
    assert len(loader) == 13  # ⌈250 / 20⌉
    assert loader.sample_rate == loader.batch_sampler.sample_rate == 20 / 250
    assert hs.sampling_of(loader) == hs.Poisson(20 / 250)


def test_without_it_opacus_divides_by_what_it_counts():
    sizes = {}
    for records in (239, 240):
        run = hs.opacus.PrivacyEngine()
        _, optimizer, loader = run.make_private(**parts(records=records, batch_size=16), noise_multiplier=1.0)
        sizes[records] = (optimizer.expected_batch_size, len(loader))
    assert sizes[239] != sizes[240]


def test_steps_are_charged_at_the_public_rate():
    run, private = made(240)
    assert train(*private, epochs=2) == 26
    assert run.accountant.history == [(1.0, 0.08, 26)]
    assert run.get_epsilon(DELTA) == hs.get_epsilon(
        delta=DELTA, noise_multiplier=1.0, sample_rate=0.08, steps=26
    )


def test_the_noise_for_a_target_is_that_of_the_public_rate_and_steps():
    plan = {"epsilon": 6.0, "delta": DELTA, "sample_rate": 0.08, "steps": 4 * 13}
    for records in (15, 240):
        run, private = made(records, search=True)
        assert private[1].noise_multiplier == hs.get_noise_multiplier(**plan)
        train(*private, epochs=4)
        assert 6.0 * (1.0 - 1e-5) < run.get_epsilon(DELTA) <= 6.0


def test_the_sums_are_divided_by_the_public_size():
    import torch

    # Without noise and with one record, a step is the clipped gradient over the public size of a batch.
    run = hs.opacus.PrivacyEngine(public_dataset_size=20)
    given = parts(records=1, batch_size=20)
    start = [each.detach().clone() for each in given["module"].parameters()]
    model, optimizer, loader = run.make_private(**given, noise_multiplier=0.0)
    assert loader.sample_rate == 1.0
    train(model, optimizer, loader)
    after = [each.detach() for each in model.parameters()]
    moved = torch.cat([(a - b).flatten() for a, b in zip(after, start, strict=True)]).norm()
    assert 0.0 < moved <= 0.1 * 1.0 / 20 * (1.0 + 1e-6)  # learning rate, clipping norm
    assert moved > 0.1 * 1.0 / 20 * 0.5


def test_a_stated_rate_is_compared_with_the_public_one():
    _, private = made(240, sampling=hs.Poisson(0.08))
    assert private[1].expected_batch_size == 20
    with pytest.raises(hs.SamplingMismatchError, match="poisson_sampling=True draws"):
        made(240, sampling=hs.Poisson(20 / 240))


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"public_dataset_size": 0}, ValueError, "public_dataset_size"),
        ({"public_dataset_size": 2.5}, ValueError, "public_dataset_size"),
        ({"public_dataset_size": "all"}, TypeError, "public_dataset_size"),
    ],
)
def test_what_is_no_size_is_refused(options, error, words):
    with pytest.raises(error, match=words):
        hs.opacus.PrivacyEngine(**options)


def test_loaders_without_a_public_batch_size_are_refused():
    from torch.utils.data import BatchSampler, DataLoader, SequentialSampler

    run = hs.opacus.PrivacyEngine(public_dataset_size=250)
    given = parts()
    with pytest.raises(hs.UnsupportedError, match="poisson_sampling=True"):
        run.make_private(**given, noise_multiplier=1.0, poisson_sampling=False)
    data = given["data_loader"].dataset
    given["data_loader"] = DataLoader(
        data, batch_sampler=BatchSampler(SequentialSampler(data), 8, drop_last=False)
    )
    with pytest.raises(ValueError, match="batch_size"):
        run.make_private(**given, noise_multiplier=1.0)
    with pytest.raises(ValueError, match="at most public_dataset_size 250, got 300"):
        made(240, batch_size=300)
    assert run.accountant.history == []
