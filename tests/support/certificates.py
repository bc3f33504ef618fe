"""Certificates for tests, made by openssl."""

import subprocess
from pathlib import Path

_ELLIPTIC = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")


def openssl(*words: str, directory: Path) -> None:
    subprocess.run(["openssl", *words], cwd=directory, check=True, capture_output=True)


def issue(directory: Path, authority: str, *names: str) -> None:
    """Make an authority, and certificates of it for this machine: `name.crt` and `name.key` each."""
    (directory / "names").write_text("subjectAltName=DNS:localhost,IP:127.0.0.1\n")
    openssl(
        *("req", "-x509", *_ELLIPTIC, "-days", "2", "-subj", f"/CN={authority}"),
        *("-keyout", f"{authority}.key", "-out", f"{authority}.crt"),
        directory=directory,
    )
    for name in names:
        openssl(
            *("req", *_ELLIPTIC, "-subj", f"/CN={name}", "-keyout", f"{name}.key", "-out", f"{name}.csr"),
            directory=directory,
        )
        openssl(
            *("x509", "-req", "-days", "2", "-in", f"{name}.csr", "-CA", f"{authority}.crt"),
            *("-CAkey", f"{authority}.key", "-CAcreateserial", "-extfile", "names", "-out", f"{name}.crt"),
            directory=directory,
        )
