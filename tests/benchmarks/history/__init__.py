"""Merges and edits of real documentation repositories, measured: `python -m tests.benchmarks.history --help`."""
