"""What PyTorch's loaders really do, told by their samplers and counted in what they draw."""

import math
import subprocess
import sys
import warnings

import numpy as np
import pytest

import hockeystick as hs
from hockeystick.opacus import check_loader

RECORDS = 40


def test_importing_the_library_imports_neither_torch_nor_opacus():
    code = "import sys, hockeystick; print([m for m in ('torch', 'opacus') if m in sys.modules])"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "[]"


@pytest.mark.parametrize("wrong", [None, [1, 2], "loader", object(), iter([])])
def test_only_loaders_are_checked(wrong):
    with pytest.raises(TypeError, match=r"loader must be a torch.utils.data.DataLoader"):
        check_loader(wrong)


@pytest.fixture(scope="module")
def data():
    # torch warns of deprecations of its own.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import torch.utils.data
        import torch.utils.data.distributed
    return torch.utils.data


@pytest.fixture
def records(data):
    import torch

    return data.TensorDataset(torch.arange(RECORDS))


def inclusion(loader, epochs):
    """Largest number of copies in a batch, and how often each record is in the first batch of an epoch."""
    copies, seen = 0, np.zeros(RECORDS)
    for _ in range(epochs):
        (batch,) = next(iter(loader))
        counts = np.bincount(batch.numpy(), minlength=RECORDS)
        copies = max(copies, counts.max())
        seen += counts > 0
    return copies, seen / epochs


def within(observed, rate, epochs):
    """Within five standard deviations."""
    return np.all(np.abs(observed - rate) <= 5 * math.sqrt(rate * (1 - rate) / epochs) + 1e-12)


@pytest.mark.opacus
def test_opacus_loaders_are_poisson(data, records):
    from opacus.data_loader import DPDataLoader

    loader = DPDataLoader(records, sample_rate=0.3)
    scheme = check_loader(loader)
    assert scheme.is_poisson
    assert scheme.sampling == hs.Poisson(0.3)
    assert (scheme.sample_rate, scheme.dataset_size, scheme.batch_size) == (0.3, RECORDS, None)
    copies, seen = inclusion(loader, 2000)
    assert copies == 1
    assert within(seen, 0.3, 2000)
    assert check_loader(loader, assumed=hs.Poisson(0.3)) == scheme
    # One over the number of batches is not the rate.
    assert len(loader) == 3
    with pytest.raises(hs.SamplingMismatchError, match=r"sample rate 0.333.* that of the loader is 0.3"):
        check_loader(loader, assumed=hs.Poisson(1 / len(loader)))
    with pytest.raises(hs.SamplingMismatchError, match=r"WithoutReplacement\(.*is accounted for"):
        check_loader(loader, assumed=hs.WithoutReplacement(12, RECORDS))
    made = DPDataLoader.from_data_loader(data.DataLoader(records, batch_size=10))
    assert check_loader(made).sample_rate == 0.25


@pytest.mark.opacus
def test_physical_batches_of_a_logical_one_change_nothing(records):
    from opacus.data_loader import DPDataLoader
    from opacus.utils.batch_memory_manager import wrap_data_loader

    class Optimizer:
        def signal_skip_step(self, do_skip=True):
            pass

    loader = DPDataLoader(records, sample_rate=0.3)
    wrapped = wrap_data_loader(data_loader=loader, max_batch_size=4, optimizer=Optimizer())
    assert check_loader(wrapped) == check_loader(loader)


@pytest.mark.opacus
@pytest.mark.parametrize("drop_last", [False, True])
def test_shuffling_is_not_poisson(data, records, drop_last):
    loader = data.DataLoader(records, batch_size=12, shuffle=True, drop_last=drop_last)
    scheme = check_loader(loader, on_mismatch="ignore")
    assert (scheme.name, scheme.sampling, scheme.is_poisson) == ("shuffle", None, False)
    assert scheme.sample_rate == 12 / RECORDS
    _, seen = inclusion(loader, 1500)
    assert within(seen, 12 / RECORDS, 1500)
    with pytest.raises(hs.SamplingMismatchError, match=r"Poisson sampling is accounted for.*shuffles 40"):
        check_loader(loader)
    with pytest.warns(hs.SamplingMismatchWarning, match="shuffles 40") as caught:
        assert check_loader(loader, on_mismatch="warn") == scheme
    assert caught[0].filename == __file__


@pytest.mark.opacus
def test_one_fresh_subset_an_epoch_is_a_fixed_batch(data, records):
    sampler = data.RandomSampler(records, num_samples=8)
    loader = data.DataLoader(records, batch_size=8, sampler=sampler)
    fixed = hs.WithoutReplacement(8, RECORDS)
    scheme = check_loader(loader, assumed=fixed)
    assert scheme.sampling == fixed
    assert scheme.sample_rate == 0.2
    copies, seen = inclusion(loader, 1500)
    assert copies == 1
    assert within(seen, 0.2, 1500)
    with pytest.raises(hs.SamplingMismatchError, match="Poisson sampling is accounted for"):
        check_loader(loader)
    with pytest.raises(hs.SamplingMismatchError, match=r"draws WithoutReplacement\(batch_size=8"):
        check_loader(loader, assumed=hs.WithoutReplacement(9, RECORDS))
    # Two batches of one permutation depend on each other.
    halves = data.DataLoader(records, batch_size=4, sampler=sampler)
    assert check_loader(halves, on_mismatch="ignore").name == "shuffle"
    assert check_loader(halves, on_mismatch="ignore").sample_rate == 0.1


