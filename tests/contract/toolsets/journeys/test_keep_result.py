"""A journey's result becomes a page through the gate, with its sources and without retyping: by call, terminal and page."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from mcp_server.app.settings.settings import Settings
from mcp_server.approvals.approvers import Approver
from tests.support.hosts.writers import Writer, let_in
from tests.support.knowledge_bases.folders import write
from tests.support.roads.road import connect, opened

AGENT = """\
title: Judge
summary: Looks and judges.
initial: LOOK
complete: DONE
phases:
  - name: LOOK
    tools: [kb_read]
    prompt: Look.
    work:
      properties:
        findings:
          type: array
          items:
            type: object
            properties:
              id: {type: string}
              text: {type: string}
              quotes: {type: array, items: {$ref: "#/$defs/quoted"}}
            required: [id, text]
        unsure: {type: array, items: {type: string}}
  - name: JUDGE
    prompt: Judge.
    work:
      properties: {answer: {type: string}}
  - name: DONE
    prompt: Say it.
result: {kind: answer, fields: [JUDGE.answer, LOOK.findings], open: LOOK.unsure}
transitions:
  - {from: LOOK, to: JUDGE, condition: looked}
  - {from: JUDGE, to: DONE, condition: judged}
conditions:
  looked: {quotes_resolve: findings}
  judged: {filled: answer}
"""
PAGES = {
    "_agents/judge.yaml": AGENT,
    "notes/bees.md": "# Bees\n\n## Sound {#sound}\n\nA healthy hive hums, as old keepers say, all winter long.\n",
    "clippings/web.md": "---\nsource: url:https://example.org\n---\n# Web\n\nHives like music in the morning.\n",
}
HUMS = {"path": "notes/bees.md", "section": "Sound", "quote": "A healthy hive hums ... all winter long"}
MUSIC = {"path": "clippings/web.md", "section": "Web", "quote": "Hives like music in the morning."}


@asynccontextmanager
async def hosting(folder: Path, level: float = 3) -> AsyncIterator[Writer]:
    settings = Settings(kb=write(folder / "kb", PAGES), state_dir=folder / "state")
    settings = await let_in(settings, "desktop", level=level)
    async with opened(settings, announcing=False) as app, connect(app) as client:
        yield Writer(client, app, settings.kb)


async def judged(host: Writer, quote: dict[str, str]) -> tuple[str, dict[str, Any]]:
    """Return a complete journey, and the answer that completed it."""
    begun = await host.call("journey_start", agent="judge", brief="Does the hive live?")
    journey = str(begun["journey_id"])
    refused = await host.refused("kb_merge", path="results/hive.md", source=f"journey:{journey}")
    assert "has no result to keep: it is not complete" in refused
    await host.call("kb_read", path=quote["path"], view="full", journey_id=journey)
    findings = [{"id": "f1", "text": "It hums.", "quotes": [quote]}]
    work = {"findings": findings, "unsure": ["How old is the queen?"]}
    here = await host.call("journey_submit", journey_id=journey, version=1, work=work)
    assert here["phase"] == "JUDGE", here["prompt"]
    work = {"answer": "It lives: it hums, as a healthy hive does."}
    return journey, await host.call("journey_submit", journey_id=journey, version=2, work=work)


async def test_a_complete_journey_is_kept_as_a_page_with_its_sources(tmp_path: Path) -> None:
    async with hosting(tmp_path) as host:
        journey, done = await judged(host, HUMS)
        assert done["state"] == "complete"
        told = str(done["prompt"])
        assert told.startswith("Judge is complete.\n\nAnswer:\n- Answer: It lives: it hums, as a healthy hive does.")
        assert "Open questions:\n- Unsure: How old is the queen?" in told
        assert told.endswith("Use dry_run true first, and show the person what would be written.")
        asked = {"path": "results/hive.md", "source": f"journey:{journey}"}
        assert asked["source"] in told
        shown = await host.call("kb_merge", **asked, dry_run=True)
        assert shown["status"] == "analysis"
        assert "+It lives: it hums" in shown["diff"]
        assert not (host.root / "results/hive.md").exists()
        kept = await host.call("kb_merge", **asked)
        assert kept["status"] == "done"
        text = host.text("results/hive.md")
        assert text.startswith(
            '---\ntitle: "Does the hive live?"\nsummary: "It lives: it hums, as a healthy hive does."\n---\n\n'
            "# Does the hive live?\n\nIt lives: it hums, as a healthy hive does.\n\n## Findings\n\n- `f1` It hums.\n"
        )
        assert "## Open questions\n\n- How old is the queen?\n" in text
        assert "## Sources\n\n- [notes/bees.md > Sound](<../notes/bees.md>)\n" in text
        again = await host.call("kb_merge", **asked, base_revision=kept["revision"])
        assert again["status"] == "unchanged"
        assert host.text("results/hive.md") == text
        history = await host.call("kb_history", path="results/hive.md")
        assert history["revisions"][0]["source"] == f"journey:{journey}"
        report = (await host.call("journey_status", journey_id=journey, view="report"))["text"]
        assert (
            report.index("## Result")
            < report.index("## Open questions")
            < report.index("## Sources")
            < report.index("## Steps")
        )
        refused = await host.refused("kb_merge", path="x.md", source="journey:judge-00000000")
        assert "there is no journey" in refused


@pytest.mark.security
async def test_a_result_that_rests_on_an_untrusted_page_is_untrusted_too(tmp_path: Path) -> None:
    async with hosting(tmp_path) as host:
        journey, _ = await judged(host, MUSIC)
        await host.call("kb_merge", path="results/hive.md", source=f"journey:{journey}")
        assert "\nuntrusted: true\n" in host.text("results/hive.md")


async def test_the_gate_proposes_a_hosts_result_like_any_merge_and_a_person_writes_it_from_the_page(
    tmp_path: Path,
) -> None:
    async with hosting(tmp_path, level=2) as host:
        journey, _ = await judged(host, HUMS)
        proposed = await host.call("kb_merge", path="results/hive.md", source=f"journey:{journey}")
        assert proposed["status"] == "proposed"
        assert not (host.root / "results/hive.md").exists()
        approvals, ann = host.app.approvals, Approver("ann", "page")
        answer = await approvals.keep(journey, "results/ann.md", None, ann)
        assert answer["status"] == "done"
        assert "It lives: it hums" in host.text("results/ann.md")
