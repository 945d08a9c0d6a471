"""Individual accounting in real Opacus training: the tracker, and clipping to norms of their own."""

import numpy as np
import pytest
from norm_recorder import NormRecorder

import hockeystick as hs

pytestmark = [
    pytest.mark.opacus,
    # What torch and Opacus warn about on import and in hooks is theirs.
    pytest.mark.filterwarnings("ignore"),
]

RECORDS, RATE, EPOCHS = 60, 0.2, 2
STEPS = EPOCHS * 5
NORM, NOISE, STEP_SIZE = 0.7, 1.3, 3.0


class Run:
    """A training run with Opacus."""

    def __init__(self, *, noise_multiplier=NOISE, poisson=True, lr=STEP_SIZE):
        import torch
        from opacus import PrivacyEngine

        torch.manual_seed(0)
        inputs = torch.randn(RECORDS, 6) * torch.linspace(0.1, 2.0, RECORDS)[:, None]
        self.dataset = torch.utils.data.TensorDataset(inputs, (inputs[:, 0] > 0).long())
        self.loss_fn = torch.nn.CrossEntropyLoss()
        self.engine = PrivacyEngine(accountant="rdp")
        layers = [torch.nn.Linear(6, 5), torch.nn.Tanh(), torch.nn.Linear(5, 2)]
        bare = torch.nn.Sequential(*layers)
        self.model, self.optimizer, self.loader = self.engine.make_private(
            module=bare,
            optimizer=torch.optim.SGD(bare.parameters(), lr=lr, momentum=0.5),
            data_loader=torch.utils.data.DataLoader(
                hs.opacus.IndexedDataset(self.dataset), batch_size=int(RATE * RECORDS), shuffle=not poisson
            ),
            noise_multiplier=noise_multiplier,
            max_grad_norm=NORM,
            poisson_sampling=poisson,
        )
        self.weights = []
        """Flat weights at the start of every step."""
        self.batches = []
        """Indices of every step."""

    def track(self, accountant, refresh_every=1):
        tracker = hs.opacus.IndividualTracker(
            self.model, self.dataset, self.loss_fn, accountant, refresh_every, chunk_size=25
        )
        tracker.attach(self.optimizer, RATE)
        return tracker

    def flat(self):
        import torch

        return torch.cat([each.detach().flatten() for each in self.model.parameters()]).numpy().copy()

    def train(self, physical=None, accumulate=1):
        import torch
        from opacus.utils.batch_memory_manager import wrap_data_loader

        torch.manual_seed(1)
        loader = self.loader
        if physical is not None:
            loader = wrap_data_loader(data_loader=loader, max_batch_size=physical, optimizer=self.optimizer)
        announce = getattr(self.optimizer, "announce", lambda indices: None)
        for _ in range(EPOCHS):
            for number, (inputs, labels, indices) in enumerate(loader, 1):
                self.weights.append(self.flat())
                self.batches.append(indices.numpy())
                if number % accumulate == 1 or accumulate == 1:
                    self.optimizer.zero_grad()
                self.loss_fn(self.model(inputs), labels).backward()
                announce(indices)
                if number % accumulate == 0:
                    self.optimizer.step()
        return self.flat()

    def norms_at(self, weights):
        """Norms of all examples, in a fresh model without Opacus."""
        import torch

        bare = torch.nn.Sequential(torch.nn.Linear(6, 5), torch.nn.Tanh(), torch.nn.Linear(5, 2))
        torch.nn.utils.vector_to_parameters(torch.from_numpy(weights), bare.parameters())
        return hs.opacus.per_example_norms(bare, self.dataset, self.loss_fn)


@pytest.mark.parametrize("physical", [None, 5])
@pytest.mark.parametrize("refresh_every", [1, 4])
def test_tracking_changes_no_weight(refresh_every, physical):
    run, alone = Run(), Run()
    recorder = NormRecorder(RECORDS, NORM)
    run.track(recorder, refresh_every)
    np.testing.assert_array_equal(run.train(physical), alone.train(physical))
    # The hook of the engine goes on.
    assert run.engine.accountant.history == alone.engine.accountant.history == [(NOISE, 0.2, STEPS)]


