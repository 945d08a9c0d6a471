"""Pictures look as they did when a person last looked at them."""

import matplotlib as mpl
import pytest
from matplotlib.testing.compare import compare_images

mpl.use("Agg")

import pictures

TOLERANCE = 4.0
"""Root mean square of the difference of grey levels, out of 255: for letters drawn by other versions."""


def difference(expected, actual):
    found = compare_images(str(expected), str(actual), TOLERANCE, in_decorator=True)
    return 0.0 if found is None else found["rms"]


@pytest.mark.parametrize("name", pictures.STORED)
def test_a_picture_is_the_stored_one(name, tmp_path):
    path = tmp_path / f"{name}.png"
    pictures.draw(name, path)
    # Matplotlib writes a picture of the difference beside the first file.
    stored = tmp_path / f"{name}-expected.png"
    stored.write_bytes((pictures.GOLDEN / f"{name}.png").read_bytes())
    assert difference(stored, path) == 0.0, f"draw it anew with tests/pictures.py, and look at {name}.png"


def test_every_stored_picture_is_drawn():
    assert {path.stem for path in pictures.GOLDEN.glob("*.png")} == set(pictures.STORED)


def test_the_documentation_shows_the_stored_pictures():
    shown = list(pictures.SHOWN.glob("*.png"))
    assert len(shown) >= 10
    for path in shown:
        other = path.stem.removesuffix("-dark") if path.stem.endswith("-dark") else f"{path.stem}-dark"
        assert path.with_stem(other).exists(), f"{path.name} is not there for light and for dark pages"
        assert path.read_bytes() == (pictures.GOLDEN / path.name).read_bytes(), path.name


def test_a_moved_line_is_noticed(tmp_path, monkeypatch):
    monkeypatch.setitem(pictures.RUN, "noise_multiplier", 1.1)
    pictures.draw("privacy_curve", tmp_path / "changed.png")
    stored = tmp_path / "stored.png"
    stored.write_bytes((pictures.GOLDEN / "privacy_curve.png").read_bytes())
    assert difference(stored, tmp_path / "changed.png") > TOLERANCE


@pytest.mark.parametrize("name", pictures.PICTURES)
def test_text_is_large_enough_and_inside_at_one_column(name):
    from matplotlib import pyplot

    axes = pictures.PICTURES[name]()
    figure = axes.figure
    figure.canvas.draw()
    assert figure.get_size_inches()[0] == 3.3
    texts = [
        axes.xaxis.label,
        axes.yaxis.label,
        *axes.get_xticklabels(),
        *axes.get_yticklabels(),
        *axes.texts,
        *axes.get_legend().get_texts(),
        axes.get_legend().get_title(),
        axes._left_title,
    ]
    shown = [text for text in texts if text.get_text()]
    assert all(text.get_fontsize() >= 6.9 for text in shown)
    width, height = figure.canvas.get_width_height()
    ticks = {**_ends(axes.xaxis, 0), **_ends(axes.yaxis, 1)}
    for text in shown:
        if text in ticks and not ticks[text]:
            continue  # ticks beyond the ends of an axis are not drawn
        box = text.get_window_extent()
        assert -1 <= box.x0 < box.x1 <= width + 1, text.get_text()
        assert -1 <= box.y0 < box.y1 <= height + 1, text.get_text()
    pyplot.close(figure)


def _ends(axis, coordinate):
    """Labels of ticks, and whether each is between the ends of the axis."""
    low, high = sorted(axis.get_view_interval())
    return {text: low <= text.get_position()[coordinate] <= high for text in axis.get_ticklabels()}
