"""The part of `demo` about writing: two hosts and an editor change one page, and evidence contradicts it."""

from __future__ import annotations

from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.markdown import Markdown
from rich.markup import escape
from rich.padding import Padding
from rich.panel import Panel

from mcp_server.app.knowledge_base import open_state, utc_now
from mcp_server.app.settings.settings import Settings
from mcp_server.cli.demo.steps import call, connected, step
from mcp_server.gate.host_registration import Principal, enrol, os_user
from mcp_server.gate.trust.scores import grant

if TYPE_CHECKING:
    from mcp import Client

PAGE = "release-checklist.md"
TEXT = """\
# Release checklist

## Steps

- freeze the branch
- run the full test suite
- tag the release

## Limits

| limit | value |
|---|---|
| retries | 3 |
| timeout | 30 s |
"""
LIST = "- freeze the branch\n- tell the support team\n- run the full test suite\n- tag the release"
TABLE = "| limit | value |\n|---|---|\n| retries | 3 |\n| timeout | 45 s |"
OTHER_TABLE = TABLE.replace("45 s", "60 s")
EVIDENCE = "| limit | value |\n|---|---|\n| retries | 5 |"


async def merge(console: Console, kb: Path, state: Path) -> dict[str, Any]:
    """Show that no edit is lost when several hosts write, and that a contradiction waits for a person."""
    (kb / PAGE).write_text(TEXT, encoding="utf-8")
    async with AsyncExitStack() as stack:
        ada, ben = [await _host(stack, name, kb, state) for name in ("ada", "ben")]
        base = (await call(ada, "kb_read", path=PAGE))["revision"]
        step(
            console,
            "Merge",
            "two hosts and an editor change one page, all from the same revision",
            f"kb_read({PAGE!r})",
            None,
        )
        (kb / PAGE).write_text(TEXT.replace("tag the release", "tag and sign the release"), encoding="utf-8")
        console.print("    [dim]an editor saves the page without telling the server[/]")
        first = await call(ada, "kb_merge", path=PAGE, section="Steps", content=LIST, base_revision=base)
        _tell(console, "ada", "adds an item to the list the editor changed", first)
        second = await call(ben, "kb_merge", path=PAGE, section="Limits", content=TABLE, base_revision=base)
        _tell(console, "ben", "changes a row of the table", second)
        third = await call(ada, "kb_merge", path=PAGE, section="Limits", content=OTHER_TABLE, base_revision=base)
        _tell(console, "ada", "changes the same row to something else", third)
        now = (await call(ada, "kb_read", path=PAGE))["revision"]
        evidence = {"content": EVIDENCE, "source": "wiki:limits", "base_revision": now}
        fourth = await call(ada, "kb_merge", path=PAGE, **evidence)
        _tell(console, "ada", "has read in a wiki that there are 5 retries", fourth)
        listed = await call(ben, "kb_contradictions")
        history = await call(ben, "kb_history", path=PAGE)
    _show(console, (kb / PAGE).read_text(encoding="utf-8"), history)
    answers = {"joined": [first, second], "overlap": third, "evidence": fourth}
    return {"page": PAGE, **answers, "contradictions": listed["contradictions"], "history": history["revisions"]}


async def _host(stack: AsyncExitStack, name: str, kb: Path, state: Path) -> Client:
    """Return the client of a registered host that may edit, with its own server process."""
    async with open_state(Settings(kb=kb, state_dir=state)) as opened:
        secret = await enrol(opened, name, now=utc_now())
        await grant(opened, Principal(os_user(), name).id, 3, by=os_user(), now=utc_now())
    return await stack.enter_async_context(connected(kb, state, name, secret))


def _tell(console: Console, who: str, what: str, answer: dict[str, Any]) -> None:
    colour = "green" if answer["status"] == "done" else "yellow"
    console.print(f" [bold]{who}[/] {what}: [{colour}]{answer['status']}[/]")
    for conflict in answer["conflicts"]:
        for side in ("base", "ours", "theirs"):
            if conflict[side].strip():
                console.print(f"    [dim]{side:<7}{escape(conflict[side].strip())}[/]", highlight=False)
    for block in answer["blocks"]:
        if block["verdict"] in ("flag", "retain", "ask"):
            console.print(Padding(f"[yellow]{block['verdict']}[/]: {escape(block['reason'])}", (0, 0, 0, 4)))


def _show(console: Console, text: str, history: dict[str, Any]) -> None:
    states = len(history["revisions"])
    title = f"{PAGE} @ {history['revision']}: {states} revisions, each can be restored"
    console.print(Panel(Markdown(text), title=title, border_style="dim"))
