"""The calculator in a real browser: its answers beside Python's, its link, its errors, and how it looks."""

import base64
import gzip
import json
import random
import shutil
import urllib.parse
from pathlib import Path

import numpy as np
import pytest
from browser import chromium
from matplotlib import image

import hockeystick as hs
from hockeystick._rounding import percent_up, rounded_down, rounded_up

pytestmark = pytest.mark.browser

TOP = Path(__file__).parents[1]
PAGE = TOP / "docs" / "calculator" / "index.html"
PICTURES = TOP / "demo" / "output"

RUNS = 200
LONGEST = 20.0
"""Milliseconds within which most answers must come, so that they follow a slider, on a busy machine too."""


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    assert (PAGE.parent / "engine.js").exists(), "make calculator builds the engine"
    with chromium(tmp_path_factory.mktemp("profile")) as running:
        running.look(1100, 1000)
        yield running


@pytest.fixture(scope="module")
def page(browser):
    """The page, on which `shown(link)` is what it shows for a run."""
    browser.open(PAGE.as_uri())
    settled(browser)
    browser.run("""
        globalThis.answered = async (link, whole) => {
            const before = page.asked;
            // Not by the address: browsers throttle navigation.
            page.run = runOfLink(link);
            refresh();
            const newest = () => (whole ? page.answered : page.heard);
            const text = (id) => document.getElementById(id).textContent;
            const isThere = () => page.asked !== before && newest() === page.asked
                && !text("interval").includes("being computed");
            while (!isThere()) await new Promise((go) => setTimeout(go, 3));
            return {epsilon: document.getElementById("epsilon").firstChild?.data,
                    interval: text("interval"),
                    attacks: text("attacks"), note: text("scheme-warning"), steps: text("steps"),
                    statement: text("statement-text"), python: text("python"),
                    problem: document.getElementById("problem").hidden ? "" : text("problem"),
                    took: Number(document.getElementById("answer").dataset.took)};
        }""")
    return browser


def settled(browser):
    browser.until("page.asked > 0 && page.answered === page.asked")


def link(**fields):
    return urllib.parse.urlencode(fields)


def shown(page, *, whole=True, **fields):
    """What the page shows for a run: all of it, or once epsilon is there."""
    return page.run(f"answered({json.dumps(link(**fields))}, {json.dumps(whole)})")


