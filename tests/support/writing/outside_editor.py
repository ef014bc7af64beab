"""An editor that knows of no server and takes no locks: `python -m tests.support.writing.outside_editor FILE SEED`.

For every line that it reads it saves the file once, and then prints the added line. Its buffer may be old by then, and
it may write in place or replace the file. Every save adds its own line at the end of the file.
"""

from __future__ import annotations

import os
import random
import sys
from pathlib import Path

RELOADS = 0.6
"""How often it reads the file again before it saves; otherwise it saves its buffer from an earlier time."""


def main(file: Path, seed: int) -> None:
    draw = random.Random(seed)  # noqa: S311  its habits are to be the same another time, and no secret
    buffer = b""
    for number, _ in enumerate(sys.stdin):
        if not buffer or draw.random() < RELOADS:
            buffer = file.read_bytes() or buffer
        line = f"- saved by an editor, {number:03} {draw.randrange(16**8):08x}"
        buffer = buffer.rstrip(b"\n") + f"\n{line}\n".encode()
        in_place = draw.random() < 0.5
        save(file, buffer, in_place=in_place)
        print(line, flush=True)  # noqa: T201 - its protocol


def save(file: Path, content: bytes, *, in_place: bool) -> None:
    if in_place:
        file.write_bytes(content)
        return
    beside = file.with_name(f".{file.name}.swp")
    beside.write_bytes(content)
    os.replace(beside, file)  # noqa: PTH105 - as an editor does it


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
