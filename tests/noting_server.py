"""The whole program, which knows one small agent more, in which a test goes round as often as it likes.

`python -m tests.noting_server serve ...` takes what `python -m mcp_server serve ...` takes.
"""

from __future__ import annotations

import sys

from agents import catalogue
from tests.small_agents import noting

AGENT = noting()
ENTRY = catalogue.Entry(AGENT.name, AGENT.title, AGENT.summary, "tests.noting_server")


def main() -> int:
    """Run the program."""
    from mcp_server.__main__ import main as program

    vars(catalogue)["BUILT_IN"] = (*catalogue.BUILT_IN, ENTRY)
    return program()


if __name__ == "__main__":
    sys.exit(main())
