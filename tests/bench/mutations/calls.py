"""A pytest plugin that records which tests call each function; it writes them as JSON to the file that `CALLERS_FILE` names.

Python's profiler sees calls in this process only. Calls that a test makes in another process are not recorded.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

CALLERS_FILE = "KF_CALLERS_FILE"
HERE = f"{Path.cwd()}/"

_callers: defaultdict[str, list[str]] = defaultdict(list)
"""By a function's file and first line."""


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Record the functions called during the test and its fixtures."""
    called: set[tuple[str, int]] = set()

    def record(frame: FrameType, event: str, _argument: Any) -> None:
        if event == "call":
            called.add((frame.f_code.co_filename, frame.f_code.co_firstlineno))

    threading.setprofile(record)
    sys.setprofile(record)
    try:
        return (yield)
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
        for file, line in called:
            if file.startswith(HERE):
                _callers[f"{file}:{line}"].append(item.nodeid)


def pytest_sessionfinish() -> None:
    """Write the record."""
    Path(os.environ[CALLERS_FILE]).write_text(json.dumps(_callers), encoding="utf-8")
