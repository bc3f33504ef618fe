"""Headrace in figures: `make bench` measures everything and writes docs/benchmarks.md.

    python -m bench                 every section, then the page
    python -m bench append groups   these sections, on the screen and in build/bench/
    python -m bench page            the page again, from the figures that it was made of
    python -m bench quick           one line a workload, against its floor

The load generator, the workloads and the charts are those of `headrace bench`: see src/headrace/measuring.
"""
