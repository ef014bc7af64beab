"""Trust follows from the record: one suite for every engine. test_trust_cli.py covers edits by hand."""

from __future__ import annotations

import json
from dataclasses import replace

from knowledge.state.ports import StateStore
from knowledge.trust.ports import BearerToken, Proposal, TrustRecord, TrustUpdate
from mcp_server.approvals.proposals import hash_of
from mcp_server.gate.canonical_json import canonical_text
from mcp_server.gate.trust.reconcile import unaccounted
from tests.support.state.decisions import ODD, note, passkey, proposal, yes
from tests.support.state.ledgers import NOW

DIGEST = bytes(range(32))


def becoming(trust_record: TrustRecord) -> TrustUpdate:
    return lambda _known, _recent: trust_record


async def carried_out(store: StateStore, made: Proposal) -> None:
    """Propose it, approve it and end it, as approvals do."""
    made = replace(made, hash=hash_of(made))
    await store.trust.propose(made, most_pending=20)
    assert await store.trust.decide(made.id, yes(hash=made.hash, note=ODD))
    assert await store.trust.claim(made.id, "runner", now=NOW, lease_s=60)
    assert await store.trust.finish(made.id, "executed", at=NOW, result="{}")


async def test_every_decision_reconciles_to_the_last_digit(store: StateStore) -> None:
    """Scores are not round numbers, and names contain any characters: what is read back must have the same hash."""
    for number, score in enumerate((2.1, 2.1 + 0.1 / 3, 3.000000000000004)):
        principal = f"Ünïcode 日本@host-{number}"
        trust_record = TrustRecord(principal, score, 2.0, 3.9, frozen=False, updated_at=NOW)
        await store.trust.update_trust_record(principal, becoming(trust_record), note=note(about=principal))
    key = passkey()
    await store.trust.add_passkey(key, note=note(act="passkey.add", about=key.name))
    await store.trust.remove_passkey(key.id, note=note(act="passkey.remove", about=key.id.hex()))
    await store.trust.add_passkey(key, note=note(act="passkey.add", about=key.name))
    enrolling = canonical_text([{"host": "cursor", "secret_digest": DIGEST.hex()}])
    await carried_out(store, proposal("p-enrol", kind="admin", tool="host.enrol", arguments=enrolling))
    await store.enrol("cursor", DIGEST, at=NOW)
    await carried_out(store, proposal("p-call", why=ODD, preview=json.dumps({"sentence": ODD})))
    assert list(await unaccounted(store)) == []


async def test_state_without_a_decision_is_named(store: StateStore) -> None:
    await store.enrol("cursor", DIGEST, at=NOW)
    (found,) = await unaccounted(store)
    assert (found.what, "register it again" in found.reason) == ("the host cursor", True)


async def test_a_token_that_no_record_explains_is_named_and_one_that_was_revoked_and_is_back(store: StateStore) -> None:
    token = BearerToken("00112233aabb", "ann", DIGEST, 3, ("knowledge",), "ann", NOW)
    await store.trust.add_token(token, note=note(act="token.create", about=token.id))
    assert list(await unaccounted(store)) == []
    assert await store.trust.revoke_token(token.id, note=note(act="token.revoke", about=token.id))
    assert list(await unaccounted(store)) == []
    await store.trust.add_token(replace(token, id="ffeeddccbbaa"), note=note(act="something.else"))
    (found,) = await unaccounted(store)
    assert (found.what, "token revoke ffeeddccbbaa" in found.reason) == ("the token ffeeddccbbaa of ann", True)


async def test_a_passkey_that_was_removed_and_is_back_is_named(store: StateStore) -> None:
    key = passkey()
    await store.trust.add_passkey(key, note=note(act="passkey.add", about=key.name))
    await store.trust.remove_passkey(key.id, note=note(act="passkey.remove", about=key.name))
    await store.trust.add_passkey(key, note=note(act="something.else", about=key.name))
    (found,) = await unaccounted(store)
    assert found.what == f"the passkey {key.name!r}"
