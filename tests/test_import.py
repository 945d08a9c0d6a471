"""What an import costs and exports."""

import json
import subprocess
import sys
from importlib.metadata import version

import hockeystick as hs


def test_import_loads_nothing_heavy():
    code = """
import json, sys
import hockeystick
print(json.dumps(sorted(name.partition(".")[0] for name in sys.modules)))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    extras = {"click", "dp_accounting", "matplotlib", "opacus", "opendp", "torch"}
    heavy = extras | {"mpmath", "pandas", "scipy", "sklearn", "tqdm"}
    assert heavy.isdisjoint(json.loads(done.stdout))


def test_a_first_epsilon_loads_nothing_that_makes_certificates():
    code = """
import json, sys
import hockeystick as hs
hs.get_epsilon(delta=1e-5, noise_multiplier=1.0, sample_rate=0.01, steps=10)
print(json.dumps([name for name in sys.modules if "certifying" in name or "witness" in name]))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == []


def test_every_exported_name_exists():
    for module in (hs, hs.kernels, hs.accountants, hs.plot, hs.release, hs.training):
        assert all(hasattr(module, name) for name in module.__all__)


def test_the_version_is_that_of_the_installed_package():
    assert hs.__version__ == version("hockeystick")
