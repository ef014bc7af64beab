"""Processes that decide about proposals and are killed meanwhile.

Each is forked, finishes what its predecessor began, and dies.

`python -m tests.crash.deciding HOME KILLS SEED` prints how far each decision was when its process died. A process that
finds something lost or done twice writes it to HOME/wrong and exits instead of dying.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import threading
import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import anyio

from knowledge.history.audit.chain import verify
from knowledge.trust.ports import Proposal
from mcp_server.app.composition import App, open_app
from mcp_server.app.settings.settings import Settings
from mcp_server.approvals.approvers import Approver
from mcp_server.gate.caller import Call
from mcp_server.gate.dispatch import CallAnswered
from mcp_server.gate.host_registration import Principal

PAGE = "page.md"
HOST = Principal("ann", "writer")
BETWEEN = timedelta(minutes=2)
"""How far the clock of each process is ahead of its predecessor's, so that the predecessor's claims have expired."""
LONGEST_LIFE_S = 0.04


def settings(home: Path) -> Settings:
    return Settings(kb=home / "kb", state_dir=home / "state")


def at_round(app: App, number: int) -> App:
    """Return the app at the time of that round."""
    services = replace(app.services, now=lambda: datetime.now(UTC) + BETWEEN * number)
    app.approvals._executor.services = services
    app.gate._services = app.gate._load_proposing()._services = services
    return app


async def look(app: App, line: str, proposal: Proposal) -> str:
    """Return how far the decision has come, or raise."""
    text = (app.base.vault.root / PAGE).read_text(encoding="utf-8")
    records = await app.base.state.ledger.records(limit=1_000_000)
    end = await app.base.state.ledger.chain_end()
    broken = list(verify(records, end))
    assert not broken, broken
    acts = [b for record in records if (b := json.loads(record.body))["proposal"] == proposal.id and b["changes"]]
    half_done = bool(await app.base.state.ledger.intents())
    assert half_done or text.count(line) == len(acts), f"{line} stands {text.count(line)} times, {len(acts)} acts"
    assert len(acts) <= 1, f"{proposal.id} was carried out {len(acts)} times"
    assert proposal.state in ("pending", "approved", "executed"), f"{proposal.id} is {proposal.state}: {proposal.error}"
    assert (proposal.state == "executed") == bool(acts), f"{proposal.id} is {proposal.state} with {len(acts)} acts"
    if proposal.state == "approved":
        return "approved, running" if proposal.runner else "approved"
    return "executed, not answered" if proposal.state == "executed" and not proposal.result else proposal.state


async def end_what_was_begun(app: App, home: Path) -> str | None:
    """Check what the predecessor left, carry it out, and check again."""
    left = home / "left"
    if not left.exists():
        return None
    line, proposal_id = left.read_text().split()
    left.unlink()
    found = await app.base.state.trust.proposal(proposal_id)
    assert found is not None
    how = await look(app, line, found)
    await app.approvals._executor.resume()
    ended = await app.base.state.trust.proposal(proposal_id)
    assert ended is not None
    if ended.state == "pending":  # the decision was never on record: it can be made
        ended = await app.approvals.approve(ended.id, ended.hash, Approver("ann", "page"))
    assert await look(app, line, ended) == "executed", ended
    return how


async def one_life(home: Path, number: int, seed: int) -> None:
    chance = random.Random(f"{seed}/{number}")  # noqa: S311 - when to die, not a secret
    async with open_app(settings(home), indexing=False) as opened:
        app = at_round(opened, number)
        how = await end_what_was_begun(app, home)
        if how is not None:
            with (home / "ends").open("a", encoding="utf-8") as file:
                file.write(how + "\n")
        line = f"line-{seed}-{number}"
        text = (app.base.vault.root / PAGE).read_text(encoding="utf-8")
        base = await app.gate.dispatch("kb_read", {"path": PAGE}, Call(HOST))
        assert isinstance(base, CallAnswered)
        arguments = {"path": PAGE, "content": f"{text}\n{line}\n", "base_revision": base.content["revision"]}
        answer = await app.gate.dispatch("kb_merge", arguments, Call(HOST))
        assert isinstance(answer, CallAnswered), answer
        assert answer.waits is not None, answer
        (home / "left").write_text(f"{line} {answer.waits.id}")
        threading.Thread(target=die_after, args=(chance.random() * LONGEST_LIFE_S,), daemon=True).start()
        await app.approvals.approve(answer.waits.id, answer.waits.hash, Approver("ann", "page"))
        await anyio.sleep(LONGEST_LIFE_S)
        os.kill(os.getpid(), signal.SIGKILL)


def die_after(seconds: float) -> None:
    time.sleep(seconds)
    os.kill(os.getpid(), signal.SIGKILL)


def main(home: Path, kills: int, seed: int) -> None:
    (home / "kb").mkdir(exist_ok=True)
    (home / "kb" / PAGE).write_text("# Page\n\nFirst.\n", encoding="utf-8")
    for number in range(1, kills + 1):
        child = os.fork()
        if not child:
            try:
                anyio.run(one_life, home, number, seed)
            except BaseException as error:  # noqa: BLE001 - whatever it is, the parent tells it
                (home / "wrong").write_text(f"life {number}: {error!r}")
                os._exit(1)
            os._exit(2)
        _, status = os.waitpid(child, 0)
        if not os.WIFSIGNALED(status):
            sys.exit(1)

    async def last() -> None:
        async with open_app(settings(home), indexing=False) as opened:
            how = await end_what_was_begun(at_round(opened, kills + 1), home)
            with (home / "ends").open("a", encoding="utf-8") as file:
                file.write(f"{how}\n")

    anyio.run(last)
    print((home / "ends").read_text(), end="")  # noqa: T201 - what the test counts


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
