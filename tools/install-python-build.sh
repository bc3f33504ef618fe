#!/usr/bin/env bash
# Checks that a Python can make a virtual environment and compile modules, and brings what Debian packs apart: as root,
# with apt, for Debian's own Python. Fails the set-up with a sentence that says what to install.
set -u
python=$1
missing() {
    "$python" -c 'import ensurepip, venv' 2>/dev/null || echo "python3-venv"
    "$python" -c 'import os, sysconfig, sys; sys.exit(not os.path.exists(sysconfig.get_path("include") + "/Python.h"))' ||
        echo "python3-dev"
    command -v gcc >/dev/null || echo "gcc"
}
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' ||
    { echo "Headrace needs Python 3.11 or later, and $python is another: name one with make PYTHON=…" >&2; exit 1; }
packages=$(missing | tr '\n' ' ')
[ -z "$packages" ] && exit 0
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    export DEBIAN_FRONTEND=noninteractive
    # shellcheck disable=SC2086
    { apt-get update -qq && apt-get install -y -qq --no-install-recommends $packages; } >/dev/null 2>&1
    packages=$(missing | tr '\n' ' ')
    [ -z "$packages" ] && exit 0
fi
echo "To build Headrace with $("$python" -c 'import sys; print(sys.executable)'), install: $packages(apt-get install $packages)" >&2
exit 1
