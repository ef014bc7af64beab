"""A person with a knowledge base, a command line and hosts that propose; and signatures of a passkey's owner."""

from __future__ import annotations

import asyncio
import io
import os
import subprocess
import sys
from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager, redirect_stderr, redirect_stdout
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeVar
from unittest.mock import patch

from mcp import Client

from knowledge.state.ports import StateStore
from knowledge.trust.ports import Note, Passkey, Proposal
from mcp_server.__main__ import main
from mcp_server.app.composition import open_app
from mcp_server.app.knowledge_base import open_state, utc_now
from mcp_server.app.settings.settings import Settings
from mcp_server.approvals.approvers import Approver as Signer
from mcp_server.gate.host_registration import enrol, os_user
from tests.support.hosts.terminals import TIMEOUT_S, Terminal, terminal
from tests.support.hosts.writers import Writer

ROOT = Path(__file__).parents[3]
ME = os_user()
KEY = Passkey(b"key", b"cose", 0, "Ann's key", "ann", datetime(2026, 3, 1, tzinfo=UTC))

T = TypeVar("T")


@dataclass(frozen=True)
class Person:
    """A person at a terminal: real processes, real proposals. `folder` is also their home."""

    folder: Path

    @property
    def kb(self) -> Path:
        return self.folder / "kb"

    @property
    def settings(self) -> Settings:
        return Settings(kb=self.kb, state_dir=self.folder / "state")

    @property
    def env(self) -> dict[str, str]:
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("FORGE_", "XDG_", "NO_COLOR"))}
        return {**kept, "HOME": str(self.folder), "PYTHONPATH": str(ROOT), "FORGE_OPEN_BROWSER": "0"}

    def words(self, verb: str, *words: str) -> list[str]:
        return [verb, "--kb", str(self.kb), "--state-dir", str(self.folder / "state"), *words]

    def run(self, verb: str, *words: str) -> subprocess.CompletedProcess[str]:
        """Run a process without a terminal to its end."""
        with self.start(verb, *words) as process:
            out, err = process.communicate(timeout=TIMEOUT_S)
        assert "Traceback" not in err, err
        return subprocess.CompletedProcess(words, process.returncode, out, err)

    def here(self, verb: str, *words: str) -> subprocess.CompletedProcess[str]:
        """Do the same in this process, which is faster."""
        out, err = io.StringIO(), io.StringIO()
        with patch.dict(os.environ, self.env, clear=True), redirect_stdout(out), redirect_stderr(err):
            code = main(self.words(verb, *words))
        return subprocess.CompletedProcess(words, code, out.getvalue(), err.getvalue())

    def start(self, verb: str, *words: str) -> subprocess.Popen[str]:
        """Start a process without a terminal."""
        return subprocess.Popen(
            [sys.executable, "-m", "mcp_server", *self.words(verb, *words)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            encoding="utf-8",
            env=self.env,
            cwd=self.folder,
        )

    def at(self, verb: str, *words: str, size: tuple[int, int] = (60, 120)) -> AbstractContextManager[Terminal]:
        """Run a process in a terminal."""
        return terminal(self.words(verb, *words), env=self.env, size=size)

    def propose(self, tool: str, *, host: str = "cursor", **arguments: object) -> str:
        """Let a host without the level call a tool, and return the id of its proposal."""

        async def call() -> str:
            async with open_state(self.settings) as state:
                secret = await enrol(state, host, now=utc_now())
            allowed = replace(self.settings, enrolment=secret)
            async with open_app(allowed, indexing=False, announcing=False) as app, Client(app.server) as client:
                caller = Writer(client, app, self.kb)
                if "base_revision" in arguments:
                    arguments["base_revision"] = await caller.revision(str(arguments["path"]))
                answer = await caller.call(tool, **arguments)
                assert answer["proposal"] is not None, answer
                return str(answer["proposal"]["id"])

        return asyncio.run(call())

    def asked(self, work: Callable[[StateStore], Awaitable[T]]) -> T:
        """Return the result of `work` on the state."""

        async def opened() -> T:
            async with open_state(self.settings) as state:
                return await work(state)

        return asyncio.run(opened())

    def proposal(self, proposal_id: str) -> Proposal:
        found = self.asked(lambda state: state.trust.proposal(proposal_id))
        assert found is not None
        return found

    def enrol_passkey(self, passkey: Passkey = KEY) -> None:
        note = Note("ann", "passkey.add", passkey.name, utc_now())
        self.asked(lambda state: state.trust.add_passkey(passkey, note=note))

    def signs(self, proposal_id: str) -> Proposal:
        """Approve as the page does once a passkey has signed."""

        async def sign() -> Proposal:
            async with open_app(self.settings, indexing=False) as app:
                proposal = await app.services.state.trust.proposal(proposal_id)
                assert proposal is not None
                return await app.approvals.approve(proposal_id, proposal.hash, Signer("ann", "page", signed=KEY.name))

        return asyncio.run(sign())

    def declines(self, proposal_id: str) -> Proposal:
        """Reject on the page."""

        async def decline() -> Proposal:
            async with open_app(self.settings, indexing=False) as app:
                proposal = await app.services.state.trust.proposal(proposal_id)
                assert proposal is not None
                return await app.approvals.reject(proposal_id, proposal.hash, Signer("ann", "page"), "not now")

        return asyncio.run(decline())
