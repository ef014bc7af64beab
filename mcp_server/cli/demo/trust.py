"""The part of `demo` about trust: what an unregistered host may do, what waits for a person, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.markup import escape
from rich.padding import Padding

from knowledge.trust.ports import Proposal
from mcp_server.app.knowledge_base import open_state, utc_now
from mcp_server.app.settings.settings import Settings
from mcp_server.approvals.approvers import Approver
from mcp_server.cli.app import opened_app
from mcp_server.cli.demo.steps import REFUSED_TOOL, DemoFailed, call, step, text_of, timed_call
from mcp_server.gate.host_registration import UNENROLLED, Principal, os_user
from mcp_server.gate.trust.scores import grant

if TYPE_CHECKING:
    from mcp import Client

PAGE = "from-a-stranger.md"
CONTENT = "# From a stranger\n\nWritten by a host that nobody registered, after a person saw it and approved it.\n"


async def trust(console: Console, client: Client, kb: Path, state: Path) -> dict[str, Any]:
    """Show this client's trust, a call that waits until a person approves it, and a refusal."""
    status, took = await timed_call(client, "trust_status")
    step(console, "Trust", "a host can do what a person trusts it with", "trust_status()", took)
    console.print(
        f" [bold]{escape(status['principal'])}[/] has no secret: level [bold]{status['level']}[/] of 5, "
        f"and never more than {status['cap']}."
    )
    for tool, needs in status["needs"].items():
        verdict = "[green]allowed[/]" if status["level"] >= needs else "[yellow]waits for a person[/]"
        console.print(f"    {tool:<17} needs {needs}  {verdict}")
    proposed = await _proposed(console, client, kb, state)
    why = await _refused(client, kb, state)
    console.print(" Now a person revokes its trust: [bold]knowledge-forge trust grant unenrolled 0[/]")
    console.print(Padding(f"[red]refused[/]: {escape(why)}", (0, 0, 0, 4)))
    console.print(" Only a person can raise it again, or register a host: [bold]knowledge-forge enroll[/]\n")
    return {**status, "proposed": proposed, "refused": {"tool": REFUSED_TOOL, "why": why}, "ms": took}


async def _proposed(console: Console, client: Client, kb: Path, state: Path) -> dict[str, Any]:
    """Show an unregistered host's write: it waits, a person approves exactly what was shown, and the host reads the outcome."""
    answer = await call(client, "kb_merge", path=PAGE, content=CONTENT)
    if answer["status"] != "proposed" or (kb / PAGE).exists():
        raise DemoFailed("the gate let a stranger write; please report this")
    waiting = answer["proposal"]
    console.print(
        f" It tries to write a page: [yellow]{answer['status']}[/], {waiting['id']}; the file does not exist yet."
    )
    for line in answer["diff"].splitlines()[2:]:  # without the two lines that name the file
        console.print(f"    [dim]{escape(line)}[/]", highlight=False)
    ended = await _approved(waiting["id"], kb, state)
    console.print(f" A person approves exactly that ([bold]knowledge-forge review[/]): [green]{ended.state}[/], once.")
    carried_out = (await call(client, "proposal_status", proposal_id=waiting["id"]))["proposal"]
    if carried_out["state"] != "executed" or not (kb / PAGE).exists():
        raise DemoFailed(
            f"the approved proposal was not carried out: {carried_out['state']} {carried_out['error'] or ''}"
        )
    by = carried_out["decision"]["by"]
    console.print(
        f" The stranger asks proposal_status: [green]{carried_out['result']['status']}[/], decided by {escape(by)}."
    )
    return {"id": waiting["id"], "page": PAGE, "state": carried_out["state"], "by": by}


async def _approved(proposal_id: str, kb: Path, state: Path) -> Proposal:
    """Approve it, as `review` does."""
    async with opened_app(Settings(kb=kb, state_dir=state)) as app:
        proposal = await app.base.state.trust.proposal(proposal_id)
        if proposal is None:
            raise DemoFailed(f"there is no proposal {proposal_id}; please report this")
        return await app.approvals.approve(proposal_id, proposal.hash, Approver(os_user(), "terminal"))


async def _refused(client: Client, kb: Path, state: Path) -> str:
    """Revoke the client's trust, as `trust grant` does, and return the gate's next answer."""
    async with open_state(Settings(kb=kb, state_dir=state)) as opened:
        await grant(opened, Principal(os_user(), UNENROLLED).id, 0, by=os_user(), now=utc_now())
    result = await client.call_tool(REFUSED_TOOL, {"path": ""})
    if not result.is_error:
        raise DemoFailed(f"the gate let {REFUSED_TOOL} pass at level 0; please report this")
    return text_of(result)
