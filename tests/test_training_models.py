"""Softmax regression and perceptrons: losses by definition, gradients by finite differences."""

import math

import numpy as np
import pytest

from hockeystick import training

EPSILON = np.finfo(np.float64).eps


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
