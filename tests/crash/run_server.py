"""The server program, which kills itself before (`-3`) or after (`+3`) that frame of any run is recorded.

`python -m tests.crash.run_server DIES serve ...`, with "" for one that doesn't die. Its claim on a run expires soon
after it is dead, so that nobody has to wait half a minute to take over.
"""

from __future__ import annotations

import sys
from typing import Any

from agents.loop.store.ports import RunStore
from knowledge.state.ports import StateStore
from knowledge.state.quota.bounds import Quotas
from mcp_server.__main__ import main
from mcp_server.runs import locations as places
from mcp_server.runs import supervisor
from tests.crash.leading import Mortal

HOLD_S = 0.6


def holding_briefly() -> None:
    """Let claims on runs that this process leads expire soon after it is dead."""
    supervisor.HOLD_S = HOLD_S


def mortal(dies: str) -> None:
    """Kill this process at that frame."""
    runs_in = places.runs_in

    def of_a_mortal(state: StateStore, quotas: Quotas | None = None) -> RunStore:
        kept: Any = Mortal(runs_in(state, quotas), dies)  # type: ignore[arg-type]  # whichever engine it is
        return kept  # type: ignore[no-any-return]  # a RunStore but for its death

    places.runs_in = of_a_mortal


if __name__ == "__main__":
    holding_briefly()
    if sys.argv[1]:
        mortal(sys.argv[1])
    sys.exit(main(sys.argv[2:]))
