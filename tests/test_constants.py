"""The page about constants, and the sources in which constants can be multiplied."""

from pathlib import Path

import pytest

from benches.constants import page
from benches.constants.comparing import MOST_SECONDS, Asked, Question, chosen, do_meet, effect, width
from benches.constants.source import closed, constants, homes_of, masked, rewritten

SOURCES = Path(__file__).parents[1] / "src"


@pytest.fixture(scope="module")
def crate(tmp_path_factory):
    folder = tmp_path_factory.mktemp("crate")
    (folder / "lib.rs").write_text(
        "mod reach;\n"
        "#[cfg(test)]\nmod tests;\n"
        "use crate::reach::{FAR, Far};\n"
        "/// Not FAR.\n"
        "const NEAR: (f64, u32) = (0.5, 1);\n"
        "const LENGTH: usize = 4;\n"
        "const NAMES: [&str; 1] = [\"FAR\"];\n"
        "fn all(x: f64) -> [f64; LENGTH] { let _ = 'x'; [x * FAR + NEAR.0 + f64::MAX; LENGTH] }\n"
        "#[cfg(test)]\nmod inner { const FAR: f64 = 1.0; }\n"
    )  # fmt: skip
    (folder / "reach.rs").write_text(
        "pub(crate) const FAR: f64 = 2.0 * HALF; // FAR\nconst HALF: f64 = 3.0;\n"
    )
    (folder / "tests.rs").write_text("const FAR: f64 = 1.0;\n")
    return folder


def test_constants_are_those_that_are_numbers_and_not_of_tests(crate):
    assert [(found.file, found.name, found.value) for found in constants(crate)] == [
        ("lib.rs", "NEAR", "(0.5, 1)"),
        ("lib.rs", "LENGTH", "4"),
        ("reach.rs", "FAR", "2.0 * HALF"),
        ("reach.rs", "HALF", "3.0"),
    ]


def test_constants_become_calls_but_for_those_that_the_compiler_must_know(crate):
    numbers = {constant: number for number, constant in enumerate(constants(crate))}
    fixed = closed(crate, {("lib.rs", "LENGTH")}, homes_of(numbers))
    assert fixed == {("lib.rs", "LENGTH")}
    made = rewritten((crate / "lib.rs").read_text(), "lib.rs", numbers, fixed)
    assert "use crate::reach::{FAR, Far};" in made
    assert "/// Not FAR." in made
    assert '["FAR"]' in made
    assert "fn NEAR() -> (f64, u32) { crate::tuned::at(0, (0.5, 1)) }" in made
    assert "const LENGTH: usize = 4;" in made
    assert "[x * FAR() + NEAR().0 + f64::MAX; LENGTH]" in made
    made = rewritten((crate / "reach.rs").read_text(), "reach.rs", numbers, fixed)
    assert made.startswith("pub(crate) fn FAR() -> f64 { crate::tuned::at(2, 2.0 * HALF()) } // FAR\n")


def test_what_a_use_cannot_be_told_apart_from_stays_too(crate):
    numbers = {constant: number for number, constant in enumerate(constants(crate))}
    homes = homes_of(numbers) | {"FAR": {"reach.rs", "other.rs"}}
    fixed = closed(crate, {("other.rs", "FAR")}, homes)
    assert fixed == {("other.rs", "FAR"), ("reach.rs", "FAR")}


def test_comments_texts_and_characters_are_blank():
    assert masked('a "b\\"c" \'d\' r#"e"# // f\n\'g: /* h */ i') == "a " + " " * 22 + "\n'g: " + " " * 8 + "i"


def test_effects_are_told_apart():
    before = Asked([(1.0, 1.0 + 1e-6)], 1e-2)
    same = effect([(before, before)], 5)
    assert same.questions == 5
    assert same.asked == 1
    assert (same.time, same.width, same.apart, same.moved, same.errors) == (1.0, 1.0, 0, 0.0, [])
    wide = effect([(before, Asked([(0.9, 1.1)], 2e-2))], 1)
    assert wide.time == pytest.approx(2.0, rel=1e-2)
    assert wide.width > 1e5
    assert not wide.apart
    assert effect([(before, Asked([(2.0, 2.1)], 1e-2))], 1).apart == 1
    assert effect([(before, Asked("ValueError", 1e-2)), "crash"], 2).errors == ["ValueError", "crash"]


def test_widths_and_meetings():
    assert width((0.0, 0.0)) == 0.0
    assert width((0.0, 1.0)) == 1.0
    assert width((1.0, float("inf"))) == 1.0
    assert do_meet((1.0, 2.0), (2.0, 3.0))
    assert not do_meet((1.0, 2.0), (2.1, 3.0))


def test_questions_are_chosen_of_many_kinds_and_within_the_time():
    questions = [Question(kind, list) for kind in "aaaabbc"]
    short = chosen(range(7), questions, dict.fromkeys(range(7), 0.0))
    assert sorted(questions[number].kind for number in short) == ["a", "a", "b", "b", "c"]
    assert len(chosen(range(7), questions, dict.fromkeys(range(7), 2.0 * MOST_SECONDS))) == 1
    assert chosen([], questions, {}) == []


def test_effects_are_put_into_words():
    nothing = effect([(Asked([(1.0, 1.1)], 1e-2),) * 2], 3)
    assert page.worded(None) == "fixed"
    assert page.worded(nothing) == "nothing"
    assert page.worded(nothing._replace(questions=0)) == "not read"
    worse = nothing._replace(time=2.0, slowest=4.0, width=20.0, widest=3e-5, moved=2e-5)
    assert page.worded(worse) == "width ×20, to 3e-05; numbers move by 2e-05; time ×2.00, up to ×4"
    wrong = nothing._replace(apart=1, moved=0.5, errors=["crash"])
    assert page.worded(wrong) == "error: crash; contradiction in 1 of 1"


def test_the_page_has_every_constant_of_the_core():
    found = [page.row(constant) for constant in constants(SOURCES)]
    missing, gone = set(found) - set(page.known()), set(page.known()) - set(found)
    if missing or gone:
        pytest.fail(f"run make constants: new are {sorted(missing)[:5]}, gone are {sorted(gone)[:5]}")
