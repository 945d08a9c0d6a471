"""Rényi group privacy of Poisson samples and fixed batches, with rates per member (RGP, sections 3 and 4).

- `group_rdp`: the Rényi divergence of one step for a group, by every bound of the paper and exactly.
- `calibrate`, `calibrate_dp`: the noise with which a run meets a Rényi target, or (epsilon, delta).

RGP is "Calibrating Noise for Group Privacy in Subsampled Mechanisms". The exact divergences are those of
the dominating pairs; they close the gap that the paper leaves between its bounds.
"""

from hockeystick.renyi._calibration import calibrate, calibrate_dp
from hockeystick.renyi._divergence import group_rdp
from hockeystick.renyi._statement import RenyiBound, RenyiBounds, Statement

__all__ = ["RenyiBound", "RenyiBounds", "Statement", "calibrate", "calibrate_dp", "group_rdp"]


def __dir__() -> list[str]:
    return list(__all__)
