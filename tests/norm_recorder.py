"""An accountant of individual examples that writes down what it is told."""

from hockeystick.accountants import IndividualAccountant


class NormRecorder(IndividualAccountant):
    def __init__(self, dataset_size, max_grad_norm=1.0, *, individual_clipping=False):
        super().__init__(dataset_size, max_grad_norm, individual_clipping=individual_clipping)
        self.told = []
        """Arguments of `update_norms`."""
        self.steps = []
        """(noise multiplier, sample rate, norms) of every step."""

    def update_norms(self, norms, indices=None):
        assert indices is None
        self.told.append(norms.copy())
        super().update_norms(norms)

    def step(self, *, noise_multiplier, sample_rate):
        super().step(noise_multiplier=noise_multiplier, sample_rate=sample_rate)
        self.steps.append((noise_multiplier, sample_rate, self.norms.copy()))
