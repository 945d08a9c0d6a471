"""A pytest plugin: tests of another library call our names, and do what `suites.py` says of them.

Loaded by `scripts/run_originals.py`, which names the suite in the environment. Our names are put into the
modules of the original before its tests are imported. A test that fails or skips itself without being listed,
one that is listed and passes, and one that passes without a call of our code is an error; so is a pattern of
the list that no test has.
"""

from __future__ import annotations

import fnmatch
import importlib
import os
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from types import FrameType, ModuleType
from typing import Any

import pytest
from suites import SUITES, Suite

import hockeystick
from hockeystick.errors import UnsupportedError

__all__ = ["Originals", "put_in_place", "pytest_configure"]

OURS = str(Path(hockeystick.__file__).parent)


def pytest_configure(config: pytest.Config) -> None:
    """Put our names in place and watch what the tests do, if a suite is named."""
    name = os.environ.get("ORIGINALS_SUITE")
    if name is not None:
        put_in_place(SUITES[name])
        config.pluginmanager.register(Originals(SUITES[name]), "originals")


def put_in_place(suite: Suite) -> int:
    """Replace the public names of the original's modules by ours; returns how many."""
    sys.skip_tf_privacy_import = True  # type: ignore[attr-defined] -- else TF Privacy imports TensorFlow
    shim = importlib.import_module(suite.shim)
    replaced = 0
    for module in map(importlib.import_module, suite.replaced):
        for name in dir(module):
            mine = None if name.startswith("_") else _ours(shim, name)
            if mine is not None and not isinstance(getattr(module, name), ModuleType):
                setattr(module, name, mine)
                replaced += 1
        for name, place in suite.private.items():
            if hasattr(module, name):
                source, _, function = place.partition(":")
                setattr(module, name, getattr(importlib.import_module(source), function))
                replaced += 1
    return replaced


def _ours(shim: ModuleType, name: str) -> Any:
    try:
        found = getattr(shim, name, None)
    except UnsupportedError:  # refused by name: the original's stays
        return None
    return found if getattr(found, "__module__", "").startswith("hockeystick") else None


class Originals:
    """What each test does, beside what is said of it."""

    def __init__(self, suite: Suite) -> None:
        self.suite = suite
        self.touched = False
        self.counts: Counter[str] = Counter()
        self.faults: list[str] = []
        self.unused: set[str] = set()
        self.collected = 0

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        """Leave tests out, mark those that are to fail, and look for patterns without a test."""
        self.collected = len(items)
        lists = (self.suite.failing, self.suite.skipped, self.suite.untouched)
        self.unused = {
            pattern
            for patterns in lists
            for pattern in patterns
            if not any(fnmatch.fnmatch(_name(item), pattern) for item in items)
        }
        left_out = [item for item in items if _said(self.suite.untouched, item) is not None]
        self.counts["left out"] = len(left_out)
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in left_out]
        for item in items:
            reason = _said(self.suite.failing, item)
            if reason is not None:
                item.add_marker(pytest.mark.xfail(reason=reason, strict=True))

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Iterator[None]:
        """See whether a test calls our code."""
        self.touched = False
        sys.setprofile(self._watch)
        try:
            yield
        finally:
            sys.setprofile(None)

    def _watch(self, frame: FrameType, event: str, argument: object) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(OURS):
            self.touched = True
            sys.setprofile(None)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, item: pytest.Item) -> Iterator[None]:
        """Count a test, and keep what the list does not say."""
        report = yield
        if report.when == "call" or report.skipped or report.failed:
            self._count(item, report)
        return report

    def _count(self, item: pytest.Item, report: pytest.TestReport) -> None:
        if hasattr(report, "wasxfail"):
            outcome, is_listed = "failing as listed", report.skipped
        elif report.skipped:
            outcome, is_listed = "skipped", _said(self.suite.skipped, item) is not None
        elif report.failed:
            outcome, is_listed = "failed", False
        else:
            outcome = "passed" if self.touched else "passed without a call of our code"
            is_listed = self.touched and _said(self.suite.skipped, item) is None
        self.counts[outcome] += 1
        if not is_listed:
            self.faults.append(f"{_name(item)}: {outcome}, which is not as listed")

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Fail if a pattern or the number of tests is not what is said."""
        self.faults += [f"{pattern}: listed, and no test has this name" for pattern in sorted(self.unused)]
        if self.collected != self.suite.count:
            self.faults.append(f"{self.collected} tests, of which {self.suite.count} are listed")
        if self.faults and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        """Print the counts, the reasons and the faults."""
        counted = ", ".join(f"{number} {outcome}" for outcome, number in sorted(self.counts.items()))
        terminalreporter.section(f"{self.suite.library} with the names of {self.suite.shim}")
        terminalreporter.line(f"{self.collected} tests: {counted}")
        titles = ("fails", "skips itself", "left out, as it does not call our code")
        lists = (self.suite.failing, self.suite.skipped, self.suite.untouched)
        for title, patterns in zip(titles, lists, strict=True):
            for pattern, reason in patterns.items():
                terminalreporter.line(f"{title}: {pattern}: {reason}")
        for fault in self.faults:
            terminalreporter.line(f"FAULT {fault}", red=True)


def _name(item: pytest.Item) -> str:
    """File and name of a test, without folders."""
    return item.nodeid.rpartition("/")[2]


def _said(patterns: dict[str, str], item: pytest.Item) -> str | None:
    return next((why for pattern, why in patterns.items() if fnmatch.fnmatch(_name(item), pattern)), None)
