"""Pictures of the experiments are drawn for light and for dark pages, and show the stored numbers."""

from pathlib import Path

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib.colors import to_rgb
from nightly import some

from benches.experiments import page, papers
from benches.experiments.pictures import BLUE, DASHED, GREY, ORANGE, SKY, picture
from hockeystick.plot import _style

PAGES = Path(__file__).parents[1] / "docs"
DARK = sorted([*page.FOLDER.glob("*-dark.png"), *PAGES.glob("images/**/*-dark.png")])
MOST_APART = 0.1
"""Fraction of the drawn points in which two pictures of the same numbers differ at most: edges of letters and
lines, 0.09 at most between a light and a dark one. It was 0.22 and more where the numbers were others."""
STRONG, FAINT = 60, 5
"""Difference of a point from the background, of 255, from which on it is drawn: above that of the grid, or
below that of the palest colour of a density."""
PALE = ("-histograms", "-loss")
"""Pictures of densities, and of bars with edges in the colour of the page."""


def colours(path):
    """Return the colours of a picture that more than a few points have."""
    points = (255 * mpl.image.imread(path)[..., :3].reshape(-1, 3)).round().astype(int)
    found, counts = np.unique(points, axis=0, return_counts=True)
    return {tuple(colour) for colour, count in zip(found.tolist(), counts, strict=True) if count > 20}


def seen(*named):
    return {tuple(round(255 * part) for part in to_rgb(colour)) for colour in named}


def test_colours_have_contrast_on_both_pages(tmp_path):
    for axes in picture(tmp_path, "lines", height=2.0, width=3.0):
        axes.plot([0, 1], [0, 1], color=BLUE, linewidth=3)
        axes.plot([0, 1], [1, 0], color=ORANGE, linewidth=3)
        axes.bar([0.5], [0.2], color=BLUE)
        axes.axhline(0.7, color=GREY, linewidth=3)
        axes.axhline(0.5, **DASHED | {"linewidth": 3})
    light, dark = colours(tmp_path / "lines.png"), colours(tmp_path / "lines-dark.png")
    assert seen("white", BLUE, ORANGE, GREY, "black") <= light
    assert seen(_style.BACKGROUND, _style.FOREGROUND, SKY, ORANGE, _style.LIGHT_GREY) <= dark
    assert not dark & seen("white", BLUE, GREY, "black")


def test_densities_show_many_in_the_lightest_colour_of_dark_pages(tmp_path):
    rows = np.repeat([0.0, 1.0], [400, 1])
    for axes in picture(tmp_path, "density", height=2.0, width=3.0):
        axes.hexbin(rows, rows, gridsize=3, cmap="Blues", mincnt=1)
    many, few = (seen(mpl.colormaps["Blues"](end)[:3]) for end in (1.0, 0.0))
    assert many | few <= colours(tmp_path / "density.png") & colours(tmp_path / "density-dark.png")
    # Many points lie at the lower left: dark on a light page, light on a dark one.
    assert center(tmp_path / "density.png", many)[0] < center(tmp_path / "density.png", few)[0]
    assert center(tmp_path / "density-dark.png", few)[0] < center(tmp_path / "density-dark.png", many)[0]


def center(path, colour):
    """Mean column and row of the points of a colour."""
    points = (255 * mpl.image.imread(path)[..., :3]).round().astype(int)
    rows, columns = np.nonzero(np.all(points == next(iter(colour)), axis=-1))
    return columns.mean(), rows.mean()


def drawn(path):
    """Return which points of a picture are not its background, nor its grid if colours are strong."""
    least = FAINT if any(part in path.stem for part in PALE) else STRONG
    background = 255 * np.array(to_rgb(_style.BACKGROUND if path.stem.endswith("-dark") else "white"))
    points = 255 * mpl.image.imread(path)[..., :3]
    return np.abs(points - background).max(axis=-1) > least


def apart(one, other):
    """Fraction of the points drawn in one of two pictures or in both that is drawn in one alone."""
    assert one.shape == other.shape
    return np.sum(one ^ other) / np.sum(one | other)


@pytest.mark.parametrize("path", DARK, ids=lambda path: path.stem)
def test_light_and_dark_pictures_show_the_same(path):
    assert apart(drawn(path), drawn(path.with_name(path.name.replace("-dark", "")))) < MOST_APART


@pytest.mark.slow
@pytest.mark.parametrize("paper", some(papers.PAPERS))
def test_pictures_show_the_stored_numbers(paper, tmp_path):
    stored = f"{paper}.json"
    (tmp_path / stored).write_bytes((page.FOLDER / stored).read_bytes())
    papers.redraw(paper, tmp_path)
    again = sorted(tmp_path.glob("*.png"))
    assert len(again) >= 2
    for path in again:
        assert apart(drawn(path), drawn(page.FOLDER / path.name)) < MOST_APART / 2, path.name
