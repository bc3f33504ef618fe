#!/usr/bin/env bash
# Brings Debian's chromium, in which the tests look at the console, where this machine lets us: as root, with apt. Playwright
# drives it and downloads no browser of its own. Never fails the set-up.
set -u
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    export DEBIAN_FRONTEND=noninteractive
    if { apt-get update -qq && apt-get install -y -qq --no-install-recommends chromium fonts-dejavu-core; } >/dev/null 2>&1; then
        echo "installed chromium"
        exit 0
    fi
    why="apt could not install it"
else
    why="only root can install it with apt"
fi
echo "chromium is missing and $why: the tests that need a browser will be skipped."
