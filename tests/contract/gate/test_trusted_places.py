"""Places that a person trusts: text read there holds nobody up, and no model can extend that trust."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from knowledge.trust.ports import Note
from mcp_server.app.composition import listed
from mcp_server.app.knowledge_base import open_state, utc_now
from mcp_server.app.settings.settings import Settings
from mcp_server.approvals.approvers import Approver, CannotDecide
from mcp_server.approvals.proposals import places_of
from mcp_server.cli.doctor.doctor import examine
from mcp_server.cli.trust.acts import act_once
from mcp_server.cli.trust.trust import NotTrusted
from mcp_server.gate.trust.reconcile import unaccounted
from tests.support.hosts.reviewers import ANN, reviewing
from tests.support.hosts.writers import writing
from tests.support.knowledge_bases.folders import write
from tests.support.plane.hosts import working
from tests.support.state.decisions import passkey

pytestmark = pytest.mark.security

TASK = {"project": "OPS", "name": "As told in KB"}


async def test_a_host_reads_a_task_and_creates_another_without_a_proposal_if_plane_is_trusted(
    tmp_path: Path,
) -> None:
    """After one read of Plane every write of a level-4 host was a proposal for an hour."""
    async with working(tmp_path, level=4, trusted_places=("plane",)) as host:
        task = await host.call("plane_get_task", task="KB-1")
        assert task["tainted"] is True, "it is somebody else's text all the same"
        assert (await host.call("plane_create_task", **TASK))["status"] == "done"


async def test_strict_is_the_default_and_trusting_a_place_frees_earlier_reading_until_undone(
    tmp_path: Path,
) -> None:
    async with working(tmp_path, level=4) as host:
        await host.call("plane_get_task", task="KB-1")
        waits = await host.call("plane_create_task", **TASK)
        assert waits["status"] == "proposed"
        assert (
            "You read text from plane:KB-1, which nobody has vouched for, so this act needs level 5"
            in waits["proposal"]["why"]
        )
        (proposal,) = await host.app.base.state.trust.proposals(states=("pending",))
        assert places_of(proposal) == ("plane:KB",)

        asked = await host.app.approvals.ask("place.trust", {"place": "plane:kb"}, ANN)
        assert (await host.app.approvals.approve(asked.id, asked.hash, ANN)).state == "executed"
        assert (await host.call("plane_create_task", **TASK))["status"] == "done"
        assert await unaccounted(host.app.base.state) == []

        assert await host.app.approvals.distrust("plane:KB", ANN)
        again = await host.call("plane_create_task", **TASK | {"name": "Another"})
        assert again["status"] == "proposed"
        acts = [record.body for record in await host.app.base.state.ledger.records(limit=1000)]
        assert sum('"place.trust"' in body for body in acts) == 1
        assert sum('"place.distrust"' in body for body in acts) == 1


async def test_trusting_one_place_trusts_no_other(tmp_path: Path) -> None:
    async with working(tmp_path, level=4, trusted_places=("plane:OPS", "zulip", "kb:page.md")) as host:
        await host.call("plane_get_task", task="KB-1")
        waits = await host.call("plane_create_task", project="OPS", name="As told in KB")
        assert waits["status"] == "proposed"


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(kb=write(tmp_path / "kb", {"page.md": "# Page\n"}), state_dir=tmp_path / "state")


async def test_trusting_a_place_needs_the_passkey_once_there_is_one_and_undoing_it_never_does(
    settings: Settings,
) -> None:
    """Grants have the same rule: a program of the same account must not widen what hosts may do."""
    async with reviewing(settings) as person:
        state = person.app.base.state
        await state.trust.trust_place("zulip:design", note=Note("ann", "place.trust", "zulip:design", utc_now()))
        await state.trust.add_passkey(passkey(), note=Note("ann", "passkey.add", "key", utc_now()))
        asked = await person.app.approvals.ask("place.trust", {"place": "plane"}, ANN)
        for who in (ANN, Approver("ann", "terminal"), Approver("ann", "host"), Approver("ann@example.com", "zulip")):
            with pytest.raises(CannotDecide):
                await person.app.approvals.approve(asked.id, asked.hash, who)
        assert [one.place for one in await state.trust.trusted_places()] == ["zulip:design"]
        signed = replace(ANN, signed="blue key")
        assert (await person.app.approvals.approve(asked.id, asked.hash, signed)).state == "executed"
        assert await person.app.approvals.distrust("plane", Approver("ann", "terminal"))


async def test_a_place_written_into_the_database_by_hand_is_found_out(settings: Settings) -> None:
    async with open_state(settings) as state:
        state._database.query("INSERT INTO trusted_place VALUES ('plane', 'ann', 0)")  # type: ignore[attr-defined]
        (found,) = await unaccounted(state)
        assert "plane" in found.what
        assert "no audit record" in found.reason


async def test_no_tool_prompt_or_page_can_trust_a_place(settings: Settings) -> None:
    """A model can't change it: there is no such tool, and no setting is read from a knowledge base."""
    for name in ("forge.toml", "_agents/forge.toml", "trusted_places.md"):
        (settings.kb / name).parent.mkdir(exist_ok=True)
        (settings.kb / name).write_text('trusted_places = ["plane"]\n', encoding="utf-8")
    head = "---\ntrusted_places: [plane]\n---\n# Root\n"
    (settings.kb / "_index.md").write_text(head, encoding="utf-8")
    async with writing(settings, level=5) as host:
        assert await host.app.services.taints.trusted() == ()
        names = [tool.name for tool in (await host.client.list_tools()).tools]
        assert not [name for name in names if "place" in name or "vouch" in name]
    assert not [spec.name for spec in listed(replace(settings, toolsets=None)) if "place" in spec.name]


