"""A report in a real browser: what it shows."""

import hashlib
import re
import shutil
import subprocess
import time
from html import unescape
from pathlib import Path

import browser
import numpy as np
import pytest
from matplotlib import image

import hockeystick as hs
from hockeystick.accountants import GroupAccountant

pytestmark = pytest.mark.browser

SCREENSHOT = Path(__file__).parents[1] / "demo" / "output" / "report.png"
WIDTH, HEIGHT = 900, 5600
FORM = {"model": "digits, version 3", "dataset": "digits of 2025", "responsible": "A. Example"}


def chromium(folder, *arguments):
    program = shutil.which("chromium")
    assert program, "install Debian's package chromium"
    # Without a network: the page must need none.
    flags = [
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--hide-scrollbars",
        "--host-resolver-rules=MAP * ~NOTFOUND",
        f"--user-data-dir={folder}",
    ]
    command = [program, *flags, *map(str, arguments)]
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=120).stdout


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    accountant = GroupAccountant(group_size=2)
    accountant.history = [(1.0, 0.01, 600), (2.0, 0.02, 400)]
    path = tmp_path_factory.mktemp("report") / "privacy.html"
    details = {"clipping norm": 1.0, "learning rate": "<img src=x onerror=document.title='broken'>"}
    return hs.report(accountant, path, dataset_size=60_000, target=3.0, details=details, **FORM)


def test_the_browser_shows_every_part(report, tmp_path):
    shown = chromium(tmp_path, "--dump-dom", report.as_uri())
    assert re.findall(r"<h2>(.*?)</h2>", shown) == [
        "Verdict",
        "The guarantee in plain words",
        "Who is protected, and who is not",
        "What is not covered",
        "Responsibility",
        "What it assumes",
        "Records and groups",
        "The same noise and steps under other assumptions",
        "Curves",
        "For engineers: to be disclosed with the guarantee",
        "For engineers: how epsilon was computed",
        "For engineers: how to reproduce it",
        "References",
    ]
    assert "<title>Privacy report</title>" in shown  # the learning rate did not run
    text = unescape(re.sub(r"<[^>]*>", " ", shown))
    assert "<img src=x onerror=document.title='broken'>" in text
    accountant = GroupAccountant(group_size=2)
    accountant.history = [(1.0, 0.01, 600), (2.0, 0.02, 400)]
    epsilon = accountant.get_epsilon(1e-5)
    claimed = float(re.search(r"epsilon = ([\d.]+) and delta = 1 in 100,000 for any person", text)[1])
    assert epsilon <= claimed <= epsilon * (1 + 2e-4)


def test_the_pictures_are_seen(report, tmp_path):
    SCREENSHOT.parent.mkdir(parents=True, exist_ok=True)
    window = f"--window-size={WIDTH},{HEIGHT}"
    chromium(tmp_path, window, f"--screenshot={SCREENSHOT}", report.as_uri())
    pixels = np.rint(image.imread(SCREENSHOT)[..., :3] * 255).astype(int)
    assert pixels.shape == (HEIGHT, WIDTH, 3)

    def count(red, green, blue):
        return np.count_nonzero(np.all(np.abs(pixels - [red, green, blue]) <= 8, axis=-1))

    assert count(0x00, 0x72, 0xB2) > 1000  # lines, in blue
    assert count(0xD5, 0x5E, 0x00) > 300  # the target and the squares, in orange
    assert count(0xD5, 0xEE, 0xFA) > 5000  # what is out of reach of attacks


def test_it_can_be_read_on_a_phone(report, tmp_path):
    with browser.chromium(tmp_path) as page:
        page.look(400, 800)
        page.open(report.as_uri())
        assert page.run("document.documentElement.scrollWidth") == 400
        page.picture(SCREENSHOT.with_name("report-phone.png"))


def test_the_link_saves_the_certificate_with_the_hash_that_is_shown(tmp_path):
    curve = hs.privacy_curve(noise_multiplier=1.0, sample_rate=0.01, steps=1000)
    page = hs.report(curve, tmp_path / "privacy.html", certified=True, pictures=False)
    saved = tmp_path / "certificate.json"
    with browser.chromium(tmp_path / "profile") as chrome:
        chrome.call("Page.setDownloadBehavior", behavior="allow", downloadPath=str(tmp_path))
        chrome.open(page.as_uri())
        chrome.run("document.querySelector('a[download]').click()")
        deadline = time.monotonic() + 20.0
        while not saved.exists():
            assert time.monotonic() < deadline, "the browser saves nothing"
            time.sleep(0.05)
    found = hashlib.sha256(saved.read_bytes()).hexdigest()
    assert found == curve.certify(delta=1e-5).sha256
    assert found in page.read_text("utf-8")
