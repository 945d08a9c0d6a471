#!/bin/sh
# Installs the wheel in dist/ where nothing else is, and checks that it works with NumPy alone, imports quickly and is small.
# usage: check_wheel.sh PYTHON
set -eu

python=$1
bare=target/wheel-venv
wheel=$(ls dist/hockeystick-*-abi3-*.whl)

"$python" -m venv --clear "$bare"
"$bare/bin/python" -m pip install --quiet "$wheel"
installed=$("$bare/bin/python" -m pip list --format freeze --exclude pip --exclude setuptools | cut -d = -f 1 | sort | xargs)
[ "$installed" = "hockeystick numpy" ] || {
    echo "the wheel should bring NumPy and nothing else, but brought: $installed" >&2
    exit 1
}
"$bare/bin/python" -c '
import hockeystick as hs
print("epsilon from the wheel:", hs.get_epsilon(delta=1e-5, noise_multiplier=1.0, sample_rate=0.01, steps=1000))'
"$bare/bin/python" benches/compare/import_cost.py --wheel "$wheel" --limit-ms 60 --limit-mb 5
