"""Measuring stream servers: a load generator, workloads, rounds that alternate, and charts of what was found.

    targets ──► rounds ──► workloads ──► load (compiled) ──► samples ──► terminal, charts

`headrace bench` is this package from the command line; bench/ at the root of the project builds docs/benchmarks.md
on it.
"""
