"""The test suites of other libraries that `make test-originals` runs with our names in place of theirs.

Nothing of those suites is kept here: `scripts/fetch_originals.py` gets them, in the versions that are stated
below, and checks what came.
"""

from __future__ import annotations

from dataclasses import dataclass, field

__all__ = ["SUITES", "Suite"]


@dataclass(frozen=True)
class Suite:
    """A library whose tests are run: where it comes from, what is replaced, and what its tests then do."""

    library: str
    version: str
    """Release on PyPI, or the full hash of a commit."""
    source: str
    """SHA-256 of the source distribution, or "owner/name" on GitHub."""
    code: str
    """Folder of the original's package, which is put on the path: parts of it are not replaced."""
    tests: tuple[str, ...]
    """Files and folders that pytest runs."""
    shim: str
    """Our module, whose public names take the place of the same names of..."""
    replaced: tuple[str, ...]
    """... these modules."""
    private: dict[str, str] = field(default_factory=dict)
    """Private names that the tests ask for, and what stands for them."""
    count: int = 0
    """Number of tests, with all parameters."""
    failing: dict[str, str] = field(default_factory=dict)
    """Tests that must fail, by a pattern of their name, with the reason."""
    skipped: dict[str, str] = field(default_factory=dict)
    """Tests that must skip themselves."""
    untouched: dict[str, str] = field(default_factory=dict)
    """Tests that never call our code: they are left out."""


SUITES: dict[str, Suite] = {
    "prv-accountant": Suite(
        library="prv_accountant",
        version="a95c4e2d41ff4886c3e4a84925edf878a6540e0a",  # v0.2.0
        source="microsoft/prv_accountant",
        code=".",
        tests=("tests",),
        shim="hockeystick.compat.prv_accountant",
        replaced=(
            "prv_accountant",
            "prv_accountant.accountant",
            "prv_accountant.dpsgd",
            "prv_accountant.privacy_random_variables",
        ),
        count=89,
        failing={
            "*::test_throw_error_small_delta": "it wants an error for a delta that is answered here",
            "test_dpsgd.py*::test_robustness": "it calls pytest.warns(None), which pytest 8 refuses",
        },
        skipped={"*::test_rdp": "it wants a module that TF Privacy no longer has"},
        untouched={
            "test_composer.py*": "convolutions of the original's grids",
            "test_domain.py*": "the original's grids",
            "*::test_safe_log": "a logarithm of the original's",
        },
    ),
    "autodp": Suite(
        library="autodp",
        version="06489ea485653909397937cf5e3c31d06a677ffe",
        source="yuxiangw/autodp",
        code=".",
        tests=(
            "test/unit_test_approxdp_to_fdp_conversion.py",
            "test/unit_test_calibrator.py",
            "test/unit_test_dp_sgd_poisson_sampling_add_remove.py",
            "test/unit_test_fdp_to_approxdp_conversion.py",
            "test/unit_test_sampling_pld.py",
        ),
        shim="hockeystick.compat.autodp",
        replaced=("autodp.mechanism_zoo", "autodp.transformer_zoo", "autodp.calibrator_zoo"),
        count=1564,
        failing={
            "unit_test_sampling_pld.py*": "they want characteristic functions, and fail with the "
            "original as well",
        },
    ),
    "riskcal": Suite(
        library="riskcal",
        version="1.5.1",
        source="340986f8fc28a4d74d428e1cf72b6fa064e7a24bf30c6697fadcefda8e8a7d02",
        code="src",
        tests=("tests",),
        shim="hockeystick.compat.riskcal",
        replaced=(
            "riskcal.analysis",
            "riskcal.analysis.conversions",
            "riskcal.calibration",
            "riskcal.calibration.dpsgd",
            "riskcal.accountants",
            "riskcal.accountants.ctd",
        ),
        count=91,
        failing={
            "test_backward_compatibility.py::test_find_noise_*_param_warns": "arguments that it deprecates",
        },
        untouched={
            "test_backward_compatibility.py::test_*_module_import_warns": "modules that it has deprecated",
            "test_backward_compatibility.py::test_*_from_pld_*": "functions of a grid, refused here",
            "test_backward_compatibility.py::test_calibration_*": "a search with a function, refused here",
            "test_blackbox.py::test_adv_calibration_correctness*": "a search with Opacus's accountants",
            "test_conversions.py::test_get_beta_symmetrized_*": "a function of a grid, refused here",
        },
    ),
    "tf-privacy": Suite(
        library="tensorflow-privacy",
        version="0.8.11",
        source="73163ad234a2a851219432e5442e747933c816350a88c8905f2a631b5ef4b128",
        code=".",
        tests=(
            "tensorflow_privacy/privacy/analysis/compute_dp_sgd_privacy_test.py",
            "tensorflow_privacy/privacy/analysis/compute_noise_from_budget_test.py",
        ),
        shim="hockeystick.compat.tf_privacy",
        replaced=(
            "tensorflow_privacy.privacy.analysis.compute_dp_sgd_privacy_lib",
            "tensorflow_privacy.privacy.analysis.compute_noise_from_budget_lib",
        ),
        private={
            "_compute_dp_sgd_example_privacy": "tf_privacy_names:example_privacy",
            "_compute_dp_sgd_user_privacy": "tf_privacy_names:user_privacy",
        },
        count=27,
        failing={
            "*::test_compute_dp_sgd_privacy_Test*": "a larger number of Rényi accounting, and its order",
            "*::test_compute_dp_sgd_example_privacy_*_subsampling": "a larger number of Rényi accounting",
            "*::test_user_privacy_epsilon_delta_consistency*": "a larger epsilon of users, by the "
            "epsilon of one example",
            "*::test_dp_sgd_privacy_statement_*": "the wording, and larger numbers of Rényi accounting",
        },
        skipped={"compute_noise_from_budget_test.py*": "the original skips them"},
    ),
}
"""By the name that `make test-originals SUITES=...` takes."""
