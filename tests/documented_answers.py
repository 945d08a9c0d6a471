"""Certify and check every exact answer that the examples of the documentation ask for.

``python tests/documented_answers.py [PAGE ...]`` runs the Python blocks of the README and of docs/, notes
what they ask `get_epsilon`, `get_delta` and privacy curves for one number at a time, certifies each answer
and has the checker prove it. It prints a line for each page, and the reason for each answer that has no
certificate. The status is 1 if a certificate was not verified.
"""

import contextlib
import io
import os
import sys
import tempfile
import time
import warnings
from collections import Counter
from numbers import Real
from pathlib import Path
from typing import NamedTuple

from test_documentation import LIGHT_PAGES, blocks_of, name_of, run, without_large_libraries

import hockeystick as hs

ANSWERED = {"get_epsilon": "delta", "get_delta": "epsilon"}
"""Functions, and what they are asked at."""
DROPPED = ("bounds", "tolerance")
"""Arguments that are not about the run."""


class Answer(NamedTuple):
    """A curve, and where it was asked: by name, `delta` or `epsilon`."""

    curve: object
    at: str
    value: float


@contextlib.contextmanager
def noting(answers):
    """Note questions for one number that come from the code of a page, and not from the library."""
    originals = {name: getattr(hs, name) for name in ANSWERED}
    methods = {name: getattr(hs.PrivacyCurve, name) for name in ("epsilon", "delta", "bounds")}

    def of_function(name):
        def asked(*run, **given):
            at = given.get(ANSWERED[name])
            facts = {key: value for key, value in given.items() if key not in (ANSWERED[name], *DROPPED)}
            with contextlib.suppress(Exception), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                if isinstance(at, Real):
                    answers.append(Answer(hs.privacy_curve(*run, **facts), ANSWERED[name], float(at)))
            return originals[name](*run, **given)

        return asked

    def of_method(name):
        def asked(curve, *values, **given):
            place = sys._getframe(1).f_globals.get("__name__")
            other = "epsilon" if name == "delta" else "delta"
            found = given if name == "bounds" else dict.fromkeys([other], values[0] if values else None)
            for at, value in found.items():
                if place == "__main__" and at in ("epsilon", "delta") and isinstance(value, Real):
                    answers.append(Answer(curve, at, float(value)))
            return methods[name](curve, *values, **given)

        return asked

    try:
        for name in originals:
            setattr(hs, name, of_function(name))
        for name in methods:
            setattr(hs.PrivacyCurve, name, of_method(name))
        yield
    finally:
        for name, original in originals.items():
            setattr(hs, name, original)
        for name, method in methods.items():
            setattr(hs.PrivacyCurve, name, method)


def answers_of(page):
    """Different answers that the code of a page asks for."""
    found = []
    before = Path.cwd()
    with tempfile.TemporaryDirectory() as folder, noting(found), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        os.chdir(folder)
        try:
            with contextlib.redirect_stdout(io.StringIO()):
                run(without_large_libraries(blocks_of(page)), page)
        finally:
            os.chdir(before)
    different = {}
    for answer in found:
        if isinstance(answer.curve, hs.PrivacyCurve | hs.ShuffledCurve):
            about = [getattr(answer.curve, name, None) for name in ("sampling", "segments", "group_size")]
            key = (repr(about), answer.curve.adjacency, answer.at, answer.value)
            different.setdefault(key, answer)
    return list(different.values())


def outcome(answer):
    """Outcome of one answer: "verified", "NOT VERIFIED", or why there is no certificate."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            certificate = answer.curve.certify(**{answer.at: answer.value})
        except (hs.UnsupportedError, ValueError) as error:
            return f"no certificate: {str(error)[:110]}"
    return "verified" if certificate.verify()[0] else "NOT VERIFIED"


def main(names):
    """Check the answers of some pages, or of all; 1 if one is not verified."""
    total = Counter()
    for page in LIGHT_PAGES:
        if names and name_of(page) not in names:
            continue
        start, answers = time.process_time(), answers_of(page)
        found = Counter(map(outcome, answers))
        total += found
        print(f"{name_of(page)}: {len(answers)} answers, {time.process_time() - start:.0f} s", flush=True)
        for reason, count in sorted(found.items()):
            print(f"  {count} {reason}", flush=True)
    print(f"verified: {total['verified']} of {total.total()}")
    return 1 if total["NOT VERIFIED"] else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
