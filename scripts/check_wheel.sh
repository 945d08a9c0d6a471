#!/bin/sh
# Installs what is in dist/ where nothing else is. The wheel: it names no path of this machine, works with NumPy alone, names
# the extras it misses, imports few modules, is small, and passes the quick tests.
# The source distribution: it has every file that the wheel was made of.
# usage: check_wheel.sh PYTHON, which has the packages of the tests
set -eu

python=$1
wheel=$(ls dist/hockeystick-*-abi3-*.whl)
"$python" scripts/check_paths.py "$wheel"
"$python" scripts/check_sdist.py target/release/libhockeystick.d dist/hockeystick-*.tar.gz "$wheel"

# ENVIRONMENT, REQUIREMENT...: an environment with nothing but that
environment() {
    name=$1
    shift
    "$python" -m venv --clear "target/$name"
    "target/$name/bin/python" -m pip install --quiet "$@"
}

# ENVIRONMENT: one number, from the package that is installed there
one_number() {
    "target/$1/bin/python" -c '
import pathlib, sys
import hockeystick as hs
assert pathlib.Path(sys.prefix) in pathlib.Path(hs.__file__).parents, hs.__file__
print("epsilon:", hs.get_epsilon(delta=1e-5, noise_multiplier=1.0, sample_rate=0.01, steps=1000))'
}

environment wheel-venv "$wheel"
bare=target/wheel-venv/bin/python
installed=$("$bare" -m pip list --format freeze --exclude pip --exclude setuptools | cut -d = -f 1 | sort | xargs)
[ "$installed" = "hockeystick numpy" ] || {
    echo "the wheel should bring NumPy and nothing else, but brought: $installed" >&2
    exit 1
}
one_number wheel-venv
"$bare" scripts/check_extras.py
"$bare" benches/compare/import_cost.py --wheel "$wheel" --limit-modules 120 --limit-mb 5

# The tests need packages that PYTHON has. The folder comes after the environment's own, and what is installed from a path, as this package is there, is not in it.
packages=$("$python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
echo "$packages" > "$("$bare" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/packages-of-the-tests.pth"
one_number wheel-venv
"$bare" -m pytest --quiet -p no:cacheprovider -m 'not slow and not long and not opacus' @scripts/quick_tests.txt
