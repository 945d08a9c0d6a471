"""What notebooks show of an object: a small table, escaped, on the safe side, without private numbers."""

import json
import subprocess
import sys
import warnings
from html.parser import HTMLParser

import numpy as np
import pytest

import hockeystick as hs
from hockeystick.accountants import (
    GroupAccountant,
    IndividualAccountant,
    MonteCarloAccountant,
    RenyiGroupAccountant,
    ShuffleAccountant,
)

RUN = {"noise_multiplier": 1.0, "sample_rate": 0.01, "steps": 100}
CURVE = hs.privacy_curve(**RUN)


class Tables(HTMLParser):
    """Cells of the rows of tables; fails on tags that are not closed."""

    def __init__(self, text):
        super().__init__()
        self.rows, self.open, self.captions = [], [], []
        self.feed(text)
        assert not self.open

    def handle_starttag(self, tag, attrs):
        self.open.append(tag)
        if tag == "tr":
            self.rows.append([])

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and self.open[-1] in ("td", "th"):
            self.rows[-1].append(data)
        elif self.open and self.open[-1] == "caption":
            self.captions.append(data)


def shown(thing):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return Tables(thing._repr_html_())


def epsilon_at(tables, delta):
    (row,) = [row for row in tables.rows if row[0] == f"epsilon at delta = {delta:g}"]
    return float(row[1].removeprefix("at most "))


def followed(accountant):
    accountant.history = [(1.0, 0.01, 100)]
    return accountant


def test_a_privacy_curve_shows_its_steps_and_epsilons():
    tables = shown(CURVE)
    assert tables.captions == [
        "PrivacyCurve of 100 steps, adjacency 'add_remove', tolerance 1e-06, "
        "against an adversary who sees the output of every step"
    ]
    assert tables.rows[0] == ["steps", "noise", "sampling", "group", "pair"]
    assert tables.rows[1] == ["100", "Gaussian(1)", "Poisson(0.01)", "1 record", "tight (GROUP, Theorem 18)"]
    for delta in (1e-5, 1e-6, 1e-8):
        assert CURVE.epsilon(delta) <= epsilon_at(tables, delta) <= CURVE.epsilon(delta) * (1 + 2e-4)


def test_a_curve_of_many_kinds_shows_the_first_ones_and_computes_nothing():
    curve = CURVE
    for noise in np.linspace(1.1, 3.0, 20):
        curve = curve + hs.privacy_curve(**{**RUN, "noise_multiplier": noise})
    tables = shown(curve)
    assert len(tables.rows) == 1 + 8
    assert "13 further kinds" in curve._repr_html_()
    assert curve._composed is None


def test_a_curve_without_steps_can_be_shown():
    assert shown(CURVE * 0).rows == []


@pytest.mark.parametrize(
    "accountant",
    [GroupAccountant(3), RenyiGroupAccountant(3, orders=[2.0, 8.0]), ShuffleAccountant(10, 1000, 3)],
    ids=lambda accountant: type(accountant).__name__,
)
def test_an_accountant_shows_what_its_answers_are_about(accountant):
    empty = shown(accountant)
    assert not any(row[0].startswith("epsilon") for row in empty.rows)
    tables = shown(followed(accountant))
    names = [row[0] for row in tables.rows]
    assert names[:5] == ["sampling", "adjacency", "group", "adversary", "status"]
    assert dict(tables.rows)["group"] == "3 records"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", hs.OptimalOrderWarning)
        epsilon = accountant.get_epsilon(1e-5)
    assert epsilon <= epsilon_at(tables, 1e-5) <= epsilon * (1 + 2e-4)
    for line in str(accountant).splitlines()[1:]:
        name, _, words = line.strip().partition(": ")
        assert dict(tables.rows)[name] == words


def test_simulation_is_not_started_by_looking():
    accountant = followed(MonteCarloAccountant(samples=10**15))
    assert [row[0] for row in shown(accountant).rows][-1] == "status"


def test_individual_epsilons_are_never_shown():
    accountant = IndividualAccountant(4)
    accountant.update_norms([0.11, 0.22, 0.33, 0.44])
    for _ in range(100):
        accountant.step(noise_multiplier=1.0, sample_rate=0.01)
    text = accountant._repr_html_()
    others = IndividualAccountant(4)
    others.update_norms([0.9, 0.8, 0.7, 0.6])
    for _ in range(100):
        others.step(noise_multiplier=1.0, sample_rate=0.01)
    assert text == others._repr_html_()  # whatever the norms
    worst = accountant.get_epsilon(1e-5)
    assert worst <= epsilon_at(shown(accountant), 1e-5) <= worst * (1 + 2e-4)


def test_a_tradeoff_curve_shows_its_expression_and_attacks():
    curve = hs.TradeoffCurve.gaussian(0.5).subsample(0.1) * 10
    rows = dict(shown(curve).rows)
    assert rows["expression"] == "gaussian(0.5).subsample(0.1) * 10"
    assert rows["adversary"] == "an adversary who sees the output of every step"
    share = float(rows["advantage of an attack"].removeprefix("at most ").removesuffix(" %")) / 100
    assert curve.advantage() <= share <= curve.advantage() * 1.01
    assert curve.epsilon(1e-5) <= epsilon_at(shown(curve), 1e-5)


def test_slow_tradeoff_curves_show_no_numbers():
    rows = shown(hs.TradeoffCurve.from_curve(CURVE).group(32)).rows
    assert [row[0] for row in rows] == ["expression", "adversary"]


def test_text_is_escaped():
    class Loud(GroupAccountant):
        def _status(self):
            return "<script>alert('&')</script>"

    text = Loud()._repr_html_()
    assert "<script>" not in text
    assert "&lt;script&gt;alert(&#x27;&amp;&#x27;)&lt;/script&gt;" in text
    assert "<PrivacyCurve" not in hs.TradeoffCurve.from_curve(CURVE)._repr_html_()


def test_nothing_heavy_is_imported_to_show_something():
    code = """
import json, sys
import hockeystick as hs
curve = hs.privacy_curve(noise_multiplier=1.0, sample_rate=0.01, steps=10)
assert curve._repr_html_() and hs.TradeoffCurve.from_curve(curve)._repr_html_()
print(json.dumps("matplotlib" in sys.modules))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) is False
