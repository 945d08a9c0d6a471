"""The part of a report that says what an independent checker proved, with the certificate to check again."""

from __future__ import annotations

from hockeystick import PrivacyCurve
from hockeystick._extras import needed
from hockeystick.reporting._document import Block, Code, Paragraph, Section, Table

HEADING = "Independently verified"
FAILED = "Not verified"


def section_of(curve: PrivacyCurve, delta: float) -> Section:
    """Ask the checker about epsilon at `delta`, and return what it says and the certificate.

    Raises
    ------
    ImportError
        If the extra "verify" is not installed.
    UnsupportedError
        If the checker does not cover the run.
    """
    checker = needed("hockeystick_verify", "verify")
    certificate = curve.certify(delta=delta)
    verified, lines = certificate.verify()
    rows = (
        ("checker", f"hockeystick_verify {checker.__version__}, ball arithmetic, no code of hockeystick"),
        ("proven", "; ".join(line.strip() for line in lines[1:]) or lines[0]),
        ("certificate, SHA-256", certificate.sha256),
    )
    words = (
        "A second program has proven the bounds below from the run alone, without code of the first one."
        if verified
        else "A second program could NOT prove the bounds below. Do not rely on them."
    )
    blocks: list[Block] = [
        Paragraph(words),
        Table((), rows),
        Paragraph(
            "The certificate. Store it as certificate.json, and check it with: "
            "python -m hockeystick_verify certificate.json"
        ),
        Code(certificate.to_json().rstrip("\n"), "json"),
    ]
    return Section(HEADING if verified else FAILED, blocks)
