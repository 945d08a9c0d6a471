"""The loops of docs/own-loop.md run, count every step and come to the epsilon that was planned."""

import contextlib
import io
import re
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[1] / "docs" / "own-loop.md"
BLOCKS = re.findall(r"^```(python|py)\n(.*?)^```$", PAGE.read_text("utf-8"), re.MULTILINE | re.DOTALL)
PLAN, NUMPY, TORCH, JAX = (code for _, code in BLOCKS)


def run(code):
    names = {}
    exec(compile(PLAN, str(PAGE), "exec"), names)
    with contextlib.redirect_stdout(io.StringIO()) as output:
        exec(compile(code, str(PAGE), "exec"), names)
    assert len(names["accountant"]) == names["steps"]
    assert output.getvalue().startswith("epsilon 3.00")
    return names


def test_each_loop_is_short():
    assert all(len(code.splitlines()) <= 27 for code in (NUMPY, TORCH, JAX))


def test_the_loop_in_numpy_learns():
    names = run(NUMPY)
    right = (names["inputs"] @ names["weights"] > 0) == names["labels"]
    assert right.mean() > 0.8


def test_an_empty_batch_takes_a_noisy_step():
    names = run(NUMPY)
    code = NUMPY.replace("< rate", "< -1.0")
    before = len(names["accountant"])
    with contextlib.redirect_stdout(io.StringIO()):
        exec(compile(code, str(PAGE), "exec"), names)
    assert len(names["accountant"]) == before
    assert (names["weights"] != 0.0).all()


@pytest.mark.opacus
def test_the_loop_in_pytorch_learns():
    import torch

    torch.manual_seed(0)
    names = run(TORCH)
    right = (names["x"] @ names["names"]["weight"][0] + names["names"]["bias"] > 0) == names["y"].bool()
    assert right.float().mean() > 0.8


@pytest.mark.opacus
def test_the_loop_in_jax_learns():
    names = run(JAX)
    assert ((names["x"] @ names["w"] > 0) == names["y"]).mean() > 0.8