def test_every_step_is_charged_the_norms_at_the_weights_of_its_gradients():
    run, recorder = Run(), NormRecorder(RECORDS, NORM)
    run.track(recorder)
    run.train()
    assert len(recorder) == STEPS
    for weights, (noise, rate, norms) in zip(run.weights, recorder.steps, strict=True):
        assert (noise, rate) == (NOISE, RATE)
        np.testing.assert_allclose(norms, np.minimum(run.norms_at(weights), NORM), rtol=2e-5)
    assert not np.allclose(recorder.steps[0][2], recorder.steps[-1][2], rtol=1e-2)


def test_physical_batches_of_a_logical_one_are_not_steps():
    run, recorder = Run(), NormRecorder(RECORDS, NORM)
    run.track(recorder)
    run.train(physical=5)
    assert len(run.weights) > 2 * STEPS
    assert len(recorder) == len(recorder.told) == STEPS
    # Weights are those of every physical batch of the step.
    starts = [0, *(i for i in range(1, len(run.weights)) if any(run.weights[i] != run.weights[i - 1]))]
    assert len(starts) == STEPS
    for start, (_, _, norms) in zip(starts, recorder.steps, strict=True):
        np.testing.assert_allclose(norms, np.minimum(run.norms_at(run.weights[start]), NORM), rtol=2e-5)


def test_accumulated_batches_are_steps_with_a_part_of_the_noise_each():
    run, recorder = Run(poisson=False), NormRecorder(RECORDS, NORM)
    alone = Run(poisson=False)
    run.track(recorder)
    run.loader = alone.loader = list(run.loader)[:4]  # two steps an epoch
    np.testing.assert_array_equal(run.train(accumulate=2), alone.train(accumulate=2))
    noises, rates = zip(*(step[:2] for step in recorder.steps), strict=True)
    assert rates == (RATE,) * 8
    np.testing.assert_allclose(noises, NOISE / np.sqrt(2.0), rtol=1e-14)
    assert max(noises) <= NOISE / np.sqrt(2.0)
    np.testing.assert_allclose(
        recorder.steps[2][2], np.minimum(run.norms_at(run.weights[2]), NORM), rtol=2e-5
    )


