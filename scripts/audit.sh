#!/bin/sh
# Asks the advisory databases about what this project depends on, with the tools that are installed.
# usage: audit.sh PYTHON [--all]    with --all, a missing tool is a failure
set -eu

python=$1
missing=0
failed=0

# COMMAND-TO-TRY INSTALL COMMAND...: run the command where its tool is installed
audit() {
    try=$1
    install=$2
    shift 2
    if sh -c "$try" > /dev/null 2>&1; then
        echo "== $*"
        "$@" || failed=1
    else
        echo "== not run: $* (to install: $install)"
        missing=1
    fi
}

audit "cargo deny --version" "cargo install --locked cargo-deny" cargo deny --locked check
audit "cargo audit --version" "cargo install --locked cargo-audit" cargo audit
audit "'$python' -m pip_audit --version" "$python -m pip install pip-audit" "$python" -m pip_audit --strict .

[ "$failed" = 0 ] || exit 1
[ "$missing" = 0 ] || [ "${2:-}" != --all ]
