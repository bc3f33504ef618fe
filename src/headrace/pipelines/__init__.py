"""Jobs on streams, each a function of a SparkSession and plain arguments, and a command of `headrace pipeline`.

    load.load_files                  CSV, JSON lines, Parquet ─► streams
    archive.archive_streams          streams ─► Parquet by key and date, exactly once; then trimmed, where wanted
    compaction.compact_archive       small files of an archive ─► large ones
    replay.replay_archive            archive ─► streams, IDs kept, at a chosen speed
    transform.transform_streams      SQL over streams ─► streams or files
    audit.audit_archive              streams against archive: every entry that only one of them has
    report.report.report_streams     one HTML page about streams and their groups

    session.spark_session            a quiet SparkSession, where the caller has none
    files                            the files of an archive that count
    positions                        where an archive ends, as JSON for the option `startingId`

Every function raises `errors.PipelineError`, or another HeadraceError, with one sentence.
"""

from headrace.pipelines.archive_positions import files, positions

__all__ = ["files", "positions"]