def random_run(chance):
    """A link, and the arguments of `hs.get_epsilon` for the same run."""
    scheme = chance.choice(["poisson"] * 10 + ["fixed"] * 4 + ["full"] * 4 + ["allocated", "shuffled"])
    noise = round(chance.choice([1, 2, 4]) * 10 ** chance.uniform(-0.15, 0.5), 3)
    steps = int(10 ** chance.uniform(1, 4))
    batch = chance.choice([32, 100, 256, 600, 1000])
    records = chance.choice([10_000, 50_000, 60_000, 123_457])
    one_over = chance.choice([1000, 100_000, 10_000_000])
    group = chance.choice([1, 1, 2, 8]) if scheme in ("poisson", "fixed", "full") else 1
    relation = "zero_out" if scheme == "shuffled" else "add_remove"
    if scheme in ("full", "shuffled") or (scheme in ("poisson", "fixed") and group == 1):
        relation = chance.choice([relation, "replace"])
    if scheme == "allocated":
        batch = chance.choice([600, 1000])
        steps = records // batch * chance.randint(1, 10)
    fields = {"scheme": scheme, "noise": noise, "unit": "steps", "length": steps, "group": group}
    fields |= {"neighbours": relation, "delta": one_over}
    run = {"noise_multiplier": noise, "steps": steps, "group_size": group, "adjacency": relation}
    run["delta"] = 1 / one_over
    if scheme == "poisson" and chance.random() < 0.5:
        rate = round(10 ** chance.uniform(-3, -1), 5)
        fields |= {"by": "rate", "rate": rate}
    else:
        fields |= {"by": "size", "batch": batch, "records": records}
        rate = batch / records
    run["sampling"] = {
        "poisson": hs.Poisson(rate),
        "fixed": hs.WithoutReplacement(batch, records),
        "full": hs.FullBatch(),
        "allocated": hs.RandomAllocation(records // batch),
        "shuffled": hs.Shuffle(batch, records),
    }[scheme]
    return fields, run


@pytest.mark.filterwarnings("ignore::hockeystick.errors.WideIntervalWarning")
def test_answers_are_those_of_python_to_the_last_digit(page):
    chance = random.Random(26)
    took, schemes = [], set()
    for _ in range(RUNS):
        fields, run = random_run(chance)
        lower, upper = hs.get_epsilon(**run, bounds=True)
        answer = shown(page, whole=False, **fields)
        assert answer["problem"] == "", (fields, answer["problem"])
        assert answer["epsilon"] == f"ε = {rounded_up(upper)}", (run, lower, upper)
        digits = (3, 5) if fields["scheme"] == "shuffled" else (7, 7)
        ends = f"between {rounded_down(lower, digits[0])} and {rounded_up(upper, digits[1])}."
        assert ends in answer["interval"], (run, lower, upper, answer["interval"])
        took.append(answer["took"])
        schemes.add(fields["scheme"])
    assert len(schemes) == 5
    half, most, nearly_all, slowest = np.quantile(took, [0.5, 0.9, 0.97, 1.0])
    print(
        f"{RUNS} first answers: median {half:.1f} ms, 90 % within {most:.1f} ms, "
        f"97 % within {nearly_all:.1f} ms, all within {slowest:.1f} ms"
    )
    assert half < LONGEST


def test_attacks_and_the_warning_are_those_of_python(page):
    answer = shown(
        page, noise=1.2, batch=600, records=60_000, length=10, unit="epochs", group=3, delta=100_000
    )
    assert answer["steps"] == "1,000 steps in all"
    run = {"noise_multiplier": 1.2, "steps": 1000, "group_size": 3}
    curve = hs.privacy_curve(**run, sample_rate=0.01)
    assert f"right at most {percent_up((1 + curve.advantage()) / 2)} of the time" in answer["attacks"]
    for rate, words in [(0.01, "1 in 100"), (0.001, "1 in 1,000")]:
        assert (
            f"accuses at most {words} of the persons that did not take part "
            f"finds at most {percent_up(1 - curve.beta(rate))}" in answer["attacks"]
        )
    shuffled = {"sampling": hs.Shuffle(600, 60_000), "adjacency": "zero_out", "tolerance": 1e-4}
    lower, upper = hs.get_epsilon(delta=1e-5, **run, **shuffled, bounds=True)
    assert f"ε lies between {rounded_down(lower, 3)} and {rounded_up(upper, 3)}" in answer["note"]
    assert "any person with at most 3 records" in answer["statement"]
    assert "δ = 1 in 100,000" in answer["statement"]


@pytest.mark.filterwarnings("ignore::hockeystick.errors.WideIntervalWarning")
def test_the_python_that_is_shown_gives_the_number_that_is_shown(page):
    chance = random.Random(5)
    for _ in range(6):
        fields, _ = random_run(chance)
        answer = shown(page, whole=False, **fields)
        prelude, call = answer["python"].split("\n\n")
        names = {}
        exec(prelude, names)
        _, upper = eval(call, names)
        assert answer["epsilon"] == f"ε = {rounded_up(upper)}", answer["python"]


def test_wrong_numbers_are_named_beside_their_fields(page):
    for fields, name, words in [
        ({"noise": "much"}, "noise", "Enter a number."),
        ({"batch": 2.5}, "batch", "Enter a whole number."),
        ({"batch": 100, "records": 50}, "batch", "at most as many"),
        ({"by": "rate", "rate": 1.5}, "rate", "1 or less"),
        ({"delta": 1}, "delta", "above 1"),
    ]:
        answer = shown(page, **fields)
        assert answer["problem"]
        assert words in page.run(f"document.getElementById('{name}-error').textContent")
        assert page.run(f"document.getElementById('{name}').getAttribute('aria-invalid')") == "true"
    assert shown(page)["epsilon"] == "ε = 1.8283"  # and goes on


def test_the_link_holds_the_run_and_keys_move_sliders(page):
    shown(page, noise=2, group=4, scheme="fixed", batch=500, records=50_000, length=3, unit="epochs")
    page.run("new Promise((go) => setTimeout(go, LINK_MS + 100))")
    before = page.run("({link: location.href, epsilon: document.getElementById('epsilon').textContent})")
    page.run("document.getElementById('noise-slider').focus()")
    page.key("ArrowRight", 39)
    settled(page)
    moved = page.run("""({noise: document.getElementById("noise").value,
        spoken: document.activeElement.ariaValueText,
        epsilon: document.getElementById("epsilon").textContent})""")
    assert float(moved["noise"]) > 2
    assert moved["spoken"] == moved["noise"]
    assert moved["epsilon"] != before["epsilon"]
    shown(page)
    page.run("document.getElementById('group-slider').focus()")
    page.key("ArrowUp", 38)
    settled(page)
    assert page.run("document.getElementById('group').value") == "2"
    shown(page)
    page.run(f"location.href = {json.dumps(before['link'])}, 0")
    page.until("page.run.group === '4' && page.asked > 0 && page.answered === page.asked")
    assert page.run("document.getElementById('epsilon').textContent") == before["epsilon"]


@pytest.mark.parametrize(
    ("fields", "run"),
    [
        (
            {"scheme": "fixed", "noise": 1.096, "length": 192, "batch": 32, "records": 60_000, "delta": 1000},
            {"noise_multiplier": 1.096, "sampling": hs.WithoutReplacement(32, 60_000), "steps": 192},
        ),
        (
            {
                "scheme": "allocated",
                "noise": 6.797,
                "length": 80,
                "batch": 600,
                "records": 10_000,
                "delta": 1000,
            },
            {"noise_multiplier": 6.797, "sampling": hs.RandomAllocation(16), "steps": 80},
        ),
    ],
)
def test_a_bound_that_is_less_close_may_come_before_the_closest_one(page, fields, run):
    page.run("""globalThis.heard = []; globalThis.toldBefore = told;
        told = (data) => { if (data.epsilon) heard.push(data.epsilon); toldBefore(data); }, 0""")
    answer = shown(page, unit="steps", **fields)
    page.run("told = toldBefore, 0")
    *sooner, closest = page.run("heard")
    lower, upper = hs.get_epsilon(delta=1e-3, bounds=True, **run)
    assert closest == {"lower": pytest.approx(lower, rel=1e-6), "upper": pytest.approx(upper, rel=1e-6)}
    assert answer["epsilon"] == f"ε = {rounded_up(upper)}"
    assert len(sooner) <= 1
    for early in sooner:  # on a fast machine there is none
        assert early["lower"] is None
        assert upper * (1.0 - 1e-9) <= early["upper"] <= 1.1 * upper


def test_it_says_that_it_computes_only_while_it_does(page):
    shown(page, noise=1, group=8, batch=600, records=60_000, length=10)
    page.run("new Promise((go) => setTimeout(go, SLOW_MS + 200))")
    assert page.run("document.getElementById('busy').textContent") == ""


def test_fields_have_names_for_screen_readers(page):
    names = page.run("""Array.from(document.querySelectorAll("input, select, button"),
        (field) => field.labels?.[0]?.textContent || field.ariaLabel || field.textContent)""")
    assert len(names) > 15
    assert all(name.strip() for name in names)
    assert page.run("document.getElementById('epsilon').ariaLive") == "polite"
    described = page.run(
        "document.querySelector('#curve').getAttribute('aria-labelledby').split(' ')"
        ".map((id) => document.getElementById(id).textContent)"
    )
    assert all(described)


def test_nothing_is_fetched_but_the_page_itself(page):
    folder = PAGE.parent.as_uri()
    outside = [
        address for address in page.requests if not address.startswith((folder, "blob:", "about:", "data:"))
    ]
    assert outside == []
    assert page.console == []


def test_a_worker_that_is_started_anew_shares_the_compiled_engine(page):
    # Otherwise browsers compile it again, and the next answers take up to ten times as long.
    shares = page.run("""(() => {
        const { engine, worker } = page;
        startWorker();
        return engine instanceof Promise && page.engine === engine && page.worker !== worker;
    })()""")
    assert shares
    answer = shown(page, noise=1, batch=600, records=60_000, length=10)
    assert answer["epsilon"] == "ε = 1.8283"


# A module whose `start` traps, as a panic of the core does; `message` and `message_length` give no text.
TRAPPING = base64.b64encode(
    gzip.compress(
        b"\0asm\1\0\0\0"
        b"\1\5\1\x60\0\1\x7f"  # one type: () -> i32
        b"\3\3\2\0\0"  # two functions
        b"\5\3\1\0\1"  # one page of memory
        b"\7\x36\5"  # five exports
        b"\6memory\2\0\6fields\0\0\5start\0\1\7message\0\0\x0emessage_length\0\0"
        b"\x0a\x0a\2\4\0\x41\0\x0b\3\0\0\x0b"  # return 0; unreachable
    )
).decode()


def test_a_panic_of_the_core_becomes_a_message_on_the_page(browser, tmp_path):
    copy = tmp_path / "calculator"
    shutil.copytree(PAGE.parent, copy)
    (copy / "engine.js").write_text(
        f'self.HOCKEYSTICK_VERSION = "0"; self.HOCKEYSTICK_ENGINE = "{TRAPPING}";\n'
    )
    browser.open((copy / "index.html").as_uri())
    browser.until("!document.getElementById('problem').hidden")
    said = browser.run("document.getElementById('problem').textContent")
    assert "a defect" in said
    assert "unreachable" in said
    (copy / "engine.js").unlink()
    browser.open((copy / "index.html").as_uri())
    browser.until("!document.getElementById('problem').hidden")
    assert "make calculator" in browser.run("document.getElementById('problem').textContent")
    browser.console.clear()


@pytest.mark.parametrize(
    ("name", "width", "height", "dark"),
    [("light", 1100, 1500, False), ("dark", 1100, 1500, True), ("phone", 390, 1600, False)],
)
def test_it_looks_right(browser, name, width, height, dark):
    browser.look(width, height, dark=dark)
    browser.open(f"{PAGE.as_uri()}#{link(noise=1, group=8, batch=600, records=60_000, length=10)}")
    settled(browser)
    pixels = image.imread(browser.picture(PICTURES / f"calculator-{name}.png"))[..., :3]
    assert pixels.shape[1] == width  # nothing is wider than the window
    assert browser.run("document.documentElement.scrollWidth") == width
    paper = np.array([0x14, 0x16, 0x1F] if dark else [0xFF, 0xFF, 0xFF]) / 255
    line = np.array([0x9F, 0xA8, 0xFF] if dark else [0x39, 0x49, 0xAB]) / 255
    assert np.allclose(pixels[3, 3], paper, atol=0.01)
    assert np.count_nonzero(np.all(np.abs(pixels - line) < 0.03, axis=-1)) > 400  # sliders, curve, buttons
    narrow = width < 800
    assert browser.run("getComputedStyle(document.getElementById('bar')).display") == (
        "block" if narrow else "none"
    )


def test_the_statement_is_what_is_printed(browser):
    browser.look(800, 1000, paper=True)
    browser.open(PAGE.as_uri())
    settled(browser)
    visible = browser.run("document.body.innerText")
    assert "The training satisfies (ε, δ)-differential privacy with ε = 1.8283" in visible
    assert "Print the statement" not in visible
    assert "Noise multiplier" not in visible
