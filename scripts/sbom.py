"""Write the software bill of materials of the wheel, as CycloneDX JSON: crates with their hashes, and NumPy.

The same sources give the same file: there is no time in it.

usage: sbom.py FILE
"""

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

TOP = Path(__file__).parents[1]
REQUIREMENT = re.compile(r'^dependencies = \["(.*)"\]$', re.MULTILINE)
CHECKSUM = re.compile(r'name = "(.+)"\nversion = "(.+)"\nsource = ".+"\nchecksum = "([0-9a-f]{64})"')


def shipped(metadata: dict[str, Any]) -> dict[str, list[str]]:
    """Return the packages that are compiled into the wheel or for its build, with what each one needs."""
    nodes = {node["id"]: node for node in metadata["resolve"]["nodes"]}
    found: dict[str, list[str]] = {}
    waiting = [metadata["resolve"]["root"]]
    while waiting:
        package = waiting.pop()
        if package in found:
            continue
        needs = [
            dependency["pkg"]
            for dependency in nodes[package]["deps"]
            if any(kind["kind"] != "dev" for kind in dependency["dep_kinds"])
        ]
        found[package] = needs
        waiting += needs
    return found


def component(package: dict[str, Any], checksums: dict[tuple[str, str], str]) -> dict[str, Any]:
    """Return what is known of a crate."""
    name, version = package["name"], package["version"]
    found = {
        "type": "library",
        "bom-ref": reference(package),
        "name": name,
        "version": version,
        "licenses": [{"expression": package["license"].replace(" / ", " OR ").replace("/", " OR ")}],
        "purl": reference(package),
    }
    if (name, version) in checksums:
        found["hashes"] = [{"alg": "SHA-256", "content": checksums[name, version]}]
    return found


def reference(package: dict[str, Any]) -> str:
    """Return the package URL of a crate."""
    return f"pkg:cargo/{package['name']}@{package['version']}"


def bill(metadata: dict[str, Any], lock: str, pyproject: str) -> dict[str, Any]:
    """Return the bill of materials."""
    packages = {package["id"]: package for package in metadata["packages"]}
    checksums = {(name, version): content for name, version, content in CHECKSUM.findall(lock)}
    needs = shipped(metadata)
    root = packages[metadata["resolve"]["root"]]
    requirements = [
        requirement for found in REQUIREMENT.findall(pyproject) for requirement in found.split('", "')
    ]
    python = [
        {
            "type": "library",
            "bom-ref": f"pkg:pypi/{name}",
            "name": name,
            "purl": f"pkg:pypi/{name}",
            "description": f"required: {requirement}",
        }
        for requirement in requirements
        for name in re.findall(r"^[A-Za-z0-9._-]+", requirement)
    ]
    wheel = {**component(root, {}), "purl": f"pkg:pypi/{root['name']}@{root['version']}"}
    crates = [component(packages[package], checksums) for package in needs if packages[package] is not root]
    dependencies = {
        reference(packages[package]): sorted(reference(packages[other]) for other in others)
        for package, others in needs.items()
    }
    dependencies[reference(root)] += [part["bom-ref"] for part in python]
    return {
        "$schema": "http://cyclonedx.org/schema/bom-1.5.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {"component": wheel},
        "components": sorted([*crates, *python], key=lambda part: part["bom-ref"]),
        "dependencies": [{"ref": ref, "dependsOn": others} for ref, others in sorted(dependencies.items())],
    }


def cargo_metadata() -> dict[str, Any]:
    """Return what cargo knows of this crate and what it needs."""
    command = ["cargo", "metadata", "--locked", "--format-version", "1", "--features", "python"]
    found = subprocess.run(command, cwd=TOP, check=True, capture_output=True, text=True)
    metadata: dict[str, Any] = json.loads(found.stdout)
    return metadata


if __name__ == "__main__":
    made = bill(cargo_metadata(), (TOP / "Cargo.lock").read_text(), (TOP / "pyproject.toml").read_text())
    Path(sys.argv[1]).write_text(json.dumps(made, indent=2) + "\n")
    print(f"{sys.argv[1]}: {len(made['components'])} components")
