"""Proposals, decisions and passkeys for trust records."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

from knowledge.history.audit.chain import verify
from knowledge.state.ports import StateStore
from knowledge.trust.ports import Note, Passkey, Proposal, ProposalVerdict
from tests.support.state.ledgers import DAY, MINUTE, NOW

ADA = "ada@desktop"
LEASE = timedelta(seconds=60)
ODD = 'Ünïcode 日本 🗺 \x00 \ud800 "quoted" \\ %s \u202e'

PLAIN = Proposal(
    id="p-1",
    kind="call",
    tool="kb_merge",
    tool_hash="aa" * 32,
    arguments='[{"path":"guides/a.md"}]',
    principal=ADA,
    revisions={"guides/a.md": "9f2c1d0b7a6e5f43", "guides/new.md": None},
    effect="bb" * 32,
    policy=1,
    hash="cc" * 32,
    level_needed=3,
    level_held=2,
    why="level 3 is needed",
    preview='{"status":"done"}',
    documents=("guides/a.md", "guides/new.md"),
    created_at=NOW,
    expires_at=NOW + 7 * DAY,
)


def proposal(id_: str = "p-1", **more: Any) -> Proposal:
    """Return a proposal with its own hash."""
    return replace(PLAIN, **{"id": id_, "hash": f"hash of {id_}", **more})


def yes(id_: str = "p-1", **more: Any) -> ProposalVerdict:
    """Return an approval of `proposal(id_)` as it was shown."""
    told: dict[str, Any] = {"approved": True, "by": "ann", "channel": "page", "at": NOW + MINUTE}
    return ProposalVerdict(**{**told, "hash": f"hash of {id_}", **more})


def no(id_: str = "p-1", **more: Any) -> ProposalVerdict:
    """Return a rejection of `proposal(id_)`."""
    return replace(yes(id_), **{"approved": False, "note": "not like that", **more})


def passkey(id_: bytes = b"key-1", **more: Any) -> Passkey:
    told: dict[str, Any] = {"public_key": b"\xa5\x01\x02", "sign_count": 0, "name": "blue key", "user": "ann"}
    return Passkey(id_, **{**told, "created_at": NOW, **more})


def note(act: str = "passkey.add", about: str = "blue key", **more: Any) -> Note:
    return Note(**{"by": "ann", "act": act, "about": about, "at": NOW, **more})


async def put(store: StateStore, id_: str = "p-1", **more: Any) -> Proposal:
    """Record a proposal, with room for more."""
    return await store.trust.propose(proposal(id_, **more), most_pending=1_000)


async def approved(store: StateStore, id_: str = "p-1", **more: Any) -> Proposal:
    """Record a proposal and approve it."""
    await put(store, id_, **more)
    found = await store.trust.decide(id_, yes(id_))
    assert found is not None
    return found


async def sound(store: StateStore) -> bool:
    """Return whether the audit chain holds."""
    return not verify(await store.ledger.records(limit=10_000), await store.ledger.chain_end())
