"""The JSON schema of certificates, for tests."""

import json
from pathlib import Path

from jsonschema import Draft202012Validator
from jsonschema.exceptions import best_match

SCHEMA = json.loads((Path(__file__).parents[1] / "docs" / "certificate.schema.json").read_text())
VALIDATOR = Draft202012Validator(SCHEMA)


def fault(document):
    """What is wrong with a certificate, and where; None if it follows the schema."""
    found = best_match(VALIDATOR.iter_errors(document))
    return found and f"{list(found.absolute_path)}: {found.message[:300]}"
