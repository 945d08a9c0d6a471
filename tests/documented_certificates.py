"""Certificates of numbers in the documentation; as a program, writes all or some into docs/certificates."""

import sys
from pathlib import Path

import hockeystick as hs

FOLDER = Path(__file__).parents[1] / "docs" / "certificates"
DELTA = 1e-5
STEPS = {"noise_multiplier": 1.0, "steps": 1000}
PRETRAINING = {"noise_multiplier": 1.0, "sample_rate": 0.01, "steps": 300, "group_size": 4}
TUNING = {"noise_multiplier": 2.0, "sample_rate": 0.02, "steps": 500, "group_size": 4}
NORMS, RATES = hs.Group(norms=[1.0, 0.5, 0.25, 0.25]), hs.Group(rates=[0.005, 0.01, 0.02])
CLIPPING = hs.AdaptiveClipping(noise_multiplier=1.0, count_noise=5.0)
FIXED = {"noise_multiplier": 2.0, "steps": 2000, "sampling": hs.WithoutReplacement(256, 60_000)}

FULL = {"noise_multiplier": 50.0, "sampling": hs.FullBatch(), "steps": 100, "group_size": 4}

CURVES = {
    "one-record": (1.828, hs.privacy_curve(sample_rate=0.01, **STEPS)),
    "eight-records": (
        6.46,
        hs.privacy_curve(noise_multiplier=2.0, sample_rate=0.01, steps=1000, group_size=8),
    ),
    "own-rates": (7.53, hs.privacy_curve(group=RATES, **STEPS)),
    "own-norms": (3.24, hs.privacy_curve(sample_rate=0.01, group=NORMS, **STEPS)),
    "orthogonal": (
        8.12,
        hs.privacy_curve(sample_rate=0.01, group=hs.Group(size=16, gradients="orthogonal"), **STEPS),
    ),
    "fixed-batches": (1.0162, hs.privacy_curve(**FIXED)),
    "replaced-record": (
        2.843,
        hs.privacy_curve(sampling=hs.Poisson(0.01), adjacency="replace", **STEPS),
    ),
    "adaptive-clipping": (1.847, hs.privacy_curve(mechanism=CLIPPING, sample_rate=0.01, steps=1000)),
    "two-runs": (6.67, hs.privacy_curve(**PRETRAINING) + hs.privacy_curve(**TUNING)),
    "readme-one-record": (0.62, hs.privacy_curve(noise_multiplier=2.0, sample_rate=0.01, steps=1000)),
    "readme-noise": (
        3.0,
        hs.privacy_curve(noise_multiplier=3.6453, sample_rate=0.01, steps=1000, group_size=8),
    ),
    "getting-started-group": (
        20.90,
        hs.privacy_curve(noise_multiplier=1.0, sample_rate=0.01, steps=1000, group_size=8),
    ),
    "getting-started-runs": (
        2.07,
        hs.privacy_curve(sample_rate=0.01, **STEPS)
        + hs.privacy_curve(noise_multiplier=2.0, sample_rate=0.02, steps=500),
    ),
    "accumulated": (
        7.003,
        hs.privacy_curve(noise_multiplier=1.0, sampling=hs.Poisson(0.1, microbatches=3), steps=3),
    ),
    "full-batches": (3.387, hs.privacy_curve(**FULL)),
    "full-batches-replaced": (7.619, hs.privacy_curve(adjacency="replace", **FULL)),
    "batch-clipping": (
        2.41,
        hs.privacy_curve(mechanism=hs.BatchClipping(16.0), sample_rate=0.01, steps=1000, group_size=16),
    ),
    "random-allocation": (
        0.6031,
        hs.privacy_curve(noise_multiplier=2.0, sampling=hs.RandomAllocation(100), steps=1000),
    ),
    "fixed-bins": (2.959, hs.privacy_curve(noise_multiplier=2.0, sampling=hs.FixedBins(100), steps=1000)),
    "correlated-noise": (
        3.953,
        hs.privacy_curve(
            mechanism=hs.CorrelatedNoise.prefix_sum_root(10.0), sampling=hs.FixedOrder(100), steps=1000
        ),
    ),
    "laplace": (0.19, hs.privacy_curve(mechanism=hs.Laplace(5.0), sample_rate=0.1, steps=10)),
    "laplace-three-records": (
        0.61,
        hs.privacy_curve(mechanism=hs.Laplace(5.0), sample_rate=0.1, steps=10, group_size=3),
    ),
} | {
    f"benchmark-{name}": (number, hs.privacy_curve(noise_multiplier=1.0, sample_rate=0.01, **run))
    for name, number, run in (
        ("16-records", 52.7139765, {"steps": 1000, "group_size": 16}),
        ("256-records", 4712.60150, {"steps": 1000, "group_size": 256}),
        ("10-steps", 1.75995811, {"steps": 10, "group_size": 4}),
        ("100-steps", 0.718035727, {"steps": 100}),
        ("1e4-steps", 6.18771247, {"steps": 10**4}),
        ("1e5-steps", 25.5731075, {"steps": 10**5}),
        ("1e6-steps", 139.030275, {"steps": 10**6}),
        ("1e7-steps", 1014.06709, {"steps": 10**7}),
        ("1e8-steps", 8939.18034, {"steps": 10**8}),
        ("1e9-steps", 85578.2959, {"steps": 10**9}),
    )
}
CURVES |= {
    "benchmark-64-records": (
        404.327815,
        hs.privacy_curve(noise_multiplier=0.3, sample_rate=0.001, steps=1000, group_size=64),
    ),
    "benchmark-noise": (
        8.0,
        hs.privacy_curve(noise_multiplier=0.586259853, sample_rate=0.01, steps=1000),
    ),
    "benchmark-noise-8-records": (
        8.0,
        hs.privacy_curve(noise_multiplier=1.723179, sample_rate=0.01, steps=1000, group_size=8),
    ),
    "benchmark-fixed-batch": (
        13.36082,
        hs.privacy_curve(noise_multiplier=1.0, sampling=hs.WithoutReplacement(100, 10_000), steps=1000),
    ),
    "benchmark-1-of-10": (
        2.188848,
        hs.privacy_curve(noise_multiplier=1.0, sampling=hs.RandomAllocation(10), steps=10),
    ),
    "benchmark-1-of-100": (
        0.6209397,
        hs.privacy_curve(noise_multiplier=1.0, sampling=hs.RandomAllocation(100), steps=100),
    ),
    "part-of-an-epoch": (
        1.2222,
        hs.privacy_curve(noise_multiplier=2.0, sampling=hs.RandomAllocation(10), steps=35),
    ),
    "dealt-and-drawn": (
        0.8191,
        hs.privacy_curve(noise_multiplier=2.0, sampling=hs.RandomAllocation(100), steps=100)
        + hs.privacy_curve(noise_multiplier=2.0, sample_rate=0.1, steps=10),
    ),
    "correlated-bins": (
        0.71978,
        hs.privacy_curve(
            mechanism=hs.CorrelatedNoise.lambda_cgd(0.5, noise_multiplier=4.0),
            sampling=hs.FixedBins(4),
            steps=4,
            adjacency="remove",
        ),
    ),
    "bounded-cosine": (
        2.8601,
        hs.privacy_curve(noise_multiplier=2.0, sample_rate=0.01, steps=1000, group=hs.Group(4, cosine=0.2)),
    ),
    "both-directions": (
        0.60205,
        hs.privacy_curve(noise_multiplier=2.0, sample_rate=0.01, steps=500, adjacency="add")
        + hs.privacy_curve(noise_multiplier=2.0, sample_rate=0.01, steps=500, adjacency="remove"),
    ),
}
SHUFFLED = {"noise_multiplier": 1.0, "sampling": hs.Shuffle(600, 60_000), "adjacency": "zero_out"}
CURVES |= {
    "shuffled": (4.377, hs.privacy_curve(steps=100, **SHUFFLED)),
    "shuffled-group": (11.587, hs.privacy_curve(steps=100, group_size=4, **SHUFFLED)),
    "shuffled-epochs": (8.106, hs.privacy_curve(steps=250, **SHUFFLED)),
}
CUT = {
    "noise_multiplier": 1.0,
    "sampling": hs.Poisson(0.01, max_batch_size=128, dataset_size=10_000),
    "steps": 1000,
}
CURVES |= {
    "benchmark-cut": (3.9951, hs.privacy_curve(**CUT)),
    "benchmark-cut-replaced": (4.3818, hs.privacy_curve(adjacency="replace", **CUT)),
    "benchmark-bins": (
        0.01155115,
        hs.privacy_curve(
            mechanism=hs.CorrelatedNoise.lambda_cgd(0.5, noise_multiplier=3.9),
            sampling=hs.FixedBins(10),
            steps=100,
            adjacency="remove",
        ),
    ),
}
"""The printed number, and the curve it comes from, by the name of the file."""
DELTAS = {"benchmark-bins": 1.0}
"""Where delta is printed, in place of epsilon at DELTA: epsilon."""
SLOW = {
    "benchmark-cut", "benchmark-cut-replaced", "benchmark-1-of-100", "benchmark-64-records",
    "correlated-bins", "dealt-and-drawn", "fixed-bins", "shuffled-epochs",
}  # fmt: skip
"""Those that take the checker more than two seconds."""
LONG = {"benchmark-bins", "benchmark-cut", "fixed-bins"}
"""Those that take it ten seconds to a minute."""

if __name__ == "__main__":
    for name in sys.argv[1:] or CURVES:
        _, curve = CURVES[name]
        about = {"epsilon": DELTAS[name]} if name in DELTAS else {"delta": DELTA}
        curve.certify(**about).save(FOLDER / f"{name}.json")
