"""Change events of files from the operating system."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path

import anyio.from_thread
import anyio.to_thread

from knowledge.pages.paths import is_hidden, is_markdown

STEP_MS = 20
DEBOUNCE_MS = 100
IDLE_MS = 100
ADDED, DELETED = 1, 3
"""As in `watchfiles.Change`, which is not imported before it is needed."""


async def follow(
    root: Path,
    changed: Callable[[set[str]], object],
    ready: Callable[[], object],
    *,
    counts: Callable[[str], bool] = is_markdown,
) -> None:
    """Call `changed` with the relative paths of documents and folders that changed below `root`, until cancelled.

    `counts` chooses other files than documents.

    Both callbacks run on the event loop; `ready` is called once no later change can be missed. For a folder that was
    moved or removed, its own path is given and not those of its documents; `""` is the root. Returns if the system
    stops watching.

    Raises:
        OSError: the system cannot watch, for example because it watches too many folders already.
    """
    stop = threading.Event()
    try:
        # With its own limiter: this thread runs as long as the process, and must not use up those for short work.
        await anyio.to_thread.run_sync(
            partial(_listen, root, changed, ready, stop, counts),
            abandon_on_cancel=True,
            limiter=anyio.CapacityLimiter(1),
        )
    finally:
        stop.set()


def _listen(
    root: Path,
    changed: Callable[[set[str]], object],
    ready: Callable[[], object],
    stop: threading.Event,
    counts: Callable[[str], bool],
) -> None:
    import watchfiles  # needed only in the process that indexes

    is_ready = False
    # The blocking form in a thread, because `awatch` sets up the watches of all folders on the event loop.
    for batch in watchfiles.watch(
        root,
        watch_filter=None,
        debounce=DEBOUNCE_MS,
        step=STEP_MS,
        rust_timeout=IDLE_MS,
        # Without it, nothing would be yielded until the first change, and `ready` would not be called.
        yield_on_timeout=True,
        stop_event=stop,
        raise_interrupt=False,
        force_polling=False,
        ignore_permission_denied=True,
    ):
        if stop.is_set():
            return
        paths = {path for change, name in batch if (path := _relevant(str(root), change, name, counts)) is not None}
        if paths:
            anyio.from_thread.run_sync(changed, paths)
        if not is_ready:
            anyio.from_thread.run_sync(ready)
            is_ready = True


def _relevant(root: str, change: int, name: str, counts: Callable[[str], bool]) -> str | None:
    """Return the relative path if the change may concern documents; a deleted path may have been a folder with some."""
    relative = os.path.relpath(name, root).replace(os.sep, "/")
    if relative == ".":
        return ""
    if any(is_hidden(part) for part in relative.split("/")):
        return None
    may_be_folder = change == DELETED or (change == ADDED and os.path.isdir(name))  # noqa: PTH112 - it is a string
    return relative if counts(relative) or may_be_folder else None
