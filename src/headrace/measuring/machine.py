"""What figures depend on besides the code: the machine and the versions. Nothing here identifies the machine."""

from __future__ import annotations

import os
import platform
import re
from importlib import metadata
from pathlib import Path

import headrace


def cpu_model() -> str:
    """Name the processor as the kernel does."""
    found = re.search(r"^model name\s*:\s*(.+)$", Path("/proc/cpuinfo").read_text("utf-8"), re.MULTILINE)
    return found[1] if found else platform.machine()


def machine() -> dict[str, str]:
    """Describe the machine."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {
        "CPU": cpu_model(),
        "cores": str(len(os.sched_getaffinity(0))),
        "memory": f"{memory / 2**30:.1f} GiB",
        "kernel": f"{platform.system()} {platform.release().split('-')[0]}",
        "Python": f"{platform.python_implementation()} {platform.python_version()}",
        "load at start": f"{os.getloadavg()[0]:.1f}",
    }


def versions(*packages: str) -> dict[str, str]:
    """Return the versions of Headrace and of the packages that are installed."""
    found = {"Headrace": headrace.__version__}
    for package in packages:
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return found
