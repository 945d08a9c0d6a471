"""What an independent checker proved of a report, with the certificate to check again."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

from hockeystick import Certificate
from hockeystick._extras import needed
from hockeystick._guarantees.guarantee import ExactGuarantee, ShuffledGuarantee
from hockeystick._guarantees.proven import ProvenEnds, ProvenGuarantee, ProvenInterval
from hockeystick._rounding import rounded_up
from hockeystick.reporting._document import Attachment, Block, Code, Paragraph, Section, Table

HEADING = "Independently verified"
FAILED = "Not verified"
FILE = "certificate.json"

COVERED = (
    "The epsilon that this report states for the run is the proven one: the upper end below, rounded up "
    "where it is not written in full. The error rates of attacks, and epsilon for other deltas, groups and "
    "assumptions, are answers of the accountant, which the certificate is not about."
)

HASHED = (
    f"The SHA-256 is that of the file {FILE}: the text of the certificate in UTF-8, with one line feed at "
    "the end of every line, the last one too."
)

SERIALISED = (
    "sha256 is that of the certificate as a file: JSON with the keys in the order that they have here, one "
    "entry a line, indented by one space a level, and a final line feed; in Python: "
    "(json.dumps(certificate, indent=1) + '\\n').encode()"
)


class Proof(NamedTuple):
    """A certificate, and what the checker said about it."""

    certificate: Certificate
    verified: bool
    lines: list[str]
    checker: str
    """Name and version."""


def proof_of(guarantee: ExactGuarantee | ShuffledGuarantee, delta: float) -> Proof:
    """Ask the checker about epsilon at `delta`.

    Raises
    ------
    ImportError
        If the extra "verify" is not installed.
    UnsupportedError
        If the checker does not cover the run.
    """
    checker = needed("hockeystick_verify", "verify")
    certificate = guarantee.curve.certify(delta=delta)
    verified, lines = certificate.verify()
    return Proof(certificate, verified, lines, f"hockeystick_verify {checker.__version__}")


def proven(
    guarantee: ExactGuarantee | ShuffledGuarantee, delta: float, proof: Proof
) -> ExactGuarantee | ShuffledGuarantee:
    """Return the guarantee with the ends that the checker has proven; as it is if it has not."""
    claims = proof.certificate.claims
    upper = [claim["epsilon"] for claim in claims if claim.get("at_most", 1.0) <= delta]
    if not proof.verified or not upper:
        return guarantee
    lower = [claim["epsilon"] for claim in claims if claim.get("at_least", 0.0) >= delta]
    ends = max(lower, default=None), min(upper)
    if isinstance(guarantee, ShuffledGuarantee):
        return ProvenInterval(guarantee, delta, ends)
    return ProvenGuarantee(guarantee, delta, ends)


def proven_in_words(proof: Proof, guarantee: ProvenEnds) -> dict[str, str]:
    """Return what a proven guarantee assumes, for engineers, as far as the proof changes it."""
    lower, upper = guarantee.ends
    if isinstance(guarantee, ProvenInterval):
        about = "interval for shuffled batches, whose ends at this delta were proven"
        return {"accounting": f"{about} by {proof.checker}"} | _upper_alone(lower, upper)
    found = {"accounting": f"privacy curve, whose epsilon at this delta was proven by {proof.checker}"}
    if lower is None:
        return found | {
            "status": "upper bound: the true epsilon may be smaller",
            **_upper_alone(lower, upper),
        }
    if isinstance(guarantee, ProvenGuarantee) and guarantee.curve.tight:
        found["status"] = "tight but for the width of the proof: some data sets attain the lower end"
    return found


def _upper_alone(lower: float | None, upper: float) -> dict[str, str]:
    """Return what is said of the interval where an upper end alone is proven."""
    if lower is not None:
        return {}
    return {"certified": f"at most {rounded_up(upper)}; this is proven by an independent checker"}


def section_of(proof: Proof) -> Section:
    """Return what the checker says, and the certificate."""
    lines = proof.lines
    rows = (
        ("checker", f"{proof.checker}, ball arithmetic, no code of hockeystick"),
        ("proven", "; ".join(line.strip() for line in lines[1:]) or lines[0]),
        ("certificate, SHA-256", proof.certificate.sha256),
    )
    words = (
        "A second program has proven the bounds below from the run alone, without code of the first one. "
        + COVERED
        if proof.verified
        else "A second program could NOT prove the bounds below. Do not rely on them."
    )
    text = proof.certificate.to_json()
    blocks: list[Block] = [
        Paragraph(words),
        Table((), rows),
        Attachment(FILE, text),
        Paragraph(
            f"The certificate. Store it as {FILE}, and check it with: "
            f"python -m hockeystick_verify {FILE}. {HASHED}"
        ),
        Code(text.rstrip("\n"), "json"),
    ]
    return Section(HEADING if proof.verified else FAILED, blocks)


def fields_of(proof: Proof | None) -> dict[str, Any] | None:
    """Return what the checker proved for programs; None if it was not asked."""
    if proof is None:
        return None
    return {
        "verified": proof.verified,
        "proven": [line.strip() for line in proof.lines],
        "covers": COVERED if proof.verified else "nothing: the checker could not prove the claims",
        "checker": proof.checker,
        "sha256": proof.certificate.sha256,
        "sha256_of": SERIALISED,
        "certificate": json.loads(proof.certificate.to_json()),
    }
