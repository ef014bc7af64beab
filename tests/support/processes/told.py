"""A program that prints what it was started with, reads a line, and ends with the code that it was told."""

from __future__ import annotations

import json
import os
import signal
import sys


def main() -> None:
    """Print it as JSON."""
    facts = {
        "words": sys.argv[1:],
        "program": sys.argv[0],
        "module": __spec__.name if __spec__ else None,
        "path": sys.path[:2],
        "folder": os.getcwd(),  # noqa: PTH109 - what the system says
        "variables": sorted(os.environ),
        "told": os.environ.get("TOLD"),
        "parent": os.getppid(),
        "leads a session": os.getsid(0) == os.getpid(),
        "open files": sorted(int(name) for name in os.listdir("/proc/self/fd"))[:3],  # noqa: PTH208 - the last is the listing
        "streams": [(s.name, s.encoding, s.errors, s.line_buffering) for s in (sys.stdin, sys.stdout, sys.stderr)],
        "signals": {
            n: str(signal.getsignal(n)).split(" at ")[0] for n in (signal.SIGINT, signal.SIGTERM, signal.SIGPIPE)
        },
        "name": __name__,
    }
    sys.stdout.write(json.dumps(facts) + "\n")
    sys.stdout.flush()
    sys.stderr.write(input() + "\n")
    sys.exit(int(sys.argv[1]))


if __name__ == "__main__":
    main()
