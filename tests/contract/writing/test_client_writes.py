"""Writing through a real client and the real server.

Nothing is lost, and every answer says what became of the sent text.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from mcp_types import TextResourceContents

from knowledge.outbox.ports import OutboxEntry
from mcp_server.app.settings.settings import Settings
from tests.contract.protocol.test_server import answers
from tests.support.hosts.writers import Refused, Writer, writing
from tests.support.knowledge_bases.folders import write
from tests.support.state.postgres import PostgresServer

DEPLOY = "guides/deploy.md"
PAGES = {
    "_index.md": "---\ntitle: Team notes\n---\n# Team notes\n\nStart with [deploying](guides/deploy.md) or [[onboarding]].\n",
    DEPLOY: (
        "---\ntitle: Deploying  # as people say\ntags: [deploy, payments]\nsource: decision:ops/3\n---\n"
        "# Deploying\n\nThe payment service is deployed with a canary first.\n\n"
        "## Rolling back\n\nTo roll back, switch the router. It takes 40 seconds.\n\n- tell support\n- watch the dashboard\n\n"
        "## Limits\n\n| limit | value |\n|---|---|\n| retries | 3 |\n| timeout | 30 s |\n\n"
        "## See also\n\n[Onboarding](onboarding.md)\n"
    ),
    "guides/onboarding.md": "# Onboarding\n\nNew colleagues read [how we deploy](deploy.md#limits) in their first week.\n",
    "log.md": "---\nappend: true\n---\n# Log\n\n## 2026-01-03\n\nStarted.\n",
}


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(kb=write(tmp_path / "kb", PAGES), state_dir=tmp_path / "state")


@pytest.fixture
async def host(settings: Settings) -> AsyncIterator[Writer]:
    """Return a connected host; the task that connects must also disconnect, and a fixture's task doesn't."""
    ready: asyncio.Future[Writer] = asyncio.get_running_loop().create_future()
    parting = asyncio.Event()

    async def connected() -> None:
        async with writing(settings) as writer:
            ready.set_result(writer)
            await parting.wait()

    task = asyncio.create_task(connected())
    task.add_done_callback(lambda _: ready.cancel())
    yield await ready
    parting.set()
    await task


async def test_an_edit_of_a_read_page_is_written_and_nothing_else_changes(host: Writer) -> None:
    base = await host.revision(DEPLOY)
    body = host.text(DEPLOY).split("---\n", 2)[2]
    answer = await host.merge(DEPLOY, body.replace("It takes 40 seconds.", "It takes 45 seconds."), base_revision=base)
    assert answer["status"] == "done"
    assert answer["verified"] is True
    assert host.text(DEPLOY) == PAGES[DEPLOY].replace("40 seconds", "45 seconds")
    assert answer["revision"] == await host.revision(DEPLOY)
    assert "-To roll back, switch the router. It takes 40 seconds." in answer["diff"]
    (block,) = answer["blocks"]
    assert block["verdict"] == "update"
    assert block["section"] == "Deploying > Rolling back"
    assert set(block["new"]) == {"confidence", "recency", "authority", "corroboration"}
    assert block["existing"]["authority"] == 0.95


@pytest.mark.parametrize("base", [None, "0123456789abcdef"])
async def test_without_a_known_base_nothing_is_written_and_the_answer_is_the_analysis(
    host: Writer, base: str | None
) -> None:
    more = {} if base is None else {"base_revision": base}
    answer = await host.merge(DEPLOY, "Other text.", section="Rolling back", **more)
    assert answer["status"] == "analysis"
    assert answer["revision"] == await host.revision(DEPLOY)
    assert answer["verified"] is None
    assert "Other text." in answer["diff"]
    assert answer["revision"] in answer["note"]
    assert host.text(DEPLOY) == PAGES[DEPLOY]


async def test_a_new_page_needs_no_base(host: Writer) -> None:
    answer = await host.merge("guides/new page.md", "# New\n\nText.")
    assert (answer["status"], answer["path"]) == ("done", "guides/new page.md")
    assert host.text("guides/new page.md") == "# New\n\nText.\n"
    again = await host.merge("guides/new page.md", "# New\n\nOther.")
    assert again["status"] == "analysis"


async def test_a_page_of_one_sentence_is_edited_like_any_other(host: Writer) -> None:
    await host.merge("small.md", "The build takes 10 minutes.")
    answer = await host.merge("small.md", "The build takes 12 minutes.", base_revision=await host.revision("small.md"))
    assert answer["blocks"][0]["reason"].startswith("replaces the text you read")
    assert host.text("small.md") == "The build takes 12 minutes."
    other = await host.merge("small.md", "Ask Ben about the cache.", base_revision=answer["revision"])
    assert "treated as new text" in other["note"]
    assert "12 minutes" in host.text("small.md")


async def test_edits_made_from_one_base_are_joined(host: Writer) -> None:
    base = await host.revision(DEPLOY)
    for section, text in (
        (
            "Rolling back",
            "To roll back, switch the router. It takes 40 seconds.\n\n- tell support\n- watch the dashboard\n- smile",
        ),
        ("Limits", "| limit | value |\n|---|---|\n| retries | 5 |\n| timeout | 30 s |"),
        ("Limits", "| limit | value |\n|---|---|\n| retries | 3 |\n| timeout | 30 s |\n| hosts | 9 |"),
    ):
        answer = await host.merge(DEPLOY, text, section=section, base_revision=base)
        assert answer["status"] == "done", answer
    text = host.text(DEPLOY)
    assert "- watch the dashboard\n- smile\n" in text
    assert "| retries | 5 |\n| timeout | 30 s |\n| hosts | 9 |\n" in text
    assert text.startswith("---\ntitle: Deploying  # as people say\n")


async def test_an_overlap_is_answered_with_base_ours_and_theirs_and_not_written(host: Writer) -> None:
    base = await host.revision(DEPLOY)
    first = "To roll back, switch the router. It takes 41 seconds.\n\n- tell support\n- watch the dashboard"
    await host.merge(DEPLOY, first, section="Rolling back", base_revision=base)
    answer = await host.merge(DEPLOY, first.replace("41", "42"), section="Rolling back", base_revision=base)
    assert answer["status"] == "conflict"
    (conflict,) = answer["conflicts"]
    assert "40 seconds" in conflict["base"]
    assert "41 seconds" in conflict["ours"]
    assert "42 seconds" in conflict["theirs"]
    assert "41 seconds" in host.text(DEPLOY)
    assert answer["revision"] == await host.revision(DEPLOY)


async def test_a_rehearsal_writes_nothing_and_needs_only_level_1(settings: Settings) -> None:
    async with writing(settings, level=1) as host:
        base = await host.revision(DEPLOY)
        answer = await host.merge(DEPLOY, "Short.", section="Rolling back", base_revision=base, dry_run=True)
        assert answer["status"] == "analysis"
        assert "+Short." in answer["diff"]
        assert (answer["revision"], answer["verified"]) == (base, None)
        assert (await host.call("kb_move", path=DEPLOY, to="a.md", dry_run=True))["changed"]
        assert (await host.call("kb_delete", path=DEPLOY, base_revision=base, dry_run=True))["diff"]
        with pytest.raises(Refused, match="trust level 3"):
            await host.merge(DEPLOY, "Short.", section="Rolling back", base_revision=base)
        with pytest.raises(Refused, match="trust level 4"):
            await host.call("kb_move", path=DEPLOY, to="a.md")
        with pytest.raises(Refused, match="trust level 4"):
            await host.call("kb_delete", path=DEPLOY, base_revision=base)
    assert (settings.kb / DEPLOY).read_text() == PAGES[DEPLOY]


async def test_the_servers_configuration_needs_level_5(settings: Settings) -> None:
    """The design, section 5."""
    async with writing(settings, level=4) as host:
        base = await host.revision("_index.md")
        weights = "---\ntitle: Team notes\nmerge: {half_life_days: 7}\n---\n# Team notes\n\nHello.\n"
        for waits in (
            await host.merge("_index.md", weights, base_revision=base),
            await host.merge("_agents/mine.md", "# Mine\n"),
        ):
            assert (waits["status"], waits["proposal"]["level_needed"]) == ("proposed", 5)
        assert host.text("_index.md") == PAGES["_index.md"]
        plain = PAGES["_index.md"].replace("Start with", "Begin with")
        assert (await host.merge("_index.md", plain, base_revision=base))["status"] == "done"


async def test_stronger_evidence_updates_and_weaker_is_retained(host: Writer) -> None:
    base = await host.revision(DEPLOY)
    said = "The payment service is deployed with a canary first, which the on-call engineer watches."
    answer = await host.merge(DEPLOY, said, section="Deploying", source="zulip:ops/deploy/1", base_revision=base)
    assert [block["verdict"] for block in answer["blocks"]] in (["retain"], ["integrate"]), answer
    assert all("0." in block["reason"] for block in answer["blocks"])


async def test_evidence_that_contradicts_is_flagged_listed_and_not_written(host: Writer) -> None:
    base = await host.revision(DEPLOY)
    answer = await host.merge(
        DEPLOY,
        "| limit | value |\n|---|---|\n| retries | 5 |\n",
        section="Limits",
        source="code:src/limits.py",
        base_revision=base,
    )
    assert answer["status"] == "conflict"
    assert [block["verdict"] for block in answer["blocks"]] == ["flag"]
    assert host.text(DEPLOY) == PAGES[DEPLOY]
    (found,) = (await host.call("kb_contradictions"))["contradictions"]
    assert "3" in found["existing"]["text"]
    assert "5" in found["new"]["text"]
    assert found["existing"]["source"] == "decision:ops/3"
    assert found["new"]["source"] == "code:src/limits.py"
    assert (await host.call("kb_contradictions", path="guides"))["contradictions"] == [found]
    assert (await host.call("kb_contradictions", path="log.md"))["contradictions"] == []
    # Once the page no longer says so, there is nothing left to settle.
    table = "| limit | value |\n|---|---|\n| retries | 5 |\n| timeout | 30 s |"
    await host.merge(DEPLOY, table, section="Limits", base_revision=base)
    assert (await host.call("kb_contradictions"))["contradictions"] == []


async def test_text_already_on_the_page_is_not_written_twice(host: Writer) -> None:
    base = await host.revision(DEPLOY)
    answer = await host.merge(
        DEPLOY,
        "The payment service is deployed with a canary first.",
        source="kb:guides/onboarding",
        base_revision=base,
    )
    assert answer["status"] == "unchanged"
    assert [block["verdict"] for block in answer["blocks"]] == ["unchanged"]
    assert host.text(DEPLOY) == PAGES[DEPLOY]


@pytest.mark.parametrize(
    ("front", "claimed", "authority"),
    [("", None, 0.8), ("source: zulip:ops/deploys\n", None, 0.3), ("source: decision:ops/3\n", 0.5, 0.5)],
)
async def test_evidence_from_a_page_has_that_pages_authority(
    host: Writer, front: str, claimed: float | None, authority: float
) -> None:
    """kb/concepts/confidence.md. A page that does not say it, or does not exist, counts as an unknown source."""
    said = "The release train leaves every Tuesday at nine."
    (host.root / "guides/train.md").write_text(f"---\ntitle: Train\n{front}---\n# Train\n\n{said}\n", encoding="utf-8")
    asked: dict[str, Any] = {"section": "Deploying", "base_revision": await host.revision(DEPLOY), "dry_run": True}
    if claimed is not None:
        asked["authority"] = claimed
    answer = await host.merge(DEPLOY, said, source="kb:guides/train", **asked)
    assert answer["blocks"][0]["new"]["authority"] == authority
    other = "The release train leaves every Friday at noon."
    answer = await host.merge(DEPLOY, other, source="kb:guides/train", **asked)
    assert answer["blocks"][0]["new"]["authority"] == 0.2
    assert "kb:guides/train was looked up; it does not say this in these words" in answer["note"]
    answer = await host.merge(DEPLOY, other, source="journey:research-1", **{**asked, "authority": 0.9})
    assert answer["blocks"][0]["new"]["authority"] == 0.2


@pytest.mark.security
async def test_a_new_page_from_an_untrusted_page_is_marked_like_it(host: Writer) -> None:
    (host.root / "clipped.md").write_text(
        "---\nsource: url:https://example.org\n---\n# C\n\nHives like music.\n", encoding="utf-8"
    )
    (host.root / "odd.md").write_text("---\nuntrusted: true\n---\n# O\n\nBees dislike smoke.\n", encoding="utf-8")
    await host.merge("one.md", "# One\n\nHives like music.\n", source="kb:clipped")
    await host.merge("two.md", "# Two\n\nBees dislike smoke.\n", source="kb:odd.md")
    assert 'source: "url:https://example.org"' in host.text("one.md")
    assert "untrusted: true" in host.text("two.md")


async def test_only_verified_sources_corroborate(host: Writer) -> None:
    said = "The release train leaves every Tuesday at nine."
    await host.merge("guides/train.md", f"# Train\n\n{said}\n")
    base = await host.revision(DEPLOY)
    answer = await host.merge(
        DEPLOY,
        said,
        section="Deploying",
        source="wiki:trains",
        corroboration=["kb:guides/train", "url:https://example.org/train", "kb:guides/onboarding"],
        base_revision=base,
        dry_run=True,
    )
    (block,) = answer["blocks"]
    assert block["new"]["corroboration"] == 0.5


async def test_a_snippet_without_a_place_is_put_where_it_belongs(host: Writer) -> None:
    base = await host.revision(DEPLOY)
    answer = await host.merge(
        DEPLOY,
        "Rolling back is only possible while the previous colour still runs.",
        source="code:ops/router.py",
        base_revision=base,
    )
    assert answer["status"] == "done"
    text = host.text(DEPLOY)
    at = text.index("Rolling back is only possible")
    assert text.index("## Rolling back") < at < text.index("## Limits")


async def test_a_directory_is_enough_of_a_place(host: Writer) -> None:
    said = "Rolling back the payment service is only possible while the previous colour still runs."
    await answers(host.client)
    answer = await host.merge("guides", said, source="code:ops/router.py")
    assert (answer["status"], answer["diff"]) == ("analysis", "")
    place = answer["places"][0]
    assert (place["path"], place["section"].rpartition(" > ")[2]) == (DEPLOY, "Rolling back")
    done = await host.merge(
        DEPLOY, said, source="code:ops/router.py", section=place["section"], base_revision=await host.revision(DEPLOY)
    )
    assert done["status"] == "done"
    coffee = "# Coffee machines\n\nDescale the espresso boiler monthly.\n"
    answer = await host.merge("guides", coffee, source="wiki:coffee")
    assert "path='guides/coffee-machines.md' makes a page of its own" in answer["note"]
    fresh = await host.merge("guides/coffee-machines.md", coffee, source="wiki:coffee")
    assert (fresh["status"], fresh["path"]) == ("done", "guides/coffee-machines.md")


async def test_a_section_of_a_template_is_offered_the_page_that_search_leaves_out_because_it_lacks_it(
    tmp_path: Path,
) -> None:
    """More pages have the section than search returns, so the page without it is found by its headings alone."""
    command = "# {0}\n\nDoes {0}.\n\n## Options\n\nNone.\n"
    status = "## Exit status\n\n0 if the command succeeded, 101 if it failed to complete.\n"
    pages = {f"cmd/forge-{number}.md": command.format(f"forge-{number}") + f"\n{status}" for number in range(45)}
    pages["cmd/forge-tidy.md"] = command.format("forge-tidy")
    settings = Settings(kb=write(tmp_path / "kb", pages), state_dir=tmp_path / "state")
    async with writing(settings) as host:
        await answers(host.client)
        found = await host.app.base.finder.sections_like(status, "cmd")
        assert "cmd/forge-tidy.md" not in {path for path, _ in found}
        answer = await host.merge("cmd", status, source="wiki:commands")
    assert (answer["status"], answer["diff"]) == ("analysis", "")
    assert (answer["places"][0]["path"], answer["places"][0]["section"]) == ("cmd/forge-tidy.md", "")


async def test_a_log_accepts_appends(host: Writer) -> None:
    base = await host.revision("log.md")
    answer = await host.merge("log.md", "## 2026-02-01\n\nFinished.\n", source="wiki:log", base_revision=base)
    assert answer["status"] == "done"
    assert host.text("log.md") == PAGES["log.md"] + "\n## 2026-02-01\n\nFinished.\n"


async def test_a_move_rewrites_links_and_is_taken_back_whole(host: Writer) -> None:
    base = await host.revision(DEPLOY)
    answer = await host.call("kb_move", path=DEPLOY, to="operations/deploying.md")
    assert answer["status"] == "done"
    assert answer["changed"] == ["_index.md", "guides/onboarding.md", "operations/deploying.md"]
    assert not (host.root / DEPLOY).exists()
    assert "(operations/deploying.md)" in host.text("_index.md")
    assert "(../operations/deploying.md#limits)" in host.text("guides/onboarding.md")
    assert "(../guides/onboarding.md)" in host.text("operations/deploying.md")
    history = await host.call("kb_history", path="operations/deploying.md")
    assert history["revisions"][0]["moved_from"] == DEPLOY
    note = await host.revision("_index.md")
    await host.merge(
        "_index.md", "# Team notes\n\nStart with [deploying](operations/deploying.md), now.\n", base_revision=note
    )
    back = await host.call("kb_revert", path="operations/deploying.md", revision=base)
    assert back["status"] == "done", back
    assert host.text(DEPLOY) == PAGES[DEPLOY]
    assert not (host.root / "operations/deploying.md").exists()
    assert host.text("guides/onboarding.md") == PAGES["guides/onboarding.md"]
    assert "[deploying](guides/deploy.md), now." in host.text("_index.md")


async def test_a_deleted_page_comes_back(host: Writer) -> None:
    base = await host.revision(DEPLOY)
    stale = await host.call("kb_delete", path=DEPLOY, base_revision="0123456789abcdef")
    assert stale["status"] == "analysis"
    gone = await host.call("kb_delete", path=DEPLOY, base_revision=base)
    assert (gone["status"], gone["revision"]) == ("done", None)
    assert "guides/onboarding.md" in gone["note"]
    assert not (host.root / DEPLOY).exists()
    history = await host.call("kb_history", path=DEPLOY)
    assert history["revision"] is None
    assert history["revisions"][0]["tool"] == "kb_delete"
    assert (await host.call("kb_read", path=DEPLOY, revision=base))["revision"] == base
    assert (await host.call("kb_revert", path=DEPLOY, revision=base))["status"] == "done"
    assert host.text(DEPLOY) == PAGES[DEPLOY]


async def test_history_has_author_reason_and_source(host: Writer) -> None:
    base = await host.revision(DEPLOY)
    answer = await host.merge(
        DEPLOY, "Ask Ada before you touch the router.", section="Rolling back", source="maintainer:ada", base_revision=base,
        intent="so that nobody is surprised",
    )  # fmt: skip
    assert answer["status"] == "done"
    history = await host.call("kb_history", path=DEPLOY)
    newest = history["revisions"][0]
    assert newest["revision"] == answer["revision"] == history["revision"]
    assert newest["by"].endswith("@writer")
    assert (newest["tool"], newest["source"], newest["intent"]) == (
        "kb_merge",
        "maintainer:ada",
        "so that nobody is surprised",
    )
    assert newest["added"] >= 1
    sources = {line["source"] for line in history["origins"]}
    assert sources == {"maintainer:ada", "decision:ops/3"}
    back = await host.call("kb_revert", path=DEPLOY, revision=base)
    assert back["revision"] == base
    assert host.text(DEPLOY) == PAGES[DEPLOY]


async def test_provenance_survives_an_editor_whose_own_text_is_unknown(host: Writer) -> None:
    base = await host.revision(DEPLOY)
    await host.merge(
        DEPLOY,
        "Ask Ada before you touch the router.",
        section="Rolling back",
        source="maintainer:ada",
        base_revision=base,
    )
    text = host.text(DEPLOY).replace("# Deploying\n", "# Deploying\n\nAn entirely different sentence about bicycles.\n")
    (host.root / DEPLOY).write_text(text)
    origins = (await host.call("kb_history", path=DEPLOY))["origins"]
    lines = text.split("\n")
    by_line = {int(str(o["lines"]).split("-")[0]): o for o in origins}
    bicycles = next(at for at, line in enumerate(lines, 1) if "bicycles" in line)
    assert by_line[bicycles]["source"] == "unknown"
    assert {o["source"] for o in origins} == {"maintainer:ada", "decision:ops/3", "unknown"}


async def test_an_old_base_is_merged_against_the_servers_history_whoever_wrote_meanwhile(host: Writer) -> None:
    base = await host.revision(DEPLOY)
    (host.root / DEPLOY).write_text(host.text(DEPLOY).replace("retries | 3", "retries | 4"))
    body = PAGES[DEPLOY].split("---\n", 2)[2].replace("40 seconds", "45 seconds")
    answer = await host.merge(DEPLOY, body, base_revision=base)
    assert answer["status"] == "done"
    assert host.text(DEPLOY) == PAGES[DEPLOY].replace("40 seconds", "45 seconds").replace("retries | 3", "retries | 4")


@pytest.mark.parametrize(
    ("path", "says"),
    [
        ("../outside.md", "would leave"),
        ("/etc/notes.md", "relative"),
        (".hidden/x.md", "hidden"),
        ("guides/.x.md", "hidden"),
        ("guides/CON.md", "CON"),
    ],
)
async def test_paths_that_can_be_no_page_are_refused(host: Writer, path: str, says: str) -> None:
    with pytest.raises(Refused, match=says):
        await host.merge(path, "# X\n")


async def test_the_revision_of_an_answer_is_a_base_whatever_the_answer_was(host: Writer) -> None:
    """Nobody has read the page.

    Revisions named by an analysis or a conflict must still be known when it is written later.
    """
    analysis = await host.merge("guides/onboarding.md", "Nothing.", section="Onboarding")
    file = host.root / "guides/onboarding.md"
    file.write_text(file.read_text() + "\nAn editor was here.\n")
    body = PAGES["guides/onboarding.md"].replace("in their first week", "on their first day")
    answer = await host.merge("guides/onboarding.md", body, base_revision=analysis["revision"])
    assert answer["status"] == "done", answer
    assert file.read_text() == body + "\nAn editor was here.\n"


async def test_with_the_state_in_postgresql_a_page_is_merged_moved_and_taken_back_as_well(
    tmp_path: Path, postgres: PostgresServer, schema: str
) -> None:
    shared = Settings(
        kb=write(tmp_path / "kb", PAGES), state_dir=tmp_path / "s", database_url=postgres.url(), database_schema=schema
    )
    elsewhere = replace(shared, state_dir=tmp_path / "other machine")
    async with writing(shared) as host, writing(elsewhere, host="other") as other:
        base = await host.revision(DEPLOY)
        first = await host.merge(DEPLOY, "Ada owns it.", section="See also", base_revision=base)
        second = await other.merge(
            DEPLOY, "| limit | value |\n|---|---|\n| retries | 4 |", section="Limits", base_revision=base
        )
        assert (first["status"], second["status"]) == ("done", "done")
        both = await other.revision(DEPLOY)
        await host.call("kb_move", path=DEPLOY, to="moved.md")
        back = await other.call("kb_revert", path="moved.md", revision=both)
        assert (back["status"], back["path"]) == ("done", DEPLOY)
        assert "Ada owns it." in host.text(DEPLOY)
        assert "| retries | 4 |" in host.text(DEPLOY)
        assert len((await other.call("kb_history", path=DEPLOY))["revisions"]) >= 3


async def test_a_page_that_is_not_utf8_is_left_alone(host: Writer) -> None:
    (host.root / "latin.md").write_bytes("# Grüße\n".encode("latin-1"))
    with pytest.raises(Refused, match="UTF-8"):
        await host.merge("latin.md", "# Hello\n", base_revision=await host.revision("latin.md"))
    assert (host.root / "latin.md").read_bytes() == "# Grüße\n".encode("latin-1")


async def test_line_ends_and_byte_order_mark_stay(host: Writer) -> None:
    (host.root / "dos.md").write_bytes("\ufeff# Dos\r\n\r\nOne.\r\n\r\nTwo.".encode())
    answer = await host.merge("dos.md", "# Dos\n\nOne more.\n\nTwo.\n", base_revision=await host.revision("dos.md"))
    assert answer["status"] == "done"
    assert (host.root / "dos.md").read_bytes() == "\ufeff# Dos\r\n\r\nOne more.\r\n\r\nTwo.\r\n".encode()


@pytest.mark.parametrize("text", ["Ada owns it. It retries 3 times.", "- It retries 3 times.\n- Ada owns it."])
async def test_a_contradiction_with_a_sentence_or_item_is_listed_while_that_exists(host: Writer, text: str) -> None:
    (host.root / "retries.md").write_text(f"# Retries\n\n{text}\n", encoding="utf-8")
    base = await host.revision("retries.md")
    answer = await host.merge("retries.md", "It retries 5 times.", source="code:src/a.py", base_revision=base)
    assert answer["status"] == "conflict"
    (found,) = (await host.call("kb_contradictions"))["contradictions"]
    assert found["existing"]["text"] == "It retries 3 times."
    (host.root / "retries.md").write_text("# Retries\n\nAda owns it.\n", encoding="utf-8")
    assert (await host.call("kb_contradictions"))["contradictions"] == []


async def test_a_persons_edit_is_written_and_a_stronger_claim_elsewhere_is_listed(host: Writer) -> None:
    await host.merge(
        "guides/limits.md", "# Limits\n\nThe payment service retries a failed call 5 times.\n", source="official:limits"
    )
    await answers(host.client)
    await host.merge("guides/notes.md", "# Notes\n\nThe payment service retries a failed call 9 times.\n")
    await host.app.services.load_writing().elsewhere.settled()
    (found,) = (await host.call("kb_contradictions"))["contradictions"]
    assert found["existing"]["path"] == "guides/limits.md"
    assert found["new"]["path"] == "guides/notes.md"


async def test_every_act_is_on_record_and_readable_without_any_text(host: Writer) -> None:
    base = await host.revision(DEPLOY)
    done = await host.merge(DEPLOY, "A secret of the trade.", section="See also", base_revision=base)
    await host.call("kb_delete", path=DEPLOY, base_revision=done["revision"])
    (content,) = (await host.client.read_resource("audit://recent")).contents
    assert isinstance(content, TextResourceContents)
    newest, before, *_ = json.loads(content.text)
    assert (newest["tool"], before["tool"]) == ("kb_delete", "kb_merge")
    assert before["changes"][0]["after"] == done["revision"] == newest["changes"][0]["before"]
    assert before["principal"].endswith("@writer")
    assert "secret" not in content.text


async def test_a_reader_of_recent_acts_does_not_learn_who_wrote_to_whom_elsewhere(host: Writer) -> None:
    outbox, now = host.app.base.state.outbox, host.app.services.now()
    outbox_entry = OutboxEntry("kf-1", "bob@cursor", "zulip_send_message", "zulip:direct/Zoe", "dd" * 32, now)
    await outbox.begin(outbox_entry, within=timedelta(0))
    await outbox.end("kf-1", "done", at=now)
    content = (await host.client.read_resource("audit://recent")).contents[0]
    assert isinstance(content, TextResourceContents)
    newest = json.loads(content.text)[0]
    assert (newest["tool"], newest["outcome"]) == ("zulip_send_message", "sent")
    assert "Zoe" not in content.text


async def test_evidence_with_a_link_to_nowhere_is_taken_back_and_that_is_on_record(host: Writer) -> None:
    """The design, section 5: internal verification."""
    base = await host.revision(DEPLOY)
    with pytest.raises(Refused, match=r"undone.*'nowhere.md' leads nowhere"):
        await host.merge(
            DEPLOY, "Read [the plan](nowhere.md) first.", source="wiki:x", section="See also", base_revision=base
        )
    assert host.text(DEPLOY) == PAGES[DEPLOY]
    content = (await host.client.read_resource("audit://recent")).contents[0]
    assert isinstance(content, TextResourceContents)
    assert json.loads(content.text)[0]["outcome"] == "undone"


async def test_a_directory_sets_how_evidence_is_weighed_below_it(host: Writer) -> None:
    base = await host.revision(DEPLOY)
    rules = "half_life_days: 10, authority: {wiki: 0.1}, weights: {recency: 0, authority: 1, corroboration: 0}"
    (host.root / "guides/_index.md").write_text(f"---\nmerge: {{{rules}}}\n---\n")
    old = {"source": "wiki:rollback", "observed_at": "2020-01-01", "section": "Rolling back"}
    answer = await host.merge(DEPLOY, "The router is blue.", base_revision=base, dry_run=True, **old)
    (block,) = answer["blocks"]
    assert block["new"]["authority"] == block["new"]["confidence"] == 0.1
    assert block["new"]["recency"] < 1e-6


async def test_a_directory_of_logs_accepts_appends(host: Writer) -> None:
    (host.root / "daily").mkdir()
    (host.root / "daily/_index.md").write_text("---\nappend: true\n---\n# Daily notes\n")
    (host.root / "daily/2026-11-21.md").write_text("# 2026-11-21\n\nMet Ada.\n")
    base = await host.revision("daily/2026-11-21.md")
    answer = await host.merge("daily/2026-11-21.md", "Met Ben, too.", base_revision=base)
    assert answer["status"] == "done"
    assert host.text("daily/2026-11-21.md") == "# 2026-11-21\n\nMet Ada.\n\nMet Ben, too.\n"


async def test_an_impossible_write_is_an_error_with_the_reason_and_nothing_is_half_written(host: Writer) -> None:
    (host.root / "huge.md").write_bytes(b"# Huge\n\n" + b"x" * 50_000_000)
    with pytest.raises(Refused, match="too large"):
        await host.merge("huge.md", "# Small\n", base_revision="0123456789abcdef")
    base = await host.revision(DEPLOY)
    (host.root / DEPLOY).unlink()
    with pytest.raises(Refused, match="no longer exists"):
        await host.merge(DEPLOY, "# Deploying\n", base_revision=base)
    (host.root / DEPLOY).mkdir()
    with pytest.raises(Refused, match=r"deploy\.md"):
        await host.merge(DEPLOY, "# Deploying\n")
    assert not [name for name in os.listdir(host.root / "guides") if name.startswith(".forge")]  # noqa: PTH208  names are enough


async def test_a_page_that_is_reached_through_a_link_is_one_page(host: Writer) -> None:
    (host.root / "alias.md").symlink_to(DEPLOY)
    base = await host.revision("alias.md")
    answer = await host.merge("alias.md", "Ada owns it.", section="See also", base_revision=base)
    assert (answer["status"], answer["path"]) == ("done", DEPLOY)
    assert "Ada owns it." in host.text(DEPLOY)
    assert (host.root / "alias.md").is_symlink()
    (host.root / "away.md").symlink_to("/etc/hostname")
    with pytest.raises(Refused, match="leaves the knowledge base"):
        await host.merge("away.md", "# X\n")


async def test_a_page_of_which_only_the_beginning_was_shown_loses_nothing_when_it_is_sent_back(host: Writer) -> None:
    text = "# Pumps\n\n" + "".join(
        f"Pump {n} was checked on the morning round and ran without noise.\n\n" for n in range(90)
    )
    write(host.root, {"pumps.md": text})
    shown = await host.call("kb_read", path="pumps.md")
    assert len(shown["text"]) < len(text) / 2
    sent = shown["text"].replace("Pump 1 was", "Pump 1 (new) was")
    answer = await host.merge("pumps.md", sent, base_revision=shown["revision"])
    assert answer["status"] == "analysis"
    assert "view='full'" in answer["note"]
    assert host.text("pumps.md") == text
    whole = await host.merge("pumps.md", sent, base_revision=shown["revision"], section="*")
    assert whole["status"] == "done"
