#!/bin/sh
# Stops, and says what to install, unless this machine has what the build needs:
# a Python of at least 3.10 with its venv module, and a Rust toolchain new enough for Cargo.toml.
# usage: check_tools.sh PYTHON

python=$1
rust_wanted=$(sed -n 's/^rust-version = "\(.*\)"/\1/p' Cargo.toml)

stop() {
    echo "hockeystick: $1" >&2
    exit 1
}

cargo_version=$(cargo --version 2>/dev/null) ||
    stop "no Rust toolchain found. Install Rust $rust_wanted or newer (https://rustup.rs), so that 'cargo' is on the PATH."
rust_found=$(echo "$cargo_version" | cut -d ' ' -f 2)
[ "$(printf '%s\n%s\n' "$rust_wanted" "$rust_found" | sort -V | head -n 1)" = "$rust_wanted" ] ||
    stop "cargo is version $rust_found. Install Rust $rust_wanted or newer (https://rustup.rs)."

"$python" -c '' 2>/dev/null ||
    stop "'$python' does not run. Install CPython 3.10 or newer, or name one: make PYTHON=python3.12 ..."
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 10))' ||
    stop "'$python' is $("$python" --version 2>&1). Install CPython 3.10 or newer, or name one: make PYTHON=python3.12 ..."
"$python" -c 'import ensurepip, venv' 2>/dev/null ||
    stop "'$python' has no venv module. Install it (on Debian and Ubuntu: apt install python3-venv)."
