"""A manifest that was lost or damaged: how that is noticed, and how the names of the files replace it.

The numbers of bases and of increments are counted apart, so names alone do not say which increments a base already
contains. But a rewrite removes those at once; the increments that are there are those that count. The base itself says
which segments it refers to.
"""

from contextlib import suppress

from headrace.formats.errors import CorruptPayload
from headrace.storage.directory import DataDirectory
from headrace.storage.errors import BadManifest
from headrace.storage.manifest import Kind, Manifest, ManifestFile, parse, segment_files
from headrace.storage.segments.names import named_by


def left_out(directory: DataDirectory, manifest: Manifest) -> ManifestFile | None:
    """Find a file that a sound manifest would name, and this one does not.

    Files that rewrites leave behind are older than those that count, or empty, or a base that was not published.
    """
    oldest = manifest.increments[0].sequence if manifest.increments else 0
    counted = {file.name for file in manifest.loaded}
    for file in directory.append_files():
        if file.name in counted:
            continue
        if file.kind is Kind.BASE:
            missed = manifest.base is None
        else:
            missed = file.sequence >= oldest and directory.disk.size(directory.located(file)) > 0
        if missed:
            return file
    return None


def _segments_of(directory: DataDirectory, base: ManifestFile | None, said: list[int]) -> tuple[ManifestFile, ...]:
    """Name the segments that a base says it refers to; where it cannot be read, those that were said."""
    with suppress(CorruptPayload, OSError):
        return segment_files(named_by(directory.disk, directory.located(base)) if base is not None else ())
    return segment_files(said)


def rebuild(directory: DataDirectory, content: bytes) -> Manifest:
    """Make a manifest of the lines that can still be read, and of the names of the files."""
    said: dict[str, ManifestFile] = {}
    for line in content.splitlines(keepends=True):
        try:
            said |= {file.name: file for file in parse(line).files}
        except BadManifest:
            continue
    found = {file.name: said.get(file.name, file) for file in directory.append_files()}
    found |= {name: file for name, file in said.items() if directory.disk.exists(directory.located(file))}
    bases = [file for file in found.values() if file.kind is Kind.BASE]
    increments = {file.sequence: file for file in found.values() if file.kind is Kind.INCREMENT}
    base = max(bases, key=lambda file: file.sequence, default=None)
    manifest = Manifest(
        base,
        (),
        tuple(increments[sequence] for sequence in sorted(increments)),
        _segments_of(directory, base, [file.sequence for file in said.values() if file.kind is Kind.SEGMENT]),
    )
    if left_out(directory, manifest) is None:
        return manifest
    # What the damaged one says contradicts the files: then only their names count.
    return rebuild(directory, b"") if said else manifest
