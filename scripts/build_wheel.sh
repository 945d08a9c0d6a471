#!/bin/sh
# Builds the wheel, or what the options say, so that the same sources and tools give the same bytes in any folder.
# usage: build_wheel.sh PYTHON FOLDER [OPTION OF MATURIN...]
set -eu

python=$1
folder=$2
shift 2

# The moment of the last commit; without one, the first that a zip file can have.
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || echo 315532800)}
CARGO_ENCODED_RUSTFLAGS=$(sh scripts/release_flags.sh)
CARGO_INCREMENTAL=0
export SOURCE_DATE_EPOCH CARGO_ENCODED_RUSTFLAGS CARGO_INCREMENTAL

exec "$python" -m maturin build --release --locked --out "$folder" "$@"
