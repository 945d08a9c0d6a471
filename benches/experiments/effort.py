"""How long the experiments run: as for the papers' figures, or a short version of everything."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Effort:
    """Sizes of the trainings; the data sets are whole in any case.

    Attributes
    ----------
    epochs, network_epochs : int
        Of the linear models and of the convolutional network of INDIVIDUAL.
    seeds : int
        Trainings whose accuracies are averaged.
    sample : int
        Examples whose norms are taken in every step, to compare estimates with.
    members, attack_epochs, networks : int
        Examples and epochs of the networks without privacy that are attacked, and their number.
    has_long_trainings : bool
        Whether RGP trains on scattering features and the convolutional network, a quarter of an hour each.
    audit_runs, pilot_runs, poison_runs : int
        Trainings with and without the copies of a record, of each kind.
    shuffle_epochs, lenet_epochs : int
        Of softmax regression and of LeNet-5 of SHUFFLE; 0 leaves the model out.
    half_width : float
        Of the intervals of Monte Carlo estimates of GROUP, relative; the paper has 0.01.
    """

    epochs: int
    network_epochs: int
    seeds: int
    sample: int
    members: int
    attack_epochs: int
    networks: int
    has_long_trainings: bool
    audit_runs: int
    pilot_runs: int
    poison_runs: int
    shuffle_epochs: int
    lenet_epochs: int
    half_width: float


FULL = Effort(30, 4, 2, 500, 2000, 80, 2, True, 1000, 200, 40, 100, 100, 0.01)
SHORT = Effort(10, 1, 2, 200, 2000, 20, 1, False, 240, 80, 20, 10, 1, 0.05)
