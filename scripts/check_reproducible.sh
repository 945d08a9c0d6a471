#!/bin/sh
# Builds the wheel from copies of the sources in two folders, each from nothing, and compares the bytes.
# usage: check_reproducible.sh PYTHON
set -eu

python=$1
top=$(pwd -P)
work=$top/target/reproducible
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}
export SOURCE_DATE_EPOCH
unset CARGO_TARGET_DIR

rm -rf "$work"
for copy in one two/further/down; do
    mkdir -p "$work/$copy"
    git ls-files -z --cached --others --exclude-standard | tar --null --files-from=- --create | tar -x -C "$work/$copy"
    (cd "$work/$copy" && sh scripts/build_wheel.sh "$python" dist)
done

first=$(sha256sum "$work"/one/dist/*.whl | cut -d ' ' -f 1)
second=$(sha256sum "$work"/two/further/down/dist/*.whl | cut -d ' ' -f 1)
echo "one:              $first"
echo "two/further/down: $second"
[ "$first" = "$second" ] || {
    echo "the wheel is not reproducible: compare the folders in $work" >&2
    exit 1
}
rm -rf "$work"
