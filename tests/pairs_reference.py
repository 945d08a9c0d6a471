"""The rows of data/pairs.csv, and how one asks the library for them. The file's header defines every pair."""

from dataclasses import dataclass
from functools import cache

from reference_rows import rows

import hockeystick as hs


@dataclass(frozen=True)
class Row:
    """One reference value."""

    name: str
    pair: str
    parameters: str
    steps: int
    direction: str
    epsilon: float
    delta: float
    digits: int

    def __str__(self):
        return f"{self.name}: {self.pair} {self.parameters} T={self.steps} {self.direction} {self.epsilon:g}"

    def segments(self):
        """The arguments of hs.privacy_curve, one dict for every run of equal steps."""
        if self.pair == "segments":
            parts = [numbers(part) for part in self.parameters.split(" | ")]
            return [arguments("poisson", part, int(part["steps"]), self.direction) for part in parts]
        return [arguments(self.pair, numbers(self.parameters), self.steps, self.direction)]


@cache
def pair_rows(pair=None):
    """All rows, or those of one pair."""
    return tuple(
        Row(
            row["name"],
            row["pair"],
            row["parameters"],
            int(row["steps"]),
            row["direction"],
            float(row["epsilon"]),
            float(row["delta"]),
            int(row["digits"]),
        )
        for row in rows("pairs.csv")
        if pair in (None, row["pair"])
    )


def numbers(parameters):
    """'sigma=1 norms=1;0.5' -> {'sigma': 1.0, 'norms': (1.0, 0.5)}."""
    found = {}
    for item in parameters.split():
        name, value = item.split("=")
        values = tuple(map(float, value.split(";")))
        found[name] = values if ";" in value else values[0]
    return found


def arguments(pair, p, steps, direction):
    """Keyword arguments of hs.get_delta and hs.privacy_curve for one pair."""
    common = {"steps": steps, "adjacency": direction}
    if pair == "laplace":
        return common | {
            "mechanism": hs.Laplace(p["b"]),
            "sample_rate": p["q"],
            "group_size": int(p["k"]),
        }
    common["noise_multiplier"] = p["sigma"]
    if pair == "poisson":
        return common | {"sample_rate": p["q"], "group_size": int(p["k"])}
    if pair == "poisson-replace":
        return common | {"sample_rate": p["q"]}
    if pair in ("fixed-replace-one", "fixed-replace-group"):
        sampling = hs.WithoutReplacement(int(p["b"]), int(p["n"]))
        return common | {"sampling": sampling, "group_size": int(p.get("k", 1))}
    if pair in ("aligned", "orthogonal"):
        return common | {"group": hs.Group(rates=p["rates"], norms=p["norms"], gradients=pair)}
    assert pair == "poisson-orthogonal", pair
    group = hs.Group(size=int(p["k"]), gradients="orthogonal")
    return common | {"sample_rate": p["q"], "group": group}
