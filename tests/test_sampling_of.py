"""The sampling scheme of loaders and batch selections of other libraries."""

import sys

import pytest

import hockeystick as hs


@pytest.fixture
def torch_data():
    import torch
    from torch.utils import data

    return data, data.TensorDataset(torch.zeros(1000, 2))


@pytest.mark.opacus
def test_loaders_of_pytorch_and_opacus(torch_data):
    from opacus.data_loader import DPDataLoader

    data, records = torch_data
    shuffled = data.DataLoader(records, batch_size=100, shuffle=True)
    assert hs.sampling_of(shuffled) == hs.Shuffle(100, 1000)
    cut = data.DataLoader(records, batch_size=300, shuffle=True, drop_last=True)
    assert hs.sampling_of(cut) == hs.Shuffle(300, 1000)
    assert hs.sampling_of(data.DataLoader(records, batch_size=1000)) == hs.FullBatch()
    assert hs.sampling_of(DPDataLoader.from_data_loader(shuffled)) == hs.Poisson(0.1)
    part = data.DataLoader(records, batch_size=50, sampler=data.RandomSampler(records, num_samples=50))
    assert hs.sampling_of(part) == hs.WithoutReplacement(50, 1000)


@pytest.mark.opacus
def test_loaders_without_a_guarantee_say_what_to_do(torch_data):
    data, records = torch_data
    weighted = data.WeightedRandomSampler([1.0] * 999 + [5.0], 1000)
    for arguments, words in [
        ({"batch_size": 300, "shuffle": True}, "shuffles 1000 records"),
        ({"batch_size": 100}, "in their order"),
        ({"batch_size": 100, "sampler": weighted}, "by weights"),
    ]:
        with pytest.raises(hs.SamplingMismatchError, match=words):
            hs.sampling_of(data.DataLoader(records, **arguments))
    with pytest.raises(TypeError, match="DataLoader"):
        hs.sampling_of([1, 2, 3])


@pytest.mark.opacus
def test_loaders_of_accelerate(torch_data):
    from accelerate import Accelerator
    from accelerate.data_loader import prepare_data_loader, skip_first_batches

    data, records = torch_data
    loader = data.DataLoader(records, batch_size=100, shuffle=True)
    prepared = Accelerator(cpu=True).prepare(loader)
    assert hs.sampling_of(prepared) == hs.Shuffle(100, 1000)
    assert hs.sampling_of(skip_first_batches(prepared, 3)) == hs.Shuffle(100, 1000)
    arguments = {"process_index": 0, "put_on_device": False}
    ranks = prepare_data_loader(loader, num_processes=2, use_seedable_sampler=True, **arguments)
    assert hs.sampling_of(ranks) == hs.Shuffle(200, 1000)
    parts = prepare_data_loader(loader, num_processes=2, split_batches=True, **arguments)
    assert hs.sampling_of(parts) == hs.Shuffle(100, 1000)


@pytest.mark.opacus
@pytest.mark.skipif(sys.version_info < (3, 11), reason="JAX Privacy needs Python 3.11")
def test_batch_selections_of_jax_privacy():
    from jax_privacy import batch_selection as selection

    poisson = selection.CyclicPoissonSampling(0.1, 10)
    assert hs.sampling_of(poisson) == hs.Poisson(0.1)
    assert hs.sampling_of(selection.UserSelectionStrategy(poisson)) == hs.Poisson(0.1)
    capped = selection.CyclicPoissonSampling(0.1, 10, truncated_batch_size=30)
    assert hs.sampling_of(capped, dataset_size=100) == hs.Poisson(0.1, max_batch_size=30, dataset_size=100)
    with pytest.raises(TypeError, match="dataset_size"):
        hs.sampling_of(capped)
    assert hs.sampling_of(selection.BallsInBinsSampling(10, 5)) == hs.FixedBins(5)
    fixed = selection.FixedBatchSampling(10, 5)
    assert hs.sampling_of(fixed, dataset_size=100) == hs.WithoutReplacement(10, 100)
    for refused, words in [
        (selection.CyclicPoissonSampling(0.1, 10, cycle_length=4), "steps=3 with sampling=Poisson"),
        (selection.FixedBatchSampling(10, 5, replace=True), "with replacement"),
        (selection.BMinSepSampling(0.1, 10, 3), "no guarantee"),
    ]:
        with pytest.raises(hs.SamplingMismatchError, match=words):
            hs.sampling_of(refused, dataset_size=100)


def test_random_allocation_of_later_versions_is_known_by_name():
    kind = type("RandomAllocationSampling", (), {"__module__": "jax_privacy.batch_selection"})
    kind.batch_iterator = lambda self: iter(())
    selection = kind()
    selection.iterations, selection.total_participations = 100, 3
    assert hs.sampling_of(selection) == hs.RandomAllocation(100, times=3)
