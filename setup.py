"""The compiled modules: every .pyx under src/headrace is an extension of the same name."""

import os
import sys
from pathlib import Path

from Cython.Build import cythonize
from setuptools import Extension, setup

if sys.byteorder != "little":
    sys.exit("headrace stores listpacks in their little-endian form and needs a little-endian machine")

SANITIZE = os.environ.get("HEADRACE_SANITIZE") == "1"
TRACE = (
    os.environ.get("HEADRACE_TRACE") == "1"
)  # lines, for `make coverage`, which needs the C files beside the sources
OPTIMISED = ["-O3", "-g0", "-fno-plt", "-fno-semantic-interposition"]
# Python's own flags have -fwrapv, which would hide signed overflow.
SANITIZED = ["-O1", "-g", "-fno-wrapv", "-fno-omit-frame-pointer"]
SANITIZED += ["-fsanitize=address,undefined", "-fno-sanitize-recover=undefined"]


def tracing(source: Path) -> list[tuple[str, str | None]]:
    """Define what lets a module report its lines; a tracer needs the interpreter's lock for each."""
    if not TRACE:
        return []
    # The worker has a lock of its own while the event loop, with the interpreter's lock, waits for it. A line reported
    # in between would wait for the event loop, and both for ever.
    without_gil = [] if source.name == "worker.pyx" else [("CYTHON_TRACE_NOGIL", "1")]
    return [("CYTHON_TRACE", "1"), *without_gil]


def extension(source: Path) -> Extension:
    return Extension(
        ".".join(source.relative_to("src").with_suffix("").parts),
        [source.as_posix()],
        extra_compile_args=["-Wno-sign-compare", *(["-O0", "-g0"] if TRACE else SANITIZED if SANITIZE else OPTIMISED)],
        define_macros=tracing(source),
        extra_link_args=["-fsanitize=address,undefined"] if SANITIZE else [],
    )


setup(
    ext_modules=cythonize(
        [extension(source) for source in sorted(Path("src/headrace").rglob("*.pyx"))],
        build_dir=None if TRACE else "build/cython-sanitized" if SANITIZE else "build/cython",
        include_path=["src"],
        nthreads=os.cpu_count() or 1,
        compiler_directives={
            "language_level": "3",
            "boundscheck": False,
            "wraparound": False,
            "initializedcheck": False,
            "cdivision": True,
            "embedsignature": True,
            "embedsignature.format": "python",
            "linetrace": TRACE,
        },
    ),
)