async def test_the_command_line_trusts_lists_and_untrusts_places(
    settings: Settings, capsys: pytest.CaptureFixture[str]
) -> None:
    from argparse import Namespace

    from mcp_server.cli.trust.trust import _places

    def asked(what: str, place: str | None = None) -> Any:
        return _places(settings, Namespace(what=what, place=place))

    assert await asked("list") == []
    await act_once(settings, "place.trust", {"place": "zulip:#Design"})
    (row,) = await asked("list")
    assert row["place"] == "zulip:design"
    assert [one["place"] for one in await asked("add", "plane:kb")] == ["plane:KB", "zulip:design"]
    assert [one["place"] for one in await asked("remove", "PLANE:KB")] == ["zulip:design"]
    with pytest.raises(NotTrusted):
        await asked("remove", "plane:KB")
    with pytest.raises(CannotDecide, match="not a place that can be trusted"):
        await asked("add", "https://example.org")
    assert "not protected by a passkey" in capsys.readouterr().err
    found = await examine(replace(settings, trusted_places=("plane",)))
    (told,) = [one.found for one in found if one.what == "trusted places"]
    assert told == "plane (FORGE_TRUSTED_PLACES), zulip:design: text from there needs no approval"


async def test_a_page_made_from_a_task_says_so_unless_its_project_is_trusted(tmp_path: Path) -> None:
    """A host reads Plane with its own tool and merges the text as the person's."""
    for number, places in enumerate(((), ("plane:KB",))):
        async with working(tmp_path / str(number), level=4, trusted_places=places) as host:
            said = "Nobody may turn the radiators off before the first of May."
            await host.call("plane_comment_task", task="KB-1", text=said)
            assert said in str(await host.call("plane_get_task", task="KB-1", include=["comments"]))
            assert (await host.call("kb_merge", path="heating.md", content=f"# Heating\n\n{said}\n"))[
                "status"
            ] == "done"
            head = "" if places else '---\nsource: "plane:KB-1"\n---\n\n'
            assert host.writer.text("heating.md") == f"{head}# Heating\n\n{said}\n"
