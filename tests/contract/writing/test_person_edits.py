"""A person's text through a host is written as it was sent; ambiguous text leads to a question."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from knowledge.history.audit.chain import fields_of
from knowledge.merge.model import pair_digest
from mcp_server.app.settings.settings import Settings
from mcp_server.approvals.approvers import Approver
from tests.support.hosts.writers import Writer, let_in, writing
from tests.support.knowledge_bases.folders import write
from tests.support.roads.road import connect, opened

PAGE = """\
---
title: Backups
---
# Backups

Copies of the database are made every night and kept for thirty days in another city.

## Restore

Ask the operators. They need the name of the database and the day.

```sh
restore --day monday
```
"""
OLDER = "Copies of the database are made every night and kept for thirty days in another city."
NEWER = "Copies of the database are made every evening and kept for thirty days in a vault."
OTHER = "# Holidays\n\nThere are thirty days of holidays a year.\n\n## Requests\n\nAsk your team.\n"


@asynccontextmanager
async def connected(tmp_path: Path, level: float = 5) -> AsyncIterator[Writer]:
    files = {
        "guides/backups.md": PAGE,
        "guides/holidays.md": OTHER,
        "log.md": "---\nappend: true\n---\n# Log\n\n- Begun.\n",
    }
    settings = Settings(kb=write(tmp_path / "kb", files), state_dir=tmp_path / "state", open_browser=False)
    async with writing(settings, level=level) as writer:
        yield writer


async def edit(host: Writer, content: str, path: str = "guides/backups.md") -> dict[str, object]:
    return await host.merge(path, content, base_revision=await host.revision(path))


async def test_a_link_to_a_page_that_does_not_exist_yet_is_written_with_a_warning(tmp_path: Path) -> None:
    async with connected(tmp_path) as host:
        answer = await edit(host, PAGE.replace("the operators", "the [operators](operators.md)"))
        assert answer["status"] == "done"
        assert "the link to 'operators.md' leads nowhere" in str(answer["note"])
        assert "[operators](operators.md)" in host.text("guides/backups.md")


async def test_a_fence_without_an_end_is_written_with_a_warning(tmp_path: Path) -> None:
    async with connected(tmp_path) as host:
        answer = await edit(host, PAGE.replace("Ask the operators.", "~~~\nAsk the operators."))
        assert answer["status"] == "done"
        assert "never closed" in str(answer["note"])


@pytest.mark.parametrize("end", ["", "\n", "\n\n\n"])
async def test_the_page_ends_as_the_caller_sent_it(tmp_path: Path, end: str) -> None:
    async with connected(tmp_path) as host:
        await edit(host, PAGE.rstrip("\n") + " Done." + end)
        assert host.text("guides/backups.md") == PAGE.rstrip("\n") + " Done." + end


async def test_an_empty_front_matter_removes_that_of_the_page_and_none_keeps_it(tmp_path: Path) -> None:
    async with connected(tmp_path) as host:
        body = PAGE.partition("---\n# ")[2]
        await edit(host, f"# {body}")
        assert host.text("guides/backups.md") == PAGE
        await edit(host, f"---\n---\n# {body}")
        assert host.text("guides/backups.md") == f"# {body}"


async def test_a_translation_with_the_base_replaces_the_page(tmp_path: Path) -> None:
    async with connected(tmp_path) as host:
        german = "---\ntitle: Sicherungen\n---\n# Sicherungen\n\nJede Nacht wird kopiert.\n\n## Zurück\n\nFrag den Betrieb.\n"
        assert (await edit(host, german))["status"] == "done"
        assert host.text("guides/backups.md") == german
        assert (await edit(host, "# Copies\n\nRewritten from the first word to the last.\n"))["status"] == "done"
        assert host.text("guides/backups.md").endswith("# Copies\n\nRewritten from the first word to the last.\n")


async def test_a_page_of_front_matter_only_can_be_written_and_changed(tmp_path: Path) -> None:
    async with connected(tmp_path) as host:
        assert (await host.merge("stub.md", "---\ntitle: Stub\n---\n"))["status"] == "done"
        assert (await edit(host, "---\ntitle: Stub\ntags: [a]\n---\n", "stub.md"))["status"] == "done"
        assert host.text("stub.md") == "---\ntitle: Stub\ntags: [a]\n---\n"


async def test_unclear_whether_page_or_part_leads_to_a_question(tmp_path: Path) -> None:
    async with connected(tmp_path) as host:
        rewritten = (
            "Nobody has to think about losing what was typed, since all of it goes to tape in the evening, says Ann. "
            * 2
        )
        answer = await edit(host, rewritten)
        assert (answer["status"], answer["diff"]) == ("analysis", "")
        assert "not clear whether this is the whole page" in str(answer["note"])
        assert host.text("guides/backups.md") == PAGE
        revision = await host.revision("guides/backups.md")
        refused = await host.refused(
            "kb_merge",
            path="guides/backups.md",
            content=rewritten,
            source="code:a.py",
            section="*",
            base_revision=revision,
        )
        assert "only source 'user' may do" in refused
        unread = await host.merge("guides/backups.md", rewritten, section="*")
        assert (unread["status"], host.text("guides/backups.md")) == ("analysis", PAGE)
        done = await host.merge("guides/backups.md", rewritten, section="*", base_revision=revision)
        assert done["status"] == "done"
        assert host.text("guides/backups.md").endswith(f"---\n{rewritten}")


async def test_a_log_entry_takes_one_call_without_a_base(tmp_path: Path) -> None:
    async with connected(tmp_path) as host:
        answer = await host.merge("log.md", "- Went on.\n")
        assert answer["status"] == "done"
        assert host.text("log.md").endswith("- Begun.\n- Went on.\n")


DAY = "---\nappend: true\n---\n# 2026-11-27\n\n- All is green\n"


@pytest.mark.parametrize("with_base", [False, True])
@pytest.mark.parametrize(
    ("page", "entry"),
    [
        (DAY, "- All is green again\n"),
        (DAY, "# 2026-11-28\n\n- All is green\n"),
        (DAY.replace("# 2026-11-27\n\n- ", "# Log\n\n2026-11-27: "), "2026-11-28: All is green\n"),
        (DAY.replace("# ", "# Log\n\n## "), "## 2026-11-28\n\n- All is green\n"),
    ],
    ids=["item", "day", "paragraph", "section"],
)
async def test_an_entry_like_those_of_a_short_log_is_added_and_replaces_none(
    tmp_path: Path, page: str, entry: str, *, with_base: bool
) -> None:
    async with connected(tmp_path) as host:
        (host.root / "log.md").write_text(page, encoding="utf-8")
        answer = await (edit(host, entry, "log.md") if with_base else host.merge("log.md", entry))
        assert answer["status"] == "done"
        assert host.text("log.md").split() == [*page.split(), *entry.split()]


async def test_an_entry_without_a_base_may_begin_with_the_day_that_the_page_is_named_after(tmp_path: Path) -> None:
    async with connected(tmp_path) as host:
        (host.root / "log.md").write_text(DAY, encoding="utf-8")
        assert (await host.merge("log.md", "# 2026-11-27\n\n- Lunch\n"))["status"] == "done"
        assert host.text("log.md") == f"{DAY}- Lunch\n"


async def test_a_log_rewritten_by_somebody_who_read_it_is_taken_as_the_whole_page(tmp_path: Path) -> None:
    async with connected(tmp_path) as host:
        (host.root / "log.md").write_text(DAY, encoding="utf-8")
        await edit(host, "# Friday 2026-11-27\n\n- All was green\n", "log.md")
        assert host.text("log.md") == DAY.replace("# ", "# Friday ").replace("is", "was")


async def test_text_without_a_certain_place_is_written_by_the_call_that_the_answer_offers(
    tmp_path: Path,
) -> None:
    async with connected(tmp_path) as host:
        text = "Nobody may do it on a Friday.\n"
        revision = await host.revision("guides/backups.md")
        answer = await host.merge("guides/backups.md", text, source="zulip:ops/plans/1", base_revision=revision)
        assert (answer["status"], answer["diff"]) == ("analysis", "")
        assert {block["verdict"] for block in answer["blocks"]} == {"ask"}
        assert host.text("guides/backups.md") == PAGE
        place = next(one for one in answer["places"] if one["section"] == "Backups > Restore")
        assert place["call"] == 'path="guides/backups.md", section="+ Backups > Restore"'
        done = await host.merge(
            place["path"], text, source="zulip:ops/plans/1", base_revision=revision, section=place["section"]
        )
        assert done["status"] == "done"
        assert text in host.text("guides/backups.md").partition("## Restore")[2]


@pytest.mark.parametrize(
    "text",
    ["Nobody may do it on a Friday.\n", "### On Fridays\n\nNobody may do it on a Friday.\n"],
    ids=["a sentence", "a section of its own"],
)
async def test_a_persons_text_that_follows_an_offer_replaces_nothing(tmp_path: Path, text: str) -> None:
    async with connected(tmp_path) as host:
        revision = await host.revision("guides/backups.md")
        asked = await host.merge("guides/backups.md", text, base_revision=revision)
        assert (asked["status"], asked["diff"]) == ("analysis", "")
        assert asked["places"]
        for place in asked["places"]:
            arguments = dict(re.findall(r'(\w+)="([^"]*)"', place["call"]))
            assert arguments.keys() == {"path", "section"}
            done = await host.merge(
                arguments["path"], text, section=arguments["section"], base_revision=revision, dry_run=True
            )
            changed = [line for line in done["diff"].splitlines()[2:] if line.startswith(("-", "+"))]
            assert changed
            assert [line for line in changed if line.startswith("-")] == []
            assert "treated as new text" not in str(done["note"])


@pytest.mark.parametrize("source", ["user", "zulip:ops/plans/1"])
async def test_an_offer_of_one_of_several_sections_of_one_name_adds_to_that_one(tmp_path: Path, source: str) -> None:
    """Each was offered by the same name, so following any of them ended in "is ambiguous"."""
    text, sections = "Nobody may do it on a Friday.\n", ["Ask the farmers.", "Ask the sailors.", "Ask the bakers."]
    async with connected(tmp_path) as host:
        page = "# Work\n" + "".join(f"\n## Who\n\n{said}\n" for said in sections)
        (host.root / "guides" / "work.md").write_text(page, encoding="utf-8")
        known = {"source": source, "base_revision": await host.revision("guides/work.md")}
        asked = await host.merge("guides/work.md", text, **known)
        assert {place["section"] for place in asked["places"]} == {"Work > Who"}
        diffs = set()
        for place in asked["places"]:
            arguments = dict(re.findall(r'(\w+)="([^"]*)"', place["call"]))
            done = await host.merge(arguments["path"], text, section=arguments["section"], dry_run=True, **known)
            assert f"+{text.strip()}" in done["diff"]
            diffs.add(done["diff"])
        assert len(diffs) == len(sections)


async def test_evidence_under_a_heading_of_its_own_goes_to_the_section_that_was_named(tmp_path: Path) -> None:
    """Its heading was taken for the section, and the page has none of that name."""
    async with connected(tmp_path) as host:
        text = "## On Fridays\n\nSailors sleep.\n"
        revision = await host.revision("guides/backups.md")
        done = await host.merge(
            "guides/backups.md", text, source="code:a.py", section="Restore", base_revision=revision
        )
        assert done["status"] == "done"
        assert "Sailors sleep." in host.text("guides/backups.md").partition("## Restore")[2]


async def test_a_persons_addition_to_a_section_corrects_nothing_there(tmp_path: Path) -> None:
    """A later statement of the same person would else take the place of the earlier one, although it was to be added."""
    async with connected(tmp_path) as host:
        await host.merge("guides/limits.md", "# Limits\n\n## Uploads\n\nAn upload may have 64 MiB.\n")
        before = host.text("guides/limits.md")
        known = {"base_revision": await host.revision("guides/limits.md")}
        added = await host.merge("guides/limits.md", "An upload may have 32 MiB.", section="+ Uploads", **known)
        assert (added["status"], host.text("guides/limits.md")) == ("conflict", before)
        assert [block["verdict"] for block in added["blocks"]] == ["flag"]


async def test_a_directory_is_answered_with_the_places_that_fit_and_nothing_is_written(tmp_path: Path) -> None:
    async with connected(tmp_path) as host:
        answer = await host.merge("guides", "A request for holidays takes your team two days.\n")
        assert (answer["status"], answer["diff"], answer["path"]) == ("analysis", "", "guides")
        assert 0 < len(answer["places"]) <= 3
        assert answer["places"][0]["path"] == "guides/holidays.md"
        assert "send this call again" in str(answer["note"])


async def test_another_version_of_a_statement_leads_to_a_question_and_the_answer_decides(tmp_path: Path) -> None:
    async with connected(tmp_path) as host:
        path = "guides/backups.md"
        base = await host.revision(path)
        known: dict[str, object] = {"source": "code:ops/backup.py", "base_revision": base, "section": "Backups"}
        asked = await host.merge(path, NEWER, **known)
        assert (asked["status"], asked["diff"]) == ("analysis", "")
        (question,) = asked["questions"]
        assert (question["existing"], question["new"]) == (OLDER, NEWER)
        pair = {name: question[name] for name in ("existing", "new")}
        same = await host.merge(path, NEWER, **known, answers=[{**pair, "answer": "same"}])
        assert same["status"] == "unchanged"
        other = await host.merge(path, NEWER, **known, answers=[{**pair, "answer": "replaces"}])
        assert other["status"] == "conflict"
        assert other["proposal"] is not None, "a person decides"
        assert host.text(path) == PAGE
        both = await host.merge(path, NEWER, **known, answers=[{**pair, "answer": "both"}])
        assert both["status"] == "done"
        assert NEWER in host.text(path)
        assert OLDER in host.text(path)
        newest = fields_of((await host.app.services.state.ledger.records())[-1])
        assert newest["judged"] == [[pair_digest(OLDER, NEWER).hex(), "both"]], (
            "on record as the host's word, without the text"
        )


async def test_a_directory_is_answered_with_places_before_anything_is_indexed(tmp_path: Path) -> None:
    files = {"guides/backups.md": PAGE, "guides/holidays.md": OTHER}
    settings = Settings(kb=write(tmp_path / "kb", files), state_dir=tmp_path / "state", open_browser=False)
    allowed = await let_in(settings)
    async with opened(allowed, indexing=False) as app, connect(app) as client:
        host = Writer(client, app, settings.kb)
        answer = await host.merge("guides", "# Leave\n\nA request for holidays takes your team two days.\n")
        assert (answer["status"], answer["diff"]) == ("analysis", "")
        assert {place["path"] for place in answer["places"]} <= set(files)
        assert "path='guides/leave.md' makes a page of its own" in answer["note"]


async def approve(host: Writer, proposal: dict[str, object]) -> str:
    """Approve the proposal as a person does, and return its state."""
    waiting = await host.app.services.state.trust.proposal(str(proposal["id"]))
    assert waiting is not None
    return (await host.app.approvals.approve(waiting.id, waiting.hash, Approver("ann", "page"), "")).state


async def test_approving_a_claimed_replacement_replaces_the_statement(tmp_path: Path) -> None:
    async with connected(tmp_path) as host:
        path = "guides/backups.md"
        answers = [{"existing": OLDER, "new": NEWER, "answer": "replaces"}]
        known = {"source": "code:ops/backup.py", "section": "Backups", "base_revision": await host.revision(path)}
        answer = await host.merge(path, NEWER, **known, answers=answers)
        assert await approve(host, answer["proposal"]) == "executed"
        assert host.text(path) == PAGE.replace(OLDER, NEWER)


async def test_a_proposal_writes_what_was_shown_and_no_open_question(tmp_path: Path) -> None:
    async with connected(tmp_path, level=2) as host:
        path, fresh = "guides/backups.md", "Tapes are labelled by hand."
        known = {"source": "code:ops/backup.py", "section": "Backups", "base_revision": await host.revision(path)}
        answer = await host.merge(path, f"{fresh}\n\n{NEWER}\n", **known)
        assert answer["status"] == "proposed"
        assert await approve(host, answer["proposal"]) == "executed"
        assert fresh in host.text(path)
        assert NEWER not in host.text(path)


async def test_a_host_that_may_only_propose_is_asked_without_a_proposal(tmp_path: Path) -> None:
    async with connected(tmp_path, level=2) as host:
        for path in ("guides", "guides/backups.md"):
            base = await host.revision(path) if path.endswith(".md") else None
            answer = await host.merge(path, "Nobody may do it on a Friday.", source="zulip:a/b/1", base_revision=base)
            assert (answer["status"], answer["proposal"]) == ("analysis", None)
            assert answer["places"]
