"""The server program, which dies by itself before (`-3`) or after (`+3`) a frame with that number of any run is on record.

`python -m tests.crash.run_server DIES serve ...`, with "" for one that does not. It holds a run for a moment only after it is dead, so
that nobody has to wait for half a minute to take it up.
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
    """Let holds of runs that this process leads end soon after it is dead."""
    supervisor.HOLD_S = HOLD_S


def mortal(dies: str) -> None:
    """Let this process die at that frame."""
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