def test_norms_serve_for_as_many_steps_as_told():
    run, recorder = Run(), NormRecorder(RECORDS, NORM)
    run.track(recorder, refresh_every=4)
    run.train()
    assert len(recorder.told) == 3
    for step, (_, _, norms) in enumerate(recorder.steps):
        expected = np.minimum(run.norms_at(run.weights[step // 4 * 4]), NORM)
        np.testing.assert_allclose(norms, expected, rtol=2e-5)


def clipping_run(refresh_every, **options):
    run = Run(**options)
    recorder = NormRecorder(RECORDS, NORM, individual_clipping=True)
    run.optimizer = hs.opacus.IndividualClippingOptimizer(run.optimizer, recorder)
    run.track(recorder, refresh_every)
    return run, recorder


def gradients_at(run, weights, indices):
    """Gradients of some examples, one a row, each by an ordinary backward pass."""
    import torch

    bare = torch.nn.Sequential(torch.nn.Linear(6, 5), torch.nn.Tanh(), torch.nn.Linear(5, 2))
    torch.nn.utils.vector_to_parameters(torch.from_numpy(weights), bare.parameters())
    rows = []
    for i in indices:
        bare.zero_grad()
        inputs, label = run.dataset[int(i)]
        run.loss_fn(bare(inputs[None]), label[None]).backward()
        rows.append(torch.cat([each.grad.flatten() for each in bare.parameters()]).numpy())
    return np.array(rows, dtype=float).reshape(len(rows), len(weights))


@pytest.mark.parametrize("physical", [None, 5])
@pytest.mark.parametrize("refresh_every", [1, 4])
def test_individual_clipping_is_its_definition(refresh_every, physical):
    run, recorder = clipping_run(refresh_every, noise_multiplier=0.0)
    final = run.train(physical)
    assert len(recorder) == STEPS
    assert len(recorder.told) == -(-STEPS // refresh_every)
    # The same run by hand: SGD with momentum over the sums of clipped gradients.
    weights, velocity, place = run.weights[0].astype(float), 0.0, 0
    for step in range(STEPS):
        thresholds = np.minimum(recorder.told[step // refresh_every], NORM)
        np.testing.assert_allclose(recorder.steps[step][2], thresholds)
        at = run.weights[place]
        indices = []
        while place < len(run.weights) and np.array_equal(run.weights[place], at):
            indices.extend(run.batches[place])
            place += 1
        rows = gradients_at(run, at, indices)
        factors = np.minimum(1.0, thresholds[indices] / (np.linalg.norm(rows, axis=1) + 1e-6))
        velocity = 0.5 * velocity + factors @ rows / (RATE * RECORDS)
        weights = weights - STEP_SIZE * velocity
    np.testing.assert_allclose(final, weights, atol=2e-5)
    if refresh_every > 1:
        np.testing.assert_array_less(0.01, np.abs(final - Run(noise_multiplier=0.0).train(physical)).max())


def test_the_update_moves_by_at_most_the_threshold_of_an_example():
    import torch

    run, recorder = clipping_run(1)
    recorder.update_norms(np.linspace(0.0, NORM, RECORDS))
    run.optimizer.attach_batch_hook(lambda: None)
    inputs, labels = run.dataset[:]

    def update(indices):
        run.optimizer.zero_grad()
        run.loss_fn(run.model(inputs[indices]), labels[indices]).backward()
        run.optimizer.announce(indices)
        run.optimizer.signal_skip_step(do_skip=False)
        run.optimizer.clip_and_accumulate()
        summed = torch.cat([each.summed_grad.flatten() for each in run.optimizer.params]).clone()
        for each in run.optimizer.params:
            each.summed_grad = None
        run.optimizer._batch_has_begun = False
        return summed.double()

    everyone = list(range(RECORDS))
    together = update(everyone)
    for i in (0, 1, 20, 59):
        moved = float(torch.linalg.vector_norm(together - update(everyone[:i] + everyone[i + 1 :])))
        assert moved <= recorder.norms[i] + 1e-5


def test_batches_of_unknown_examples_are_refused():
    def attempt(indices, error, message):
        run, _ = clipping_run(1)
        inputs, labels = run.dataset[:4]
        run.loss_fn(run.model(inputs), labels).backward()

        def step():
            if indices is not None:
                run.optimizer.announce(indices)
            run.optimizer.step()

        with pytest.raises(error, match=message):
            step()

    attempt(None, RuntimeError, r"call announce\(indices\) before step")
    attempt([0, 1, 2], ValueError, "indices must be as many as gradients, 4, got 3")
    attempt([0, 1, 2, 2], ValueError, "an example is in the batch twice")
    attempt([0, 1, 2, RECORDS], ValueError, r"indices must be in \[0, 60\), got 60")
    attempt([0, 1, 2, -1], ValueError, "indices")
    attempt([[0, 1, 2, 3]], ValueError, "indices must be one-dimensional")
    attempt(["a"] * 4, TypeError, "indices")


def test_an_example_in_two_physical_batches_of_one_step_is_refused():
    run, _ = clipping_run(1)
    inputs, labels = run.dataset[:4]
    for last in (False, True):
        run.optimizer.zero_grad()
        run.loss_fn(run.model(inputs), labels).backward()
        run.optimizer.announce([0, 1, 2, 3])
        run.optimizer.signal_skip_step(do_skip=not last)
        if last:
            with pytest.raises(ValueError, match="an example is in the batch twice"):
                run.optimizer.step()
        else:
            run.optimizer.step()


def test_trackers_and_optimizers_that_do_not_fit_are_refused():
    import torch
    from opacus.optimizers import AdaClipDPOptimizer

    def tracker(run, accountant, data=None):
        data = run.dataset if data is None else data
        return hs.opacus.IndividualTracker(run.model, data, run.loss_fn, accountant)

    run = Run()
    ours = NormRecorder(RECORDS, NORM)
    enforcing = NormRecorder(RECORDS, NORM, individual_clipping=True)
    with pytest.raises(TypeError, match="accountant must be an IndividualAccountant, got RDPAccountant"):
        tracker(run, run.engine.accountant)
    with pytest.raises(ValueError, match=r"accountant.dataset_size must be that of training, 60, got 61"):
        tracker(run, NormRecorder(61, NORM))
    with pytest.raises(TypeError, match="dataset must have a length"):
        tracker(run, ours, iter([]))
    with pytest.raises(
        ValueError, match=r"max_grad_norm of the optimizer must be that of the accountant, 1.0"
    ):
        tracker(run, NormRecorder(RECORDS, 1.0)).attach(run.optimizer, RATE)
    with pytest.raises(ValueError, match=r"must be an IndividualClippingOptimizer, as accountant.individual"):
        tracker(run, enforcing).attach(run.optimizer, RATE)
    with pytest.raises(ValueError, match="sample_rate"):
        tracker(run, ours).attach(run.optimizer, 1.5)
    with pytest.raises(ValueError, match="must move parameters of the model only"):
        tracker(Run(), ours).attach(run.optimizer, RATE)
    with pytest.raises(TypeError, match=r"must be an opacus DPOptimizer or an Individual.*got SGD"):
        tracker(run, ours).attach(run.optimizer.original_optimizer, RATE)
    attached = tracker(run, ours)
    attached.attach(run.optimizer, RATE)
    with pytest.raises(ValueError, match="attached already"):
        attached.attach(run.optimizer, RATE)
    assert attached.accountant is ours

    other = Run()
    clipper = hs.opacus.IndividualClippingOptimizer
    with pytest.raises(ValueError, match=r"accountant.individual_clipping must be True, got False"):
        clipper(other.optimizer, ours)
    with pytest.raises(
        ValueError, match=r"accountant.max_grad_norm must be that of the optimizer, 0.7, got 1"
    ):
        clipper(other.optimizer, NormRecorder(RECORDS, individual_clipping=True))
    with pytest.raises(TypeError, match="optimizer must be an opacus DPOptimizer, got SGD"):
        clipper(torch.optim.SGD(other.model.parameters(), lr=0.1), enforcing)
    adaptive = AdaClipDPOptimizer.__new__(AdaClipDPOptimizer)
    with pytest.raises(TypeError, match="got AdaClipDPOptimizer"):
        clipper(adaptive, enforcing)
    private = clipper(other.optimizer, enforcing)
    assert private.accountant is enforcing
    with pytest.raises(ValueError, match="not another one"):
        tracker(other, NormRecorder(RECORDS, NORM, individual_clipping=True)).attach(private, RATE)


def test_a_clipping_norm_that_a_scheduler_moves_is_refused():
    run, recorder = Run(), NormRecorder(RECORDS, NORM)
    run.track(recorder)
    run.optimizer.max_grad_norm = 0.9
    with pytest.raises(ValueError, match="max_grad_norm of the optimizer must be that of the accountant"):
        run.train()
    assert len(recorder) == 0


def test_indexed_data_sets_add_the_index():
    data = hs.opacus.IndexedDataset([("a", 1), ["b", 2]])
    assert (len(data), data[1]) == (2, ("b", 2, 1))
    with pytest.raises(TypeError, match="must yield tuples, got int"):
        hs.opacus.IndexedDataset([1, 2])[0]
    with pytest.raises(AttributeError, match="has no attribute 'Optimizer'"):
        hs.opacus.Optimizer  # noqa: B018 (reading the attribute is what fails)
