"""Classes of the interface refuse arguments that make no sense, also those that functions return."""

import pickle

import numpy as np
import pytest

import hockeystick as hs
from hockeystick._curves.certificate import Certificate
from hockeystick._tables import Table
from hockeystick.opacus import LoaderScheme

STATEMENT = hs.renyi.group_rdp(hs.Gaussian(2.0), 4.0, sample_rate=0.01, group_size=8).statement
LAW = hs.shuffle.membership_law(hs.Shuffle(10, 100), epochs=2, group_size=3)
ROW = hs.shuffle.table(
    dataset_size=10_000, samples_per_unit=4, units_per_batch=16, epochs=50, noise_multiplier=2.0, group_size=4
)[0]
DOCUMENT = {"run": {}, "claims": []}

GOOD = {
    hs.shuffle.MembershipLaw: vars(LAW),
    hs.shuffle.FilteredRun: {"rounds": LAW, "noise_multiplier": 1.0},
    hs.shuffle.TableRow: vars(ROW),
    hs.renyi.Statement: vars(STATEMENT),
    hs.renyi.RenyiBound: {"value": 1.0, "statement": STATEMENT},
    hs.renyi.RenyiBounds: {"values": [1.0], "statement": STATEMENT},
    hs.release.Released: {
        "value": 0.7, "epsilon": 1.0, "delta": 0.0, "adjacency": "replace", "lower": 0.0, "upper": 2.0,
        "mechanism": "Laplace noise",
    },
    LoaderScheme: {
        "name": "poisson", "sampling": hs.Poisson(0.1), "sample_rate": 0.1, "dataset_size": 10,
        "batch_size": None, "description": "Poisson samples",
    },
    hs.MixedCurve: {"parts": {}, "tolerance": 1e-6},
    Certificate: {"document": DOCUMENT},
    Table: {"columns": {"a": [1]}},
}  # fmt: skip

BAD = [
    (hs.shuffle.MembershipLaw, {"squares": [2, 1]}, "squares must be ascending"),
    (hs.shuffle.MembershipLaw, {"squares": [1]}, "probabilities must be of shape"),
    (hs.shuffle.MembershipLaw, {"probabilities": -LAW.probabilities}, r"probabilities must be in \[0, 1\]"),
    (hs.shuffle.MembershipLaw, {"probabilities": 0.5 * LAW.probabilities}, "probabilities must be 1 in all"),
    (hs.shuffle.MembershipLaw, {"left_out": -0.1}, "left_out must be at least 0, got -0.1"),
    (hs.shuffle.MembershipLaw, {"largest": 0}, "largest must be a whole number >= "),
    (hs.shuffle.FilteredRun, {"rounds": "nonsense"}, "rounds must be of type MembershipLaw, got str"),
    (hs.shuffle.FilteredRun, {"noise_multiplier": -3.0}, r"noise_multiplier must be in \(0, inf\), got -3"),
    (hs.shuffle.TableRow, {"table": 3}, "table must be 1 or 2, got 3"),
    (hs.shuffle.TableRow, {"guarantee": None}, "guarantee must be of type TradeoffCurve, got NoneType"),
    (hs.renyi.Statement, {"bound": "nonsense"}, "bound must be one of 'exact'"),
    (hs.renyi.Statement, {"kind": "bound"}, "kind must be one of 'upper bound'"),
    (hs.renyi.Statement, {"tight": 1}, "tight must be of type bool, got int"),
    (hs.renyi.RenyiBound, {"statement": "exact"}, "statement must be of type Statement, got str"),
    (hs.renyi.RenyiBounds, {"statement": None}, "statement must be of type Statement, got NoneType"),
    (hs.release.Released, {"epsilon": -1.0}, r"epsilon must be in \[0, inf\], got -1"),
    (hs.release.Released, {"delta": float("nan")}, r"delta must be in \[0, 1\], got nan"),
    (hs.release.Released, {"lower": 3.0}, "lower must be at most upper, 2.0, got 3.0"),
    (hs.release.Released, {"adjacency": "add"}, "adjacency must be one of 'add_remove', 'replace'"),
    (LoaderScheme, {"name": "fast"}, "name must be one of 'poisson'"),
    (LoaderScheme, {"sample_rate": 2.0}, r"sample_rate must be in \[0, 1\], got 2.0"),
    (hs.MixedCurve, {"parts": "nonsense"}, "parts must be of type dict, got str"),
    (hs.MixedCurve, {"tolerance": -3}, "tolerance must be"),
    (Certificate, {"document": "nonsense"}, "document must be of type dict, got str"),
    (Certificate, {"document": {"run": {}}}, "document must be a certificate"),
    (Table, {"columns": "nonsense"}, "columns must be of type Mapping, got str"),
]


@pytest.mark.parametrize("kind", GOOD, ids=lambda kind: kind.__name__)
def test_good_arguments_are_taken(kind):
    kind(**GOOD[kind])


@pytest.mark.parametrize(("kind", "bad", "message"), BAD)
def test_what_makes_no_sense_is_refused_by_name(kind, bad, message):
    with pytest.raises((TypeError, ValueError), match=message):
        kind(**{**GOOD[kind], **bad})


def test_arrays_of_bounds_survive_pickle_with_and_without_a_statement():
    bounds = hs.renyi.group_rdp(hs.Gaussian(2.0), [2.0, 4.0], sample_rate=0.01, group_size=8)
    assert pickle.loads(pickle.dumps(bounds)).statement == bounds.statement
    plain = np.ones(3).view(type(bounds))
    assert pickle.loads(pickle.dumps(plain)).tolist() == [1.0, 1.0, 1.0]
