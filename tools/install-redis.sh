#!/usr/bin/env bash
# Brings Debian's redis-server, the oracle of the tests, where this machine lets us: as root, with apt; redis-sentinel, which
# fails over in the tests; and valkey-server, where the distribution has one (Debian 13, Ubuntu 24.10), for the tests that read
# and write it. They are only ever started by the tests, on ports and directories of their own: the services that come
# with redis-sentinel and valkey-server are switched off. Never fails the set-up.
set -u
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    export DEBIAN_FRONTEND=noninteractive
    if { apt-get update -qq && apt-get install -y -qq --no-install-recommends redis-server redis-tools; } >/dev/null 2>&1; then
        echo "installed $(redis-server --version | cut -d' ' -f1-3)"
        if ! command -v redis-sentinel >/dev/null && apt-get install -y -qq --no-install-recommends redis-sentinel >/dev/null 2>&1; then
            systemctl disable --now redis-sentinel >/dev/null 2>&1
            echo "installed redis-sentinel"
        fi
        if ! command -v valkey-server >/dev/null && apt-get install -y -qq --no-install-recommends valkey-server >/dev/null 2>&1; then
            systemctl disable --now valkey-server >/dev/null 2>&1
            echo "installed $(valkey-server --version | cut -d' ' -f1-3)"
        fi
        exit 0
    fi
    why="apt could not install it"
else
    why="only root can install it with apt"
fi
echo "redis-server or redis-sentinel is missing and $why: the tests that need it will be skipped."
