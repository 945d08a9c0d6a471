"""Pictures in the notebooks: they fit a page, have the shared style, and say in words what they show."""

import base64
import json
import re
import struct
from pathlib import Path
from typing import Any

import pytest

NOTEBOOKS = sorted((Path(__file__).parents[1] / "notebooks").glob("*.ipynb"))
OF_PAPERS = {"group", "individual", "pitfalls", "rgp", "shuffle"}

PAGE_PIXELS = 1200
"""Width of 7.2 inches at 160 dots each, with the margins that notebooks add."""

pytestmark = pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)

Cell = dict[str, Any]


def cells_of(notebook: Path) -> list[Cell]:
    found: list[Cell] = json.loads(notebook.read_text("utf-8"))["cells"]
    return found


def pictures_of(cell: Cell) -> list[bytes]:
    data = [output.get("data", {}).get("image/png") for output in cell.get("outputs", ())]
    return [base64.b64decode("".join(each)) for each in data if each]


def has_sliders(cell: Cell) -> bool:
    """Whether a picture of the cell is within a widget."""
    return any(
        "application/vnd.jupyter.widget-view+json" in output.get("data", {})
        for output in cell.get("outputs", ())
    )


def source_of(cell: Cell) -> str:
    return "".join(cell["source"])


def test_every_picture_has_an_alternative_text(notebook: Path) -> None:
    seen: list[str] = []
    for cell in cells_of(notebook):
        texts = cell["metadata"].get("alt", [])
        assert len(texts) == len(pictures_of(cell)) + has_sliders(cell), cell["id"]
        seen += texts
    assert seen
    assert len(set(seen)) == len(seen)
    for text in seen:
        assert len(text) > 80, f"does not say what is seen: {text}"
        assert not set(text) & set("$[]\n"), f"is read aloud as it stands: {text}"


def test_every_picture_fits_a_page(notebook: Path) -> None:
    for cell in cells_of(notebook):
        for picture in pictures_of(cell):
            width, _ = struct.unpack(">II", picture[16:24])
            assert width <= PAGE_PIXELS, cell["id"]


def test_the_style_is_set_in_one_place(notebook: Path) -> None:
    code = "\n".join(source_of(cell) for cell in cells_of(notebook) if cell["cell_type"] == "code")
    assert code.count("hs.plot.use_style()") == 1
    assert not re.findall(r"#[0-9A-Fa-f]{6}\b", code), "import colours from hockeystick.plot._style"


def test_links_lead_to_files_beside_the_notebooks(notebook: Path) -> None:
    for cell in cells_of(notebook):
        if cell["cell_type"] == "markdown":
            for target in re.findall(r"\]\((\.\.?/[^)#]+)", source_of(cell)):
                assert (notebook.parent / target).exists(), f"{cell['id']}: {target}"


def test_a_caption_says_what_the_figure_of_the_paper_shows(notebook: Path) -> None:
    if notebook.stem not in OF_PAPERS:
        return
    cells = cells_of(notebook)
    for place, cell in enumerate(cells):
        if pictures_of(cell):
            words = next(source_of(each) for each in cells[place:] if each["cell_type"] == "markdown")
            caption = re.match(r"\*(?!\*)([^*]+)\*\n\n", words + "\n\n")
            assert caption, f"no caption after {cell['id']}"
            assert "paper" in caption[1], cell["id"]
