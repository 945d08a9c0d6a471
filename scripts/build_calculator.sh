#!/bin/sh
# Compiles the core for the calculator in the documentation, to WebAssembly, and writes docs/calculator/engine.js.
#
# rustup's target wasm32-unknown-unknown is used where there is one or where rustup can add it. Elsewhere Debian's compiler of
# the packages rustc-web, cargo-web and rust-web-src builds the standard library too, and lld's wasm-ld links.
set -eu
cd "$(dirname "$0")/.."
top=$PWD
target=wasm32-unknown-unknown
export CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-$top/target}/calculator"
# Vectors of two numbers, which browsers have had since 2021; the flags of `make` are kept.
separator=$(printf '\037')
export CARGO_ENCODED_RUSTFLAGS="${CARGO_ENCODED_RUSTFLAGS:+$CARGO_ENCODED_RUSTFLAGS$separator}-Ctarget-feature=+simd128"
cd calculator

# has_target RUSTC: whether the compiler has a standard library for the target
has_target() {
    [ -d "$("$1" --print sysroot)/lib/rustlib/$target/lib" ]
}

if ! has_target rustc && command -v rustup > /dev/null; then
    rustup target add "$target" || true
fi
if has_target rustc; then
    cargo build --release --locked --lib --target "$target"
elif [ -x /usr/bin/rustc ] && [ -d "$(/usr/bin/rustc --print sysroot)/lib/rustlib/src/rust/library" ] && command -v wasm-ld > /dev/null; then
    RUSTC=/usr/bin/rustc RUSTC_BOOTSTRAP=1 CARGO_TARGET_WASM32_UNKNOWN_UNKNOWN_LINKER=wasm-ld \
        /usr/bin/cargo build --release --locked --lib --target "$target" -Z build-std=std,panic_abort
else
    echo "no compiler for $target: run 'rustup target add $target', or install Debian's packages rustc-web, cargo-web," >&2
    echo "rust-web-src and lld" >&2
    exit 1
fi
python=${PYTHON:-python3}
"$python" "$top/scripts/calculator_engine.py" "$CARGO_TARGET_DIR/$target/release/hockeystick_calculator.wasm" \
    "$top/docs/calculator/engine.js"
