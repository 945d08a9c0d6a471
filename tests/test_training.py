"""DP-SGD in NumPy: clipping, batches, models and the loop, each by its definition."""

import math
from collections import Counter
from itertools import combinations, permutations, product

import numpy as np
import pytest
from scipy.stats import chisquare
from sklearn.datasets import load_digits

import hockeystick as hs
from hockeystick import training
from hockeystick.accountants import GroupAccountant

EPSILON = np.finfo(np.float64).eps
SIGNIFICANCE = 0.01
"""Of tests on fixed seeds: a wrong distribution gives p-values many orders of magnitude smaller."""


def clipped(vector, norm):
    return vector / max(1.0, math.hypot(*vector) / norm)


def some_gradients(batch, parameters, seed=1):
    """Of norms from about 1/20 to 20."""
    random = np.random.default_rng(seed)
    directions = random.standard_normal((batch, parameters)) / math.sqrt(parameters)
    return directions * np.geomspace(0.05, 20.0, batch)[random.permutation(batch), None]


# Clipping


def test_clip_scales_long_rows_to_the_norm_and_keeps_short_ones():
    vectors = some_gradients(40, 7)
    result = training.clip(vectors, 1.5)
    norms = np.array([math.hypot(*row) for row in vectors])
    assert 5 < np.sum(norms > 1.5) < 35
    np.testing.assert_array_equal(result[norms <= 1.5], vectors[norms <= 1.5])
    np.testing.assert_allclose(result, [clipped(row, 1.5) for row in vectors], rtol=4 * EPSILON)
    assert max(math.hypot(*row) for row in result) <= 1.5 * (1.0 + 4 * EPSILON)


@pytest.mark.parametrize("norm", [1e-150, 1e-3, 1e150])
def test_clip_bounds_norms_of_any_size(norm):
    directions = training.clip(some_gradients(20, 5), 1.0)
    for scale in (1e-3 * norm, norm, 1e3 * norm):
        result = training.clip(directions * scale, norm)
        assert max(math.hypot(*row) for row in result) <= norm * (1.0 + 4 * EPSILON)


def test_clip_keeps_zeros_and_no_rows():
    np.testing.assert_array_equal(training.clip(np.zeros((2, 3)), 1.0), np.zeros((2, 3)))
    assert training.clip(np.empty((0, 3)), 1.0).shape == (0, 3)
    np.testing.assert_array_equal(training.individual_clipping(np.empty((0, 3)), 1.0), np.zeros(3))


def test_the_three_rules_are_their_definitions():
    gradients = some_gradients(24, 5)
    individual = sum(clipped(row, 0.7) for row in gradients)
    batch = clipped(sum(gradients) / 24, 0.7)
    mixed = sum(clipped(sum(gradients[start : start + 4]) / 4, 0.7) for start in range(0, 24, 4))
    close = {"rtol": 1e-13, "atol": 1e-14}
    np.testing.assert_allclose(training.individual_clipping(gradients, 0.7), individual, **close)
    np.testing.assert_allclose(training.batch_clipping(gradients, 0.7), batch, **close)
    np.testing.assert_allclose(training.mixed_clipping(gradients, 0.7, 6), mixed, **close)
    np.testing.assert_allclose(training.mixed_clipping(gradients, 0.7, 24), individual, **close)
    np.testing.assert_allclose(training.mixed_clipping(gradients, 0.7, 1), batch, **close)


def test_gradients_of_other_types_give_float64():
    gradients = np.array([[3, 4], [6, 8]])
    for kind in (np.float32, np.int64, list):
        values = gradients.tolist() if kind is list else gradients.astype(kind)
        result = training.individual_clipping(values, 5.0)
        assert result.dtype == np.float64
        np.testing.assert_array_equal(result, [6.0, 8.0])