@pytest.mark.opacus
def test_draws_with_replacement_are_told_their_rate(data, records):
    sampler = data.RandomSampler(records, replacement=True, num_samples=100)
    loader = data.DataLoader(records, batch_size=10, sampler=sampler)
    scheme = check_loader(loader, on_mismatch="ignore")
    assert (scheme.name, scheme.sampling) == ("with_replacement", None)
    assert scheme.sample_rate == pytest.approx(1 - (1 - 1 / RECORDS) ** 10)
    copies, seen = inclusion(loader, 1500)
    assert copies > 1
    assert within(seen, scheme.sample_rate, 1500)


@pytest.mark.opacus
def test_a_weighted_sampler_with_few_draws_has_the_rate_of_its_likeliest_record(data, records):
    weights = np.ones(RECORDS)
    weights[3] = 10.0
    sampler = data.WeightedRandomSampler(weights.tolist(), num_samples=10)
    loader = data.DataLoader(records, batch_size=5, sampler=sampler)
    assert len(loader) == 2  # "one over the number of batches" would be a half
    scheme = check_loader(loader, on_mismatch="ignore")
    assert (scheme.name, scheme.dataset_size) == ("weighted", RECORDS)
    assert scheme.sample_rate == pytest.approx(1 - (1 - 10 / 49) ** 5)
    _, seen = inclusion(loader, 3000)
    assert within(seen[3], scheme.sample_rate, 3000)
    assert np.all(seen[np.arange(RECORDS) != 3] < scheme.sample_rate)
    with pytest.raises(hs.SamplingMismatchError, match="by weights, with replacement, from 40"):
        check_loader(loader)
    without = data.WeightedRandomSampler(weights.tolist(), num_samples=10, replacement=False)
    assert check_loader(data.DataLoader(records, sampler=without), on_mismatch="ignore").sample_rate is None


@pytest.mark.opacus
def test_batches_that_anyone_knows_hide_nothing(data, records):
    loader = data.DataLoader(records, batch_size=10)
    scheme = check_loader(loader, on_mismatch="ignore")
    assert (scheme.name, scheme.sampling, scheme.sample_rate) == ("sequential", None, 1.0)
    whole = data.DataLoader(records, batch_size=RECORDS)
    assert check_loader(whole, assumed=hs.FullBatch()).sampling == hs.FullBatch()
    shuffled = data.DataLoader(records, batch_size=2 * RECORDS, shuffle=True)
    assert check_loader(shuffled, assumed=hs.FullBatch()).name == "full_batch"
    one = data.DataLoader(records, batch_size=None)
    assert check_loader(one, on_mismatch="ignore").batch_size == 1


@pytest.mark.opacus
def test_other_samplers(data, records):
    def name_of(**options):
        return check_loader(data.DataLoader(records, **options), on_mismatch="ignore").name

    subset = data.SubsetRandomSampler(range(20))
    scheme = check_loader(data.DataLoader(records, batch_size=5, sampler=subset), on_mismatch="ignore")
    assert (scheme.name, scheme.dataset_size, scheme.sample_rate) == ("shuffle", 20, 0.25)
    ranks = data.distributed.DistributedSampler(records, num_replicas=2, rank=0)
    scheme = check_loader(data.DataLoader(records, batch_size=5, sampler=ranks), on_mismatch="ignore")
    assert (scheme.name, scheme.sample_rate) == ("distributed", 0.25)
    assert "DifferentiallyPrivateDistributedDataParallel" in scheme.description

    class Own(data.Sampler):
        def __iter__(self):
            return iter(range(RECORDS))

        def __len__(self):
            return RECORDS

    assert name_of(batch_size=5, sampler=Own()) == "unknown"
    assert name_of(batch_sampler=[[0, 1], [2, 3]]) == "unknown"
    few = data.RandomSampler(records, num_samples=4)
    assert name_of(batch_size=8, sampler=few, drop_last=True) == "unknown"

    class Stream(data.IterableDataset):
        def __iter__(self):
            return iter(range(RECORDS))

    with pytest.raises(hs.SamplingMismatchError, match="IterableDataset"):
        check_loader(data.DataLoader(Stream(), batch_size=5))


@pytest.mark.opacus
def test_what_is_assumed_and_done_about_it_is_checked(data, records):
    loader = data.DataLoader(records, batch_size=10)
    with pytest.raises(TypeError, match="sampling"):
        check_loader(loader, assumed=0.1)
    with pytest.raises(ValueError, match="on_mismatch must be one of 'raise', 'warn', 'ignore'"):
        check_loader(loader, on_mismatch="print")
