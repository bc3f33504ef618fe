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


def extension(source: Path) -> Extension:
    return Extension(
        ".".join(source.relative_to("src").with_suffix("").parts),
        [source.as_posix()],
        extra_compile_args=["-Wno-sign-compare", *(["-O0", "-g0"] if TRACE else SANITIZED if SANITIZE else OPTIMISED)],
        define_macros=[("CYTHON_TRACE", "1"), ("CYTHON_TRACE_NOGIL", "1")] if TRACE else [],
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