@pytest.mark.parametrize("units", [1, 2, 6, 12])
def test_changing_k_units_moves_the_update_by_at_most_2kc(units):
    norm, size = 0.8, 12 // units
    random = np.random.default_rng(units)
    for k in range(units + 1):
        for trial in range(20):
            gradients = some_gradients(12, 3, seed=trial)
            changed = gradients.copy()
            chosen = random.choice(units, k, replace=False)
            rows = (chosen[:, None] * size + np.arange(size)).ravel()
            changed[rows] = 10.0 * random.standard_normal((len(rows), 3))
            difference = training.mixed_clipping(gradients, norm, units) - training.mixed_clipping(
                changed, norm, units
            )
            assert math.hypot(*difference) <= 2 * k * norm + 1e-13


@pytest.mark.parametrize("units", [1, 2, 6, 12])
def test_opposite_gradients_attain_the_sensitivity(units):
    norm, size = 0.8, 12 // units
    direction = np.array([3.0, -4.0, 12.0])
    for k in range(1, units + 1):
        gradients = np.tile(direction, (12, 1))
        opposite = gradients.copy()
        opposite[: k * size] *= -1.0
        difference = training.mixed_clipping(gradients, norm, units) - training.mixed_clipping(
            opposite, norm, units
        )
        assert math.hypot(*difference) == pytest.approx(2 * k * norm, rel=1e-14)


def test_one_record_alone_can_move_a_clipped_mean_by_2c():
    # Where a record is removed, individual clipping moves by C at most; a unit of several does not.
    gradients = np.array([[1.0], [1.0], [-100.0]])
    moved = training.batch_clipping(gradients, 0.5) - training.batch_clipping(gradients[:2], 0.5)
    np.testing.assert_array_equal(moved, [-1.0])


# Batches


