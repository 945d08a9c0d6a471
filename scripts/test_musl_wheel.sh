#!/bin/sh
# The wheel in dist/, installed and tried in a container of Alpine, where the C library is musl.
set -eu
python -m pip install --no-index --find-links dist --no-deps hockeystick
python -m pip install "numpy>=1.24"
python scripts/check_extras.py
python -m pip install hypothesis mpmath pytest scipy
python -m pytest -m "not slow and not opacus" @scripts/quick_tests.txt
