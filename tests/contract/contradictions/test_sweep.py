"""Contradictions between pages: found by a sweep and after each write, the most certain first, never between dated pages."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from mcp_server.app.settings.settings import Settings
from tests.contract.protocol.test_server import answers
from tests.support.hosts.persons import Person
from tests.support.hosts.writers import writing
from tests.support.knowledge_bases.folders import write

SERVICE = "The payment service retries a failed call {} times before it gives up.\n"
PAGES = {
    "guides/payments.md": "---\nsource: official:payments\n---\n# Payments\n\n" + SERVICE.format(3),
    "guides/operations.md": "# Operations\n\nTell support first.\n\n" + SERVICE.format(5),
    "guides/other.md": "# Backups\n\nBackups of the mail archive are kept for 30 days.\n",
    "wiki/backups.md": "---\nsource: wiki:old\n---\n# Backups\n\nBackups of the mail archive are kept for 14 days.\n",
    "daily/2026-11-20.md": "# 20 November\n\nToday the checkout queue holds 7 open orders of the shop.\n",
    "daily/2026-11-21.md": "# 21 November\n\nToday the checkout queue holds 9 open orders of the shop.\n",
    "log.md": "---\nappend: true\n---\n# Log\n\nToday the checkout queue holds 11 open orders of the shop.\n",
    "specs/wire-1.md": "# Wire\n\nA message of the wire protocol has a header of 8 bytes.\n",
    "specs/wire-2.md": "# Wire\n\nA message of the wire protocol has a header of 12 bytes.\n",
    "services/mail.md": "# Mail\n\n- timeout: 30\n- retries: 3\n",
    "services/chat.md": "# Chat\n\n- timeout: 60\n- retries: 5\n",
}


@pytest.fixture
def ann(tmp_path: Path) -> Person:
    write(tmp_path / "kb", PAGES)
    return Person(tmp_path)


def test_a_sweep_finds_contradictions_between_pages_the_most_certain_first(ann: Person) -> None:
    done = ann.here("check", "--json")
    found = json.loads(done.stdout)
    assert (done.returncode, found["pages"], found["skipped"], found["new"]) == (1, len(PAGES), [], 2)
    pages = [{one["existing"]["path"], one["new"]["path"]} for one in found["contradictions"]]
    assert pages == [{"guides/payments.md", "guides/operations.md"}, {"guides/other.md", "wiki/backups.md"}]
    first, second = found["contradictions"]
    assert first["existing"]["path"] == "guides/payments.md", "the official source is believed more"
    assert first["confidence"] > second["confidence"]
    assert "guides/payments.md says '3 times', guides/operations.md says '5 times'" in first["reason"]
    again = json.loads(ann.here("check", "--json").stdout)
    assert (again["new"], again["contradictions"]) == (0, found["contradictions"])
    here = json.loads(ann.here("check", "wiki", "--json").stdout)
    assert (here["pages"], here["contradictions"]) == (1, [second])


def test_a_dismissed_contradiction_is_not_found_again_when_a_page_was_moved_in_a_file_manager(ann: Person) -> None:
    first, second = json.loads(ann.here("check", "--json").stdout)["contradictions"]
    with ann.at("contradictions", "dismiss", str(first["id"]), "--reason", "two services") as screen:
        screen.until("type the number of the contradiction:")
        screen.type(f"{first['id']}\n")
        assert screen.left() == 0
    (ann.kb / "ops").mkdir()
    (ann.kb / "guides/operations.md").rename(ann.kb / "ops/run.md")
    assert json.loads(ann.here("check", "--json").stdout)["contradictions"] == [second]


def test_excluded_pages_and_templates_are_compared_with_nothing_and_stay_in_search(ann: Person) -> None:
    """Decision 103."""
    write(ann.kb, {"_index.md": "---\nexclude: [wiki]\n---\n# Home\n", "_templates/mail.md": PAGES["services/mail.md"]})
    done = ann.here("check", "--json")
    found = json.loads(done.stdout)
    assert (found["excluded"], found["new"]) == (2, 1)
    (left,) = found["contradictions"]
    assert left["existing"]["path"] == "guides/payments.md"
    write(ann.folder / ".config" / "knowledge-forge", {"forge.toml": 'exclude = "guides/oper*"\n'})
    by_setting = ann.here("check", "guides")
    assert "1 page left out: templates, or named by exclude" in by_setting.stderr
    assert "wiki/backups.md" in ann.here("search", "backups of the mail archive").stdout


async def test_after_a_write_an_excluded_page_is_not_compared(tmp_path: Path) -> None:
    kb = write(tmp_path / "kb", {**PAGES, "wiki/_index.md": "---\nexclude: [backups.md]\n---\n# Wiki\n"})
    async with writing(Settings(kb=kb, state_dir=tmp_path / "state")) as host:
        text = "# Mail\n\nBackups of the mail archive are kept for 60 days.\n"
        await host.merge("mail.md", text)
        await host.app.services.load_writing().elsewhere.settled()
        flags = await host.app.base.state.ledger.flags("mail.md", limit=10)
        assert {flag.contradiction.existing.path for flag in flags} == {"guides/other.md"}


def test_a_check_without_contradictions_says_so(ann: Person) -> None:
    done = ann.here("check", "daily")
    assert (done.returncode, done.stdout) == (0, "checked 2 pages, found 0 new contradictions\n")


@pytest.mark.skipif(os.name == "nt", reason="there are no pseudo-terminals")
def test_a_person_dismisses_and_reopens_in_the_terminal(ann: Person) -> None:
    ann.here("check")
    listed = json.loads(ann.here("contradictions", "--json").stdout)
    number = str(listed[0]["id"])
    refused = ann.run("contradictions", "dismiss", number, "--reason", "two queues")
    assert (refused.returncode, "only a person at a terminal" in refused.stderr) == (1, True)
    assert ann.here("contradictions", "dismiss", number).returncode == 2, "a reason is required"
    with ann.at("contradictions", "dismiss", number, "--reason", "two queues") as screen:
        screen.until("retries a failed call 3 times", "type the number of the contradiction:")
        screen.type(f"{number}\n")
        screen.until("is dismissed", "to undo this")
        assert screen.left() == 0
    assert [str(one["id"]) for one in json.loads(ann.here("contradictions", "--json").stdout)] != [number]
    (kept,) = json.loads(ann.here("contradictions", "list", "--dismissed", "--json").stdout)
    assert (kept["dismissed"]["ruling"], kept["dismissed"]["reason"]) == ("both", "two queues")
    assert "both hold: two queues" in ann.here("contradictions", "list", "--dismissed").stdout
    assert json.loads(ann.here("check", "--json").stdout)["new"] == 0, "it is not raised again"
    assert ann.here("contradictions", "reopen", number).returncode == 0
    assert ann.here("contradictions", "reopen", number).returncode == 1
    assert len(json.loads(ann.here("contradictions", "--json").stdout)) == len(listed)


async def test_after_a_write_the_page_is_compared_with_the_others(tmp_path: Path) -> None:
    settings = Settings(kb=write(tmp_path / "kb", PAGES), state_dir=tmp_path / "state")
    async with writing(settings) as host:
        await answers(host.client)
        await host.merge("notes/weak.md", "# Notes\n\n" + SERVICE.format(9), source="wiki:notes")
        await host.merge(
            "daily/2026-11-22.md", "# Today\n\nToday the checkout queue holds 12 open orders of the shop.\n"
        )
        await host.app.services.load_writing().elsewhere.settled()
        found = (await host.call("kb_contradictions", path="notes"))["contradictions"]
        others = {one["existing"]["path"] for one in found}
        assert others == {"guides/payments.md", "guides/operations.md"}, "on both pages, whichever side is stronger"
        assert (await host.call("kb_contradictions", path="daily"))["contradictions"] == []
