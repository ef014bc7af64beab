"""A change of the whole state between the page and its process: which one may be confirmed, by whom, and for how long."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from knowledge.state.transfer.layout import tables
from knowledge.state.transfer.move import Chain, Contents
from mcp_server.approvals.approvers import CannotDecide
from mcp_server.presenters.whole_state import ChangedState, PlannedRestore
from mcp_server.web.access.sessions import Session
from mcp_server.web.whole_state.handover import LIFETIME, MOST_REHEARSED, handing_over

NOW = datetime(2026, 3, 1, tzinfo=UTC)
EMPTY = Contents({table.name: 0 for table in tables()}, {}, {}, Chain(0, 0, "", None))
PLANNED = PlannedRestore(Path("/b\udcff.db"), "d1", 1, NOW, EMPTY, EMPTY, (), 0)
ANN, BEA = Session("ann", "one"), Session("bea", "two")


async def test_a_rehearsal_is_found_by_its_session_for_ten_minutes() -> None:
    with handing_over() as handover:
        made = handover.rehearse(PLANNED, ANN, NOW)
        assert handover.rehearsed(made.token, ANN, NOW + LIFETIME - timedelta(seconds=1)) == made
        for token, session, at in ((made.token, BEA, NOW), (made.token, ANN, NOW + LIFETIME), ("other", ANN, NOW)):
            with pytest.raises(CannotDecide, match="look at it again"):
                handover.rehearsed(token, session, at)


async def test_what_is_signed_names_the_file_its_content_and_the_rehearsal() -> None:
    with handing_over() as handover:
        one, again = (handover.rehearse(PLANNED, ANN, NOW) for _ in range(2))
        changed = replace(one, planned=replace(PLANNED, digest="d2"))
        elsewhere = replace(one, planned=replace(PLANNED, file=Path("/c.db")))
        assert len({one.hash, again.hash, changed.hash, elsewhere.hash}) == 4


async def test_one_change_is_made_at_a_time_and_ends_all_other_rehearsals() -> None:
    with handing_over() as handover:
        one, other = (handover.rehearse(PLANNED, ANN, NOW) for _ in range(2))
        handover.confirm(one)
        with pytest.raises(CannotDecide, match="on its way"):
            handover.confirm(other)
        handover.drawn("audit copied")
        assert handover.progress == f"1 of {len(tables())} tables copied"
        handover.finish(ChangedState(PLANNED, problem="in use"))
        assert handover.confirmed is None
        assert handover.outcome == ChangedState(PLANNED, problem="in use")
        with pytest.raises(CannotDecide):
            handover.rehearsed(other.token, ANN, NOW)


async def test_only_so_many_rehearsals_are_remembered() -> None:
    with handing_over() as handover:
        made = [handover.rehearse(PLANNED, ANN, NOW) for _ in range(MOST_REHEARSED + 1)]
        with pytest.raises(CannotDecide):
            handover.rehearsed(made[0].token, ANN, NOW)
        assert handover.rehearsed(made[1].token, ANN, NOW) == made[1]


async def test_the_address_stays_open_while_nobody_answers_there(tmp_path: Path) -> None:
    import socket

    with handing_over() as handover:
        with handover.sockets(tmp_path) as first:
            port = first[0].getsockname()[1]
        with closing(socket.create_connection(("127.0.0.1", port))):
            pass  # it is accepted by the system, and waits for whoever answers next
        with handover.sockets(tmp_path) as second:
            assert second[0].getsockname()[1] == port
        handover.leave()
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", port))
