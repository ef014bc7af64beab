"""Programs that measure the project. Run one with `python -m tests.bench NAME`."""
