#!/bin/sh
# Prints CARGO_ENCODED_RUSTFLAGS for builds that may leave this machine: no path of it gets into them.
# usage: release_flags.sh, in the checkout
set -eu

# FROM TO: one flag, and the sign that ends it
remap() {
    printf '%s--remap-path-prefix=%s=%s' "$separator" "$1" "$2"
    separator=$(printf '\037')
}

separator=
checkout=$(pwd -P)
remap "$HOME" /home
remap "$checkout" /hockeystick
remap "${CARGO_TARGET_DIR:-$checkout/target}" /target
remap "${CARGO_HOME:-$HOME/.cargo}" /cargo
remap "$(rustc --print sysroot)" /rust
# Where maturin-action builds in a container.
remap /root/.cargo /cargo
# What is asked for besides: the encoded flags stand in its place.
for flag in ${RUSTFLAGS:-}; do
    printf '%s%s' "$separator" "$flag"
done
