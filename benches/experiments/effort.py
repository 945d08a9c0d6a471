"""How long the experiments run: as for the papers' figures, longer, or a short version of everything."""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Effort:
    """Sizes of the trainings; the data sets are whole in any case.

    Attributes
    ----------
    epochs, network_epochs : int
        Of the linear models and of the convolutional network of INDIVIDUAL.
    seeds : int
        Trainings of RGP's linear models whose accuracies are averaged.
    own_bounds_seeds : int
        Trainings with one clipping threshold, and with one for each example, of INDIVIDUAL.
    sample : int
        Examples whose norms are taken in every step, to compare estimates with.
    members, attack_epochs, networks : int
        Examples and epochs of the networks without privacy that are attacked, and their number.
    network_seeds : int
        Trainings for each point of RGP's scattering features and convolutional network on Fashion-MNIST, a
        minute each; 0 leaves them out.
    audit_runs, pilot_runs, poison_runs : int
        Trainings with and without the copies of a record, of each kind.
    shuffle_epochs, lenet_epochs : int
        Of softmax regression and of LeNet-5 of SHUFFLE; 0 leaves the model out.
    lenet_sizes : tuple of int
        Sizes of the batches of LeNet-5; softmax regression has all five of the paper.
    half_width : float
        Of the intervals of Monte Carlo estimates of GROUP, relative; the paper has 0.01.
    """

    epochs: int
    network_epochs: int
    seeds: int
    own_bounds_seeds: int
    sample: int
    members: int
    attack_epochs: int
    networks: int
    network_seeds: int
    audit_runs: int
    pilot_runs: int
    poison_runs: int
    shuffle_epochs: int
    lenet_epochs: int
    lenet_sizes: tuple[int, ...]
    half_width: float


FULL = Effort(
    epochs=30,
    network_epochs=30,
    seeds=2,
    own_bounds_seeds=10,
    sample=500,
    members=2000,
    attack_epochs=80,
    networks=2,
    network_seeds=1,
    audit_runs=1000,
    pilot_runs=200,
    poison_runs=200,
    shuffle_epochs=100,
    lenet_epochs=100,
    lenet_sizes=(64, 1024),
    half_width=0.01,
)
LONG = replace(FULL, lenet_sizes=(64, 128, 256, 512, 1024))
"""All batch sizes for LeNet-5 too, each of which takes 21 to 50 minutes of processor time."""
SHORT = Effort(
    epochs=10,
    network_epochs=1,
    seeds=2,
    own_bounds_seeds=2,
    sample=200,
    members=2000,
    attack_epochs=20,
    networks=1,
    network_seeds=0,
    audit_runs=240,
    pilot_runs=80,
    poison_runs=20,
    shuffle_epochs=10,
    lenet_epochs=1,
    lenet_sizes=(64, 1024),
    half_width=0.05,
)
