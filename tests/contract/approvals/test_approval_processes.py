"""An approval counts wherever it is given: the process that can execute it does, and it is never reported as failed."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from mcp_server.app.composition import open_app
from mcp_server.app.settings.settings import Settings
from mcp_server.approvals import proposal_executor as executor_module
from mcp_server.approvals.approvers import CannotDecide
from tests.support.hosts.reviewers import ANN, reviewing
from tests.support.plane.hosts import plane_settings, working

COMMENT = {"task": "KB-2", "text": "It is so."}


def without_plane(settings: Settings) -> Settings:
    """Return the settings of a terminal whose environment lacks that of the host's configuration."""
    return replace(settings, plane_base_url=None, plane_api_key=None, plane_workspace=None, enrolment=None)


async def test_an_act_approved_without_plane_is_executed_by_a_server_with_plane(
    tmp_path: Path,
) -> None:
    async with working(tmp_path, level=2) as host, reviewing(without_plane(host.settings)) as person:
        asked = await host.call("plane_comment_task", **COMMENT)
        assert asked["status"] == "proposed"
        assert (await person.approve(asked["proposal"]["id"])).state == "executed"
        assert len(host.plane.comments("KB-2")) == 1
        told = await host.call("proposal_status", proposal_id=asked["proposal"]["id"])
        assert told["proposal"]["result"]["status"] == "done"


async def test_while_no_server_reaches_it_it_stays_approved_and_the_next_one_does_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(executor_module, "HANDED_S", 0.05)
    async with working(tmp_path, level=2) as host:
        asked = (await host.call("plane_comment_task", **COMMENT))["proposal"]["id"]
        settings, plane = host.settings, host.plane
        address = host.served.address
        async with reviewing(without_plane(settings)) as person:
            monkeypatch.setattr(host.app.approvals._executor, "resume", person.waiting)  # the host's server is away
            approved = await person.approve(asked)
            assert (approved.state, approved.runner) == ("approved", "")
            with pytest.raises(CannotDecide, match="is not listed here"):
                await person.app.approvals._executor.plan(approved)
            await person.app.approvals._executor.resume()
            assert (await person.proposal(asked)).state == "approved"
        assert not plane.comments("KB-2")
        async with open_app(plane_settings(tmp_path, address), indexing=False, announcing=False) as app:
            proposal_executor = app.approvals._executor
            await proposal_executor.resume()
            assert (await proposal_executor.found(asked)).state == "executed"
        assert len(plane.comments("KB-2")) == 1


async def test_an_act_nobody_could_execute_in_time_ends_and_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(executor_module, "HANDED_S", 0.05)
    async with working(tmp_path, level=2) as host:
        asked = (await host.call("plane_comment_task", **COMMENT))["proposal"]["id"]
        settings = host.settings
    async with reviewing(without_plane(settings)) as person:
        waiting = await person.proposal(asked)
        await person.app.approvals.approve(asked, waiting.hash, ANN)
        proposal_executor = person.app.approvals._executor
        later = waiting.expires_at + timedelta(minutes=1)
        monkeypatch.setattr(proposal_executor, "services", replace(person.app.services, now=lambda: later))
        await proposal_executor.resume()
        ended = await person.proposal(asked)
        assert (ended.state, ended.error) == ("failed", executor_module.LEFT)
