"""What is built is what was locked, says what it is made of, and does not say where it was made."""

import re
import runpy
import tarfile
import zipfile
from pathlib import Path

import pytest

TOP = Path(__file__).parents[1]
CARGO = r"\bcargo (?:\S+ )?(?:build|test|clippy|doc|bench|check|publish|install|deny)\b.*"
BUILDS = re.compile(CARGO + r"|maturin (?:build|develop)\b.*")
COMMAND_FILES = ("Makefile", ".ci/run", *(f".github/workflows/{name}.yml" for name in ("ci", "wheels")))
SCRIPTS = tuple(f"scripts/{path.name}" for path in sorted((TOP / "scripts").glob("*.sh")))


def commands():
    for name in (*COMMAND_FILES, *SCRIPTS):
        for line in (TOP / name).read_text("utf-8").splitlines():
            found = BUILDS.search(line)
            if found and not line.lstrip().startswith("#") and "##" not in line:
                yield name, found[0]


def test_every_build_uses_the_locked_versions():
    found = list(commands())
    assert {name for name, _ in found} >= {"Makefile", ".github/workflows/ci.yml", "scripts/build_wheel.sh"}
    assert [(name, command) for name, command in found if "--locked" not in command] == []
    assert "\nlocked = true" in (TOP / "pyproject.toml").read_text("utf-8")


def test_the_same_advisories_are_excused_by_both_tools():
    excused = [
        set(re.findall(r"RUSTSEC-\d+-\d+", (TOP / name).read_text("utf-8")))
        for name in ("deny.toml", ".cargo/audit.toml")
    ]
    assert excused[0] == excused[1]


@pytest.fixture
def paths():
    return runpy.run_path(str(TOP / "scripts" / "check_paths.py"))


def wheel_with(folder, content):
    with zipfile.ZipFile(folder / "a.whl", "w") as archive:
        archive.writestr("hockeystick/__init__.py", b"import numpy")
        archive.writestr("hockeystick/_core.abi3.so", content)
    return folder / "a.whl"


def test_a_path_of_the_building_machine_in_a_wheel_is_found(paths, tmp_path, monkeypatch):
    monkeypatch.setenv("CARGO_HOME", "/somewhere/cargo")
    monkeypatch.setenv("CARGO_TARGET_DIR", "/somewhere/target")
    monkeypatch.setenv("LOGNAME", "ada")
    monkeypatch.chdir(tmp_path)
    private = paths["private_paths"]()
    assert (
        paths["found_in"](wheel_with(tmp_path, b"\0/hockeystick/src/lib.rs\0/cargo/registry"), private) == []
    )
    for path in (
        tmp_path,
        Path.home() / "a.rs",
        "/somewhere/cargo/a.rs",
        "/somewhere/target/a",
        "/mnt/ada/a",
    ):
        found = paths["found_in"](wheel_with(tmp_path, b"\0\xff" + str(path).encode() + b"\0"), private)
        assert found[0].startswith("hockeystick/_core.abi3.so has the ")


def test_a_file_that_a_source_distribution_lacks_is_found(tmp_path):
    check = runpy.run_path(str(TOP / "scripts" / "check_sdist.py"))
    needed = {"src/lib.rs", "src/a b.txt", "python/hockeystick/__init__.py", *check["READ_BY_TOOLS"]}
    listed = f"{tmp_path}/target/a.so: {tmp_path}/src/lib.rs {tmp_path}/src/a\\ b.txt /elsewhere/other.rs"
    wheel = wheel_with(tmp_path, b"")

    def sdist_without(name):
        with tarfile.open(tmp_path / "a.tar.gz", "w:gz") as archive:
            for each in needed - {name}:
                archive.addfile(tarfile.TarInfo(f"hockeystick-9.9/{each}"))
        return tmp_path / "a.tar.gz"

    assert check["missing"](listed, sdist_without(None), wheel, tmp_path) == []
    for name in needed:
        assert check["missing"](listed, sdist_without(name), wheel, tmp_path) == [name]
    with pytest.raises(ValueError, match="names no source"):
        check["missing"](listed, sdist_without(None), wheel, tmp_path / "other")


def test_the_bill_of_materials_has_what_is_shipped_with_its_hash_and_nothing_else():
    sbom = runpy.run_path(str(TOP / "scripts" / "sbom.py"))

    def package(name, version, licence="MIT/Apache-2.0"):
        return {"id": name, "name": name, "version": version, "license": licence}

    def needs(name, **others):
        deps = [{"pkg": other, "dep_kinds": [{"kind": kind}]} for other, kind in others.items()]
        return {"id": name, "deps": deps}

    metadata = {
        "packages": [
            package("hockeystick", "9.9"),
            package("libm", "0.2"),
            package("autocfg", "1.5"),
            package("proptest", "1"),
        ],
        "resolve": {
            "root": "hockeystick",
            "nodes": [
                needs("hockeystick", libm=None, proptest="dev"),
                needs("libm", autocfg="build"),
                needs("autocfg"),
                needs("proptest"),
            ],
        },
    }
    lock = f'[[package]]\nname = "libm"\nversion = "0.2"\nsource = "registry"\nchecksum = "{"ab" * 32}"\n'
    bill = sbom["bill"](metadata, lock, (TOP / "pyproject.toml").read_text("utf-8"))
    parts = {part["bom-ref"]: part for part in bill["components"]}
    assert list(parts) == ["pkg:cargo/autocfg@1.5", "pkg:cargo/libm@0.2", "pkg:pypi/numpy"]
    assert parts["pkg:cargo/libm@0.2"]["hashes"] == [{"alg": "SHA-256", "content": "ab" * 32}]
    assert parts["pkg:cargo/libm@0.2"]["licenses"] == [{"expression": "MIT OR Apache-2.0"}]
    assert parts["pkg:pypi/numpy"]["description"] == "required: numpy>=1.24"
    assert bill["metadata"]["component"]["purl"] == "pkg:pypi/hockeystick@9.9"
    assert {
        "ref": "pkg:cargo/hockeystick@9.9",
        "dependsOn": ["pkg:cargo/libm@0.2", "pkg:pypi/numpy"],
    } in bill["dependencies"]


def test_every_locked_crate_from_a_registry_has_a_checksum_that_is_found():
    lock = (TOP / "Cargo.lock").read_text("utf-8")
    sbom = runpy.run_path(str(TOP / "scripts" / "sbom.py"))
    assert len(sbom["CHECKSUM"].findall(lock)) == lock.count("\nsource = ")
