"""The reference tables, proven by the checker: Renyi divergences, and what the papers print."""

import pytest
from reference_rows import rows
from test_verify import curve_of

import hockeystick as hs
from hockeystick_verify import check, read

PITFALLS = [row for row in rows("published.csv") if row["source"] == "PITFALLS"]
EXACT_GAUSSIAN = [
    row for row in rows("published.csv") if row["mechanism"] == "gaussian" and "exact pair" in row["quantity"]
]


@pytest.mark.parametrize(
    "row", rows("renyi.csv"), ids=lambda row: f"{row['weights']}-{row['direction']}-{row['order']}"
)
def test_the_checker_recomputes_the_renyi_divergences(row):
    found = check(read(curve_of(row | {"steps": 1}).certify(order=float(row["order"])).to_json()))
    wanted = float(row["divergence"])
    assert all(each.holds for each in found)
    # The references have decimal rates, and the checker the doubles next to them.
    assert found[0].lower * (1 - 1e-12) <= wanted <= found[0].upper * (1 + 1e-12)
    assert found[0].upper - found[0].lower < 1e-8 * wanted


@pytest.mark.parametrize("row", PITFALLS, ids=lambda row: f"{row['quantity']} {row['delta']}")
def test_the_checker_proves_what_pitfalls_prints(row):
    # Their numbers are upper ends of intervals of half-width 0.01, printed to two decimals.
    rate = float(row["sample_rate"])
    by_sampling = {
        "epsilon Poisson": {"sample_rate": rate},
        "epsilon without replacement": {"sampling": hs.WithoutReplacement(1, round(1 / rate))},
    }
    curve = hs.privacy_curve(
        noise_multiplier=0.8, steps=int(row["steps"]), adjacency="remove", **by_sampling[row["quantity"]]
    )
    certificate = curve.certify(delta=float(row["delta"]))
    upper, lower = (claim["epsilon"] for claim in certificate.claims)
    published = float(row["value"])
    assert certificate.verify()[0]
    assert published - 0.025 <= lower <= upper <= published + 0.005


@pytest.mark.parametrize("row", EXACT_GAUSSIAN, ids=lambda row: f"{row['group_size']} records")
def test_the_noise_of_rgp_reaches_its_target(row):
    # Bisections stop at 0.1, on the side of more noise.
    run = {"sample_rate": float(row["sample_rate"]), "steps": int(row["steps"])}
    run |= {"group_size": int(row["group_size"])}
    ends = [
        hs.privacy_curve(noise_multiplier=float(row["value"]) - less, **run)
        .certify(order=float(row["order"]))
        .claims[0]["at_most"]
        for less in (0.0, 0.1)
    ]
    assert ends[0] <= float(row["tau"]) * (1 + 1e-9)
    assert ends[1] >= float(row["tau"]) * (1 - 1e-9)
