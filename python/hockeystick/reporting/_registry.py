"""An entry for the public registry of deployments, with its fields as far as they are known.

The registry's schema (registry.opendp.org, "deployment" of July 2026) follows Nanayakkara, Ghazi and Vadhan
2025, "Practitioners' Perspectives on a Differential Privacy Deployment Registry", arXiv:2509.13509.
"""

from __future__ import annotations

import math
from datetime import date
from typing import Any

from hockeystick._core import __version__
from hockeystick._guarantees.wording import RELATIONS
from hockeystick.reporting._contents import TITLE, Facts, Question

SOURCE = "https://registry.opendp.org, after arXiv:2509.13509"

PRODUCTS = (
    "Summary statistics",
    "Machine learning model",
    "Dataset",
    "Synthetic data",
    "Interactive API",
    "SQL queries",
)
SECTORS = ("Technology", "Healthcare", "Education", "Government", "Energy", "Finance")
MODELS = ("Local", "Central", "Shuffle", "Federated", "Varies")
FIELDS: dict[str, dict[str, tuple[str, ...]]] = {
    "basic": {
        "name": (), "data_curators": (), "intended_use": (), "data_product_type": PRODUCTS,
        "data_product_region": (), "description": (), "publication_date": (), "data_product_sector": SECTORS,
    },
    "dp_variant": {"variant_name": (), "data_domain": (), "unprotected_quantities": ()},
    "privacy_loss": {
        "privacy_unit": (), "privacy_unit_details": (), "privacy_parameters": (),
        "privacy_parameters_details": (),
    },
    "deployment_model": {
        "model_name": MODELS, "model_name_details": (), "actors": (),
        "release_type": ("One release", "Many releases"), "release_type_details": (),
        "data_source_type": ("Static", "Dynamic"), "data_source_type_details": (),
        "access_type": ("Interactive", "Non-interactive"), "access_type_details": (),
    },
    "accounting": {"post_processing": (), "composition": ()},
    "implementation": {
        "preprocessing_and_hyperparameter_tuning": (), "mechanisms": (), "justification": (),
    },
    "administrative": {"sources": (), "notes": (), "registry_authors": ()},
}  # fmt: skip
"""The registry's fields, and the values that a field may have where it is not a text."""
LISTS = ("data_curators", "registry_authors")


def entry_of(question: Question, facts: Facts) -> dict[str, Any]:
    """Return the fields that the report or `details` fills, and those that are missing, with their values.

    A value that the registry does not allow counts as missing.
    """
    known, found, missing = _known(question, facts), {}, {}
    for part, fields in FIELDS.items():
        filled = {}
        for name, allowed in fields.items():
            value = known.get(name, question.details.get(name))
            if value is None or (allowed and value not in allowed) or not _is_a_date(name, value):
                missing[f"{part}/{name}"] = list(allowed) or None
            else:
                filled[name] = [value] if name in LISTS else value
        if filled:
            found[part] = filled
    return {"source": SOURCE, "deployment": found, "missing": missing}


def _is_a_date(name: str, value: object) -> bool:
    """Whether a field that is no date, or a date in the form YYYY-MM-DD."""
    if name != "publication_date":
        return True
    try:
        return date.fromisoformat(str(value)).isoformat() == value
    except ValueError:
        return False


def _known(question: Question, facts: Facts) -> dict[str, Any]:
    """Return what the report itself can say."""
    guarantee, details, words = question.guarantee, question.details, facts.assumptions
    parameters = {"epsilon": facts.upper, "delta": question.delta}
    found: dict[str, Any] = {
        "variant_name": "Approximate DP",
        "privacy_unit": facts.unit,
        "privacy_parameters": {key: value for key, value in parameters.items() if math.isfinite(value)},
        "privacy_parameters_details": facts.statement,
    }
    if guarantee.run is not None:
        found["privacy_unit_details"] = f"between adjacent data sets {RELATIONS[guarantee.run.adjacency]}"
        found["composition"] = (
            f"{guarantee.run.steps} steps, composed adaptively; {words.get('status', '')}".rstrip("; ")
        )
        found["mechanisms"] = (
            f"{words.get('mechanism')}; batches: {words.get('sampling')}; accounted for by hockeystick "
            f"{__version__}"
        )
    name = question.form.get("model") or (question.title if question.title != TITLE else None)
    trust = details.get("trust")
    tuning = [details.get(each) for each in ("preprocessing_is_public", "tuning_is_counted")]
    optional = {
        "name": name,
        "model_name": trust.capitalize() if trust else None,
        "model_name_details": trust if trust and trust.capitalize() not in MODELS else None,
        "preprocessing_and_hyperparameter_tuning": "; ".join(each for each in tuning if each) or None,
    }
    # What `details` has under the registry's own name comes first.
    return found | {key: value for key, value in optional.items() if value and key not in details}
