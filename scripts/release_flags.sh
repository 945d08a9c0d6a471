#!/bin/sh
# Prints CARGO_ENCODED_RUSTFLAGS for builds that may leave this machine: no path of it gets into them.
# The checkout itself is not among them: cargo names files of it from its root, and flags are part of what symbols are named
# after, so that they must not depend on the folder if builds are to be reproducible.
# usage: release_flags.sh
set -eu

# FROM TO: one flag, and the sign that ends it
remap() {
    printf '%s--remap-path-prefix=%s=%s' "$separator" "$1" "$2"
    separator=$(printf '\037')
}

separator=
remap "$HOME" /home
remap "${CARGO_HOME:-$HOME/.cargo}" /cargo
remap "$(rustc --print sysroot)" /rust
# Where maturin-action builds in a container.
remap /root/.cargo /cargo
# What is asked for besides: the encoded flags stand in its place.
for flag in ${RUSTFLAGS:-}; do
    printf '%s%s' "$separator" "$flag"
done