def test_shuffled_batches_hold_every_record_once_but_for_the_left_over_ones():
    random = np.random.default_rng(1)
    for dataset_size, batch_size in [(12, 4), (14, 4), (5, 5), (7, 1), (9, 5)]:
        batches = list(training.shuffled_batches(dataset_size, batch_size, seed=random))
        assert [len(batch) for batch in batches] == [batch_size] * (dataset_size // batch_size)
        records = np.concatenate(batches)
        assert len(set(records.tolist())) == dataset_size // batch_size * batch_size
        assert set(records.tolist()) <= set(range(dataset_size))


def test_shuffled_batches_are_a_uniformly_random_permutation():
    random = np.random.default_rng(2)
    draws = (list(training.shuffled_batches(5, 2, seed=random)) for _ in range(12_000))
    counts = Counter(tuple(np.concatenate(batches).tolist()) for batches in draws)
    assert is_uniform(counts, list(permutations(range(5), 4)))


def test_subsampled_batches_are_uniform_subsets_in_random_order():
    batches = training.subsampled_batches(6, 3, 12_000, seed=3)
    counts = Counter(tuple(batch.tolist()) for batch in batches)
    assert is_uniform(counts, list(permutations(range(6), 3)))


def test_subsampled_batches_are_independent_of_each_other():
    batches = [tuple(sorted(batch.tolist())) for batch in training.subsampled_batches(4, 2, 7_200, seed=4)]
    counts = Counter(zip(batches[::2], batches[1::2], strict=True))
    assert is_uniform(counts, list(product(combinations(range(4), 2), repeat=2)))


def test_poisson_batches_take_every_record_on_its_own_at_the_rate():
    counts = Counter(tuple(batch.tolist()) for batch in training.poisson_batches(3, 0.3, 20_000, seed=5))
    subsets = [subset for size in range(4) for subset in combinations(range(3), size)]
    assert set(counts) == set(subsets)
    expected = [20_000 * 0.3 ** len(subset) * 0.7 ** (3 - len(subset)) for subset in subsets]
    assert chisquare([counts[subset] for subset in subsets], expected).pvalue > SIGNIFICANCE


def test_poisson_batches_at_the_ends_of_the_rate():
    assert all(batch.tolist() == [0, 1, 2] for batch in training.poisson_batches(3, 1.0, 5, seed=1))
    assert all(batch.tolist() == [] for batch in training.poisson_batches(3, 0.0, 5, seed=1))


def test_equal_seeds_draw_equal_batches_and_a_generator_goes_on():
    def drawn(seed):
        return [
            np.concatenate(list(batches)).tolist()
            for batches in (
                training.shuffled_batches(50, 10, seed=seed),
                training.subsampled_batches(50, 10, 5, seed=seed),
                training.poisson_batches(50, 0.5, 5, seed=seed),
            )
        ]

    assert drawn(7) == drawn(7)
    assert all(one != other for one, other in zip(drawn(7), drawn(8), strict=True))
    random = np.random.default_rng(7)
    assert all(one != other for one, other in zip(drawn(random), drawn(random), strict=True))


def is_uniform(counts, outcomes):
    assert set(counts) <= set(outcomes)
    return chisquare([counts[outcome] for outcome in outcomes]).pvalue > SIGNIFICANCE


# Models


def softmax_loss(weights, image, label):
    matrix = weights.reshape(5, 3)
    return cross_entropy(image @ matrix[:-1] + matrix[-1], label)


def perceptron_loss(weights, image, label):
    first, second = weights[:30].reshape(5, 6), weights[30:].reshape(7, 3)
    hidden = np.tanh(image @ first[:-1] + first[-1])
    return cross_entropy(hidden @ second[:-1] + second[-1], label)


def cross_entropy(scores, label):
    return math.log(sum(math.exp(score) for score in scores)) - scores[label]


MODELS = [
    pytest.param(training.SoftmaxRegression(4, 3), softmax_loss, id="softmax"),
    pytest.param(training.Perceptron(4, 6, 3), perceptron_loss, id="perceptron"),
]


def some_examples(model, count=9):
    random = np.random.default_rng(11)
    weights = random.standard_normal(model.parameters)
    return weights, random.standard_normal((count, 4)), random.integers(0, 3, count)


@pytest.mark.parametrize(("model", "loss"), MODELS)
def test_the_loss_is_the_mean_of_its_definition(model, loss):
    weights, images, labels = some_examples(model)
    losses = [loss(weights, image, label) for image, label in zip(images, labels, strict=True)]
    assert model.loss(weights, images, labels) == pytest.approx(np.mean(losses), rel=1e-13)


@pytest.mark.parametrize(("model", "loss"), MODELS)
def test_per_example_gradients_are_finite_differences_of_the_loss(model, loss):
    weights, images, labels = some_examples(model)
    gradients = model.gradients(weights, images, labels)
    assert gradients.shape == (9, model.parameters)
    step = 1e-5
    for gradient, image, label in zip(gradients, images, labels, strict=True):
        differences = [
            (loss(weights + unit, image, label) - loss(weights - unit, image, label)) / (2 * step)
            for unit in step * np.eye(model.parameters)
        ]
        np.testing.assert_allclose(gradient, differences, rtol=0, atol=1e-9)
    assert np.abs(gradients).max() > 0.1


@pytest.mark.parametrize(("model", "loss"), MODELS)
def test_gradient_norms_are_those_of_the_gradients(model, loss):
    weights, images, labels = some_examples(model)
    formed = [math.hypot(*row) for row in model.gradients(weights, images, labels)]
    np.testing.assert_allclose(model.gradient_norms(weights, images, labels), formed, rtol=1e-13)


@pytest.mark.parametrize(("model", "loss"), MODELS)
def test_accuracy_counts_the_most_probable_classes(model, loss):
    weights, images, _ = some_examples(model)
    best = [min(range(3), key=lambda label: loss(weights, image, label)) for image in images]
    assert model.accuracy(weights, images, best) == 1.0
    wrong = [(label + (i < 2)) % 3 for i, label in enumerate(best)]
    assert model.accuracy(weights, images, wrong) == pytest.approx(7 / 9)


@pytest.mark.parametrize(("model", "loss"), MODELS)
def test_no_examples_have_no_gradients_but_no_loss_either(model, loss):
    weights, images, labels = some_examples(model, count=0)
    assert model.gradients(weights, images, labels).shape == (0, model.parameters)
    assert model.gradient_norms(weights, images, labels).shape == (0,)
    for function in (model.loss, model.accuracy):
        with pytest.raises(ValueError, match=r"images must be of shape \(n, 4\) with n >= 1"):
            function(weights, images, labels)


def test_large_scores_overflow_nowhere():
    model = training.SoftmaxRegression(1, 2)
    weights = [1e4, -1e4, 0.0, 0.0]
    assert model.loss(weights, [[1.0], [1.0]], [0, 1]) == 1e4
    np.testing.assert_array_equal(model.gradients(weights, [[1.0]], [1]), [[1.0, -1.0, 1.0, -1.0]])


def test_initial_weights():
    assert not training.SoftmaxRegression(4, 3).initial_weights().any()
    model = training.Perceptron(400, 100, 10)
    weights = model.initial_weights(seed=1)
    first, second = weights[:40_100].reshape(401, 100), weights[40_100:].reshape(101, 10)
    assert not first[-1].any()
    assert not second[-1].any()
    assert first[:-1].std() == pytest.approx(1 / 20, rel=0.03)
    assert second[:-1].std() == pytest.approx(1 / 10, rel=0.1)
    np.testing.assert_array_equal(weights, model.initial_weights(seed=1))
    assert (weights != model.initial_weights(seed=2)).any()


# The loop


class Recorder:
    """A model without sense that keeps what it was asked."""

    def __init__(self, parameters=3):
        self.table = some_gradients(40, parameters)
        self.weights = []
        self.batches = []

    def __call__(self, weights, indices):
        self.weights.append(weights.copy())
        self.batches.append(indices.tolist())
        return self.table[indices]


RUN = {
    "dataset_size": 40,
    "batch_size": 8,
    "epochs": 3,
    "max_grad_norm": 0.7,
    "noise_multiplier": 0.0,
    "learning_rate": 0.25,
    "seed": 1,
}


@pytest.mark.parametrize(
    ("sampling", "units"),
    [*product(["shuffle", "subsample"], [None, 1, 2, 8]), ("poisson", None), ("poisson", 1)],
)
def test_every_step_is_that_of_algorithm_1(sampling, units):
    model = Recorder()
    start = np.array([1.0, 2.0, 3.0])
    rates = {step: 1.0 / step for step in range(1, 16)}
    final, history = training.train(
        model, start, **RUN | {"learning_rate": rates.__getitem__}, units=units, sampling=sampling
    )
    assert history == []
    assert len(model.batches) == 15
    assert start.tolist() == model.weights[0].tolist() == [1.0, 2.0, 3.0]
    for step, batch in enumerate(model.batches, start=1):
        parts = len(batch) if units is None else units
        update = sum(clipped(part.mean(axis=0), 0.7) for part in np.split(model.table[batch], parts))
        after = [*model.weights, final][step]
        expected = model.weights[step - 1] - rates[step] * update / (units or 8)
        np.testing.assert_allclose(after, expected, rtol=1e-13, atol=1e-14)


def test_the_loop_draws_batches_as_it_says():
    drawn = {}
    for sampling in ("shuffle", "subsample", "poisson"):
        model = Recorder()
        training.train(model, np.zeros(3), **RUN, sampling=sampling)
        drawn[sampling] = model.batches
    epochs = np.reshape(drawn["shuffle"], (3, 40))
    np.testing.assert_array_equal(np.sort(epochs), [np.arange(40)] * 3)
    assert len({tuple(epoch) for epoch in epochs.tolist()}) == 3
    assert {len(set(batch)) for batch in drawn["subsample"]} == {8}
    assert len(set(np.ravel(drawn["subsample"][:5]).tolist())) < 40
    sizes = [len(batch) for batch in drawn["poisson"]]
    assert len(set(sizes)) > 1
    assert abs(sum(sizes) - 15 * 8) < 4 * math.sqrt(15 * 40 * 0.2 * 0.8)


@pytest.mark.parametrize(("units", "divisor"), [(None, 8), (1, 1), (4, 4)])
def test_noise_is_normal_of_the_noise_multiplier_times_the_clipping_norm(units, divisor):
    count = 100_000
    weights, _ = training.train(
        lambda weights, indices: np.zeros((len(indices), count)),
        np.zeros(count),
        dataset_size=8,
        batch_size=8,
        epochs=1,
        max_grad_norm=0.7,
        noise_multiplier=3.0,
        learning_rate=0.5,
        units=units,
        sampling="shuffle",
        seed=1,
    )
    noise = weights * divisor / 0.5 / (3.0 * 0.7)
    # The mean has standard deviation 1 / sqrt(count), the standard deviation about 1 / sqrt(2 count).
    assert abs(noise.mean()) < 4 / math.sqrt(count)
    assert abs(noise.std() - 1.0) < 4 / math.sqrt(2 * count)
    beyond = [float(np.mean(np.abs(noise) > bound)) for bound in (1.0, 2.0)]
    assert beyond == pytest.approx([math.erfc(1 / math.sqrt(2)), math.erfc(2 / math.sqrt(2))], abs=0.006)


def test_equal_seeds_give_equal_weights_and_batches_with_any_noise():
    def run(**changes):
        model = Recorder()
        weights, _ = training.train(model, np.zeros(3), **RUN | {"noise_multiplier": 1.0} | changes)
        return weights.tolist(), model.batches

    assert run() == run()
    assert run() == run(seed=np.random.default_rng(1))
    assert run()[0] != run(seed=2)[0]
    assert run()[1] != run(seed=2)[1]
    assert run()[0] != run(noise_multiplier=2.0)[0]
    assert run()[1] == run(noise_multiplier=2.0)[1]


def test_the_accountant_is_right_about_poisson_batches_clipped_one_by_one():
    accountant = GroupAccountant(group_size=2)
    settings = RUN | {"noise_multiplier": 1.5}
    training.train(Recorder(), np.zeros(3), **settings, sampling="poisson", accountant=accountant)
    planned = hs.get_epsilon(noise_multiplier=1.5, sample_rate=0.2, steps=15, delta=1e-3, group_size=2)
    assert accountant.get_epsilon(1e-3) == pytest.approx(planned, rel=2e-6)


def test_an_empty_batch_is_a_step_of_noise_alone():
    model, accountant = Recorder(), GroupAccountant()
    settings = RUN | {"batch_size": 1, "epochs": 1, "noise_multiplier": 1.0}
    steps = []
    training.train(
        model,
        np.zeros(3),
        **settings,
        sampling="poisson",
        accountant=accountant,
        progress=lambda done, total: steps.append((done, total)),
    )
    assert 0 < len(model.batches) < 40
    assert all(model.batches)
    assert len(accountant) == 40
    assert steps == [(step, 40) for step in range(1, 41)]


def test_the_step_size_may_follow_the_callback():
    # As SHUFFLE, Appendix H: the step size shrinks after an epoch that made it worse.
    rate, seen = [0.25], []

    def at_the_end(epoch, weights):
        seen.append(weights.copy())
        rate[0] *= 0.5
        return epoch * 10

    model = Recorder()
    final, history = training.train(
        model, np.zeros(3), **RUN | {"learning_rate": lambda step: rate[0]}, callback=at_the_end
    )
    assert history == [10, 20, 30]
    np.testing.assert_array_equal(seen[-1], final)
    np.testing.assert_array_equal(seen[0], model.weights[5])
    constant = Recorder()
    ends = []
    training.train(constant, np.zeros(3), **RUN, callback=lambda epoch, weights: ends.append(weights))
    moves = np.diff([np.zeros(3), *seen], axis=0)
    np.testing.assert_allclose(
        moves, np.diff([np.zeros(3), *ends], axis=0) * [[1.0], [0.5], [0.25]], rtol=1e-12
    )


# Digits


@pytest.fixture(scope="module")
def digits():
    pixels, labels = load_digits(return_X_y=True)
    order = np.random.default_rng(20).permutation(len(labels))
    images, labels = pixels[order] / 16.0, labels[order]
    return (images[:1437], labels[:1437]), (images[1437:], labels[1437:])


def accuracy_on_digits(digits, model, weights, **changes):
    (images, labels), test = digits
    settings = {
        "dataset_size": len(labels),
        "batch_size": 64,
        "epochs": 20,
        "max_grad_norm": 1.0,
        "learning_rate": 0.5,
        "seed": 3,
    }

    def gradients(weights, indices):
        return model.gradients(weights, images[indices], labels[indices])

    trained, _ = training.train(gradients, weights, **settings | changes)
    return model.accuracy(trained, *test)


@pytest.mark.parametrize("sampling", ["shuffle", "subsample"])
@pytest.mark.parametrize("units", [None, 8, 1])
def test_softmax_regression_learns_digits(digits, units, sampling):
    model = training.SoftmaxRegression(64, 10)
    start = model.initial_weights()
    rule = {"units": units, "sampling": sampling}
    assert accuracy_on_digits(digits, model, start, noise_multiplier=0.0, **rule) > 0.9
    # In proportion to the number of units, noise is the same in all three.
    noise = 2.0 * (units or 64) / 64
    assert accuracy_on_digits(digits, model, start, noise_multiplier=noise, **rule) > 0.8


def test_a_perceptron_learns_digits(digits):
    model = training.Perceptron(64, 32, 10)
    start = model.initial_weights(seed=1)
    assert accuracy_on_digits(digits, model, start, noise_multiplier=0.0, sampling="shuffle") > 0.9
    assert accuracy_on_digits(digits, model, start, noise_multiplier=2.0, sampling="poisson") > 0.8


def test_noise_that_drowns_the_gradients_is_seen_in_the_accuracy(digits):
    model = training.SoftmaxRegression(64, 10)
    assert accuracy_on_digits(digits, model, model.initial_weights(), noise_multiplier=500.0) < 0.5


# Bad input


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: training.clip([1.0, 2.0], 1.0), r"vectors must be two-dimensional, got shape \(2,\)"),
        (lambda: training.clip([[1.0]], 0.0), r"max_norm must be in \[1e-150, 1e\+150\], got 0.0"),
        (lambda: training.clip([[1.0]], math.nan), r"max_norm must be in .*, got nan"),
        (lambda: training.clip([[1.0], [math.nan]], 1.0), "vectors must have rows of finite .* row 1"),
        (lambda: training.clip([[1e200]], 1.0), "vectors must have rows of finite .* row 0"),
        (lambda: training.individual_clipping([[math.inf]], 1.0), "gradients must have rows of finite"),
        (lambda: training.individual_clipping([[1.0]], -1.0), "max_grad_norm must be in .*, got -1.0"),
        (lambda: training.batch_clipping(np.empty((0, 2)), 1.0), "gradients must be of at least one"),
        (lambda: training.mixed_clipping([[1.0]] * 6, 1.0, 4), "units must be a divisor .* 6, got 4"),
        (lambda: training.mixed_clipping([[1.0]] * 6, 1.0, 0), "units must be a whole number >= 1, got 0"),
        (lambda: training.shuffled_batches(5, 6, seed=1), "batch_size must be at most dataset_size 5, got 6"),
        (lambda: training.shuffled_batches(5, 0, seed=1), "batch_size must be a whole number .*, got 0"),
        (lambda: training.shuffled_batches(5, 1, seed=-1), "seed must be a whole number .*, got -1"),
        (lambda: training.subsampled_batches(5, 6, 1, seed=1), "batch_size must be at most .*, got 6"),
        (lambda: training.subsampled_batches(5, 2, -1, seed=1), "rounds must be .*, got -1"),
        (lambda: training.poisson_batches(5, 1.1, 1, seed=1), r"sample_rate must be in \[0, 1\], got 1.1"),
        (lambda: training.poisson_batches(0, 0.1, 1, seed=1), "dataset_size must be .*, got 0"),
        (lambda: training.poisson_batches(5, 0.1, 0.5, seed=1), "steps must be a whole number .*, got 0.5"),
        (lambda: training.SoftmaxRegression(0, 2), "features must be .*, got 0"),
        (lambda: training.SoftmaxRegression(1, 1), "classes must be .*, got 1"),
        (lambda: training.Perceptron(1, 0, 2), "hidden must be .*, got 0"),
    ],
)
def test_a_bad_value_is_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()


