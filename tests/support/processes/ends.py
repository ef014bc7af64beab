"""A program that ends in the way that it was told, while a line is unwritten, a thread runs, and a function is registered."""

from __future__ import annotations

import atexit
import sys
import threading


def last() -> None:
    threading.main_thread().join()
    sys.stdout.write("the thread\n")


def main(way: str) -> None:
    """Raise an interruption or an error, exit with a code or a text, or return."""
    atexit.register(sys.stdout.write, "the function\n")
    sys.stdout.write("the line\n")
    threading.Thread(target=last).start()
    if way == "interrupt":
        raise KeyboardInterrupt
    if way == "error":
        raise ValueError(way)
    if way != "return":
        sys.exit(int(way) if way.isdigit() else way)


if __name__ == "__main__":
    main(sys.argv[1])