@pytest.mark.parametrize("method", ["loss", "accuracy", "gradients", "gradient_norms"])
@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"weights": np.zeros(7)}, "weights must be 6 numbers, got 7"),
        ({"weights": np.zeros((2, 3))}, "weights must be one-dimensional"),
        ({"images": np.zeros((3, 1))}, r"images must be of shape \(n, 2\) .*, got shape \(3, 1\)"),
        ({"labels": [0, 1]}, r"labels must be of shape \(3,\), got shape \(2,\)"),
        ({"labels": [0, 1, 2]}, r"labels must be in \[0, 2\), got 2"),
        ({"labels": [0, 1, -1]}, "labels must be a whole number >= 0, got -1"),
    ],
)
def test_a_model_names_what_does_not_fit(method, changes, message):
    arguments = {"weights": np.zeros(6), "images": np.zeros((3, 2)), "labels": [0, 1, 1]} | changes
    with pytest.raises(ValueError, match=message):
        getattr(training.SoftmaxRegression(2, 2), method)(**arguments)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"batch_size": 41}, "batch_size must be at most dataset_size 40, got 41"),
        ({"epochs": 0}, "epochs must be a whole number >= 1, got 0"),
        ({"max_grad_norm": 0.0}, "max_grad_norm must be in .*, got 0.0"),
        ({"noise_multiplier": -1.0}, r"noise_multiplier must be in \[0, inf\), got -1.0"),
        ({"learning_rate": -0.1}, r"learning_rate must be in \[0, inf\), got -0.1"),
        ({"learning_rate": lambda step: math.nan}, r"learning_rate must be in \[0, inf\), got nan"),
        ({"units": 3}, "units must be a divisor of batch_size 8, got 3"),
        ({"units": 16}, r"units must be a whole number in \[1, 8\], got 16"),
        ({"units": 8, "sampling": "poisson"}, "units must be None or 1 with Poisson sampling, got 8"),
        ({"sampling": "sorted"}, "sampling must be one of 'poisson', 'subsample', 'shuffle', got 'sorted'"),
        ({"seed": -1}, "seed must be .*, got -1"),
        ({"weights": [0.0, math.inf, 0.0]}, r"weights must be finite, got inf"),
        ({"weights": np.zeros((1, 3))}, "weights must be one-dimensional"),
        (
            {"weights": np.zeros(4), "sampling": "subsample"},
            r"gradients must be of shape \(8, 4\), got shape \(8, 3\)",
        ),
        (
            {"gradients": lambda weights, indices: np.full((len(indices), 3), np.nan)},
            "gradients must have rows of finite",
        ),
    ],
)
def test_the_loop_names_a_bad_value(changes, message):
    with pytest.raises(ValueError, match=message):
        training.train(**{"gradients": Recorder(), "weights": np.zeros(3)} | RUN | changes)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"gradients": 3}, "gradients must be a function, got int"),
        ({"weights": "abc"}, "weights must be a real number or an array"),
        ({"learning_rate": "fast"}, "learning_rate must be a real number"),
        ({"learning_rate": None}, "learning_rate must be a real number"),
        ({"seed": None}, "seed must be a real number"),
        ({"sampling": None}, "sampling must be a string, got NoneType"),
        ({"accountant": 3}, "accountant.step must be a function, got NoneType"),
        ({"callback": 3}, "callback must be a function, got int"),
        ({"progress": 3}, "progress must be a function"),
    ],
)
def test_the_loop_names_a_wrong_type(changes, message):
    with pytest.raises(TypeError, match=message):
        training.train(**{"gradients": Recorder(), "weights": np.zeros(3)} | RUN | changes)


def test_every_exported_name_exists():
    assert all(hasattr(training, name) for name in training.__all__)
