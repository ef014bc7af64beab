"""`trust`, `enroll` and `install` as a person uses them.

At once until there is a passkey, then only with its signature.
"""

from __future__ import annotations

import json
import os
import re
import signal
import sqlite3
import subprocess
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import Any

import apsw
import pytest

from knowledge.trust.ports import Note, TrustRecord
from mcp_server.app.knowledge_base import STATE_FILE, utc_now
from mcp_server.gate.host_registration import digest
from tests.support.hosts.persons import ME, Person
from tests.support.knowledge_bases.folders import write


@pytest.fixture
def ann(tmp_path: Path) -> Person:
    write(tmp_path / "kb")
    person = Person(tmp_path)
    assert person.here("enroll", "cursor").returncode == 0
    return person


def rows(ann: Person, *words: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(ann.here("trust", *words, "--json").stdout)
    return found


def holds(ann: Person, host: str = "cursor") -> dict[str, Any]:
    return next(row for row in rows(ann, "list") if row["principal"] == f"{ME}@{host}")


def asked(process: subprocess.Popen[str]) -> str:
    """Return the proposal that the process asks to have signed."""
    assert process.stderr is not None
    line = process.stderr.readline()
    found = re.search(r"sign (p-\w+) ", line)
    assert found is not None, line
    return found.group(1)


def test_without_a_passkey_acts_happen_immediately_and_are_called_advisory(ann: Person) -> None:
    done = ann.run("trust", "grant", "cursor", "4", "--json")
    assert done.returncode == 0
    assert json.loads(done.stdout)[0]["level"] == 4
    assert "not protected by a passkey" in done.stderr
    assert "not protected by a passkey" in ann.here("enroll", "zed").stderr
    (change,) = rows(ann, "history", "cursor")
    assert (change["from"], change["to"], change["by"], change["reason"]) == (2.0, 4.0, ME, "granted level 4")
    assert ann.here("audit", "verify").returncode == 0
    assert "advisory" in ann.here("audit", "search", "--json", "proposal.decide").stdout


def test_a_freeze_removes_everything_and_a_thaw_restores_the_floor(ann: Person) -> None:
    ann.here("trust", "grant", "cursor", "3")
    done = ann.run("trust", "freeze", "cursor", "--reason", "it wrote nonsense")
    assert done.returncode == 0
    assert (holds(ann)["score"], holds(ann)["level"], holds(ann)["frozen"]) == (0.0, 0, True)
    assert ann.here("trust", "thaw", "cursor").returncode == 0
    assert (holds(ann)["score"], holds(ann)["level"], holds(ann)["frozen"]) == (3.0, 3, False)
    newest, frozen, granted = rows(ann, "history", "cursor")
    assert newest["reason"] == "the freeze was lifted"
    assert (frozen["reason"], frozen["to"]) == ("it wrote nonsense", 0.0)
    assert granted["to"] == 3.0
    again = ann.here("trust", "thaw", "cursor")
    assert (again.returncode, again.stdout) == (1, "")
    assert "is not frozen; nothing was changed" in again.stderr


def test_a_grant_to_a_person_is_the_floor_of_their_enrolled_hosts_only(ann: Person) -> None:
    assert ann.here("trust", "grant", f"{ME}@*", "3").returncode == 0
    assert holds(ann)["level"] == 3
    assert holds(ann, "unenrolled")["level"] == 2
    assert holds(ann, "*")["may"].startswith("every registered host: ")
    ann.here("enroll", "later")
    assert holds(ann, "later")["level"] == 3


def test_a_decayed_score_is_listed_at_its_present_value(ann: Person) -> None:
    """The design: the part above the floor halves in thirty days."""
    month_ago = utc_now() - timedelta(days=30)
    earned = TrustRecord(f"{ME}@cursor", 3.0, 2.0, 3.9, frozen=False, updated_at=month_ago)
    note = Note(ME, "trust.decided", earned.principal, month_ago, "a proposal was approved: p-1")
    ann.asked(
        lambda state: state.trust.update_trust_record(earned.principal, lambda _known, _recent: earned, note=note)
    )
    assert holds(ann)["score"] == 2.5
    (change,) = rows(ann, "history", "cursor")
    assert (change["to"], change["reason"]) == (3.0, "a proposal was approved: p-1")


def test_freezing_a_person_freezes_every_host_of_theirs(ann: Person) -> None:
    assert ann.here("trust", "freeze", f"{ME}@*").returncode == 0
    assert holds(ann)["frozen"]
    assert not holds(ann, "unenrolled")["frozen"]


@pytest.mark.parametrize("words", [["freeze", "nobody"], ["thaw", "nobody"], ["grant", "nobody", "3"]])
def test_an_unregistered_host_is_reported(ann: Person, words: list[str]) -> None:
    done = ann.here("trust", *words)
    assert (done.returncode, done.stdout) == (1, "")
    assert "no host 'nobody' is registered" in done.stderr


def test_a_grant_that_cannot_be_made_proposes_nothing(ann: Person) -> None:
    for words in (["unenrolled", "4"], ["cursor", "7"]):
        assert ann.here("trust", "grant", *words).returncode == 1
    assert ann.here("review").stdout == "nothing is waiting for you\n"


def test_with_a_passkey_a_grant_waits_for_its_signature_and_then_reports_the_result(ann: Person) -> None:
    ann.enrol_passkey()
    with ann.start("trust", "grant", "cursor", "4", "--json") as process:
        proposal_id = asked(process)
        assert holds(ann)["level"] == 2
        assert ann.signs(proposal_id).state == "executed"
        out, _ = process.communicate(timeout=60)
        assert process.returncode == 0
    assert json.loads(out)[0]["level"] == holds(ann)["level"] == 4
    (found,) = json.loads(ann.here("audit", "search", "proposal.decide", "signed", "--json").stdout)
    assert found["proposal"] == proposal_id


def test_a_grant_that_is_declined_changes_nothing_and_ends_with_1(ann: Person) -> None:
    ann.enrol_passkey()
    with ann.start("trust", "grant", "cursor", "4") as process:
        ann.declines(asked(process))
        out, err = process.communicate(timeout=60)
        assert (process.returncode, out) == (1, "")
        assert "trust.grant was not done" in err
        assert "Traceback" not in err
    assert holds(ann)["level"] == 2


@pytest.mark.skipif(os.name == "nt", reason="there is no SIGINT for one process")
@pytest.mark.external
def test_interrupted_a_grant_keeps_waiting_and_a_registration_is_undone(ann: Person) -> None:
    ann.enrol_passkey()
    for words, state in ((["trust", "grant", "cursor", "4"], "pending"), (["enroll", "zed"], "withdrawn")):
        with ann.start(words[0], *words[1:]) as process:
            proposal_id = asked(process)
            process.send_signal(signal.SIGINT)
            out, err = process.communicate(timeout=60)
            assert (process.returncode, out) == (130, "")
            assert "Traceback" not in err
        assert ann.proposal(proposal_id).state == state


@pytest.mark.skipif(os.name == "nt", reason="there are no pseudo-terminals")
@pytest.mark.external
def test_a_persons_request_can_be_rejected_in_a_terminal_and_freezes_nobody(ann: Person) -> None:
    ann.enrol_passkey()
    with ann.start("trust", "grant", "cursor", "4") as process:
        proposal_id = asked(process)
        with ann.at("review", "--harmful", proposal_id) as screen:
            assert screen.left() == 1
            assert "there is no host to freeze" in screen.shown
        with ann.at("review", "--reject", proposal_id, "--reason", "not that one") as screen:
            screen.until("to reject type")
            screen.type(f"{ann.proposal(proposal_id).hash[:6]}\n")
            assert screen.left() == 0
        process.communicate(timeout=60)
        assert process.returncode == 1
    assert not any(row["frozen"] for row in rows(ann, "list"))


def test_with_a_passkey_thawing_waits_for_its_signature_and_freezing_does_not(ann: Person) -> None:
    ann.enrol_passkey()
    assert ann.here("trust", "freeze", "cursor").returncode == 0
    with ann.start("trust", "thaw", "cursor") as process:
        proposal_id = asked(process)
        assert holds(ann)["frozen"]
        ann.signs(proposal_id)
        process.communicate(timeout=60)
        assert process.returncode == 0
    assert not holds(ann)["frozen"]


def test_a_hosts_forms_count_once_a_person_says_so_and_a_new_secret_starts_without(ann: Person) -> None:
    assert holds(ann)["forms"] is False
    assert "knowledge-forge trust forms NAME on" in ann.here("trust", "list").stderr
    assert "not protected by a passkey" in ann.here("trust", "forms", "cursor", "on").stderr
    assert holds(ann)["forms"] is True
    assert ann.here("trust", "forms", "cursor", "on").returncode == 0  # it is so already
    assert "trust forms" not in ann.here("trust", "list").stderr
    assert rows(ann, "forms", "cursor", "off")[0]["forms"] is False
    assert ann.here("enroll", "cursor", "--allow-forms").returncode == 0
    assert holds(ann)["forms"] is True
    assert "forms approve up to level 3 in cursor" in ann.here("doctor", "--json").stdout
    assert ann.here("enroll", "cursor").returncode == 0
    assert holds(ann)["forms"] is False
    assert "knowledge-forge trust forms NAME on" in ann.here("doctor", "--json").stdout
    assert ann.here("audit", "verify").returncode == 0
    for name in ("nobody", "unenrolled", "unenrolled:http"):
        done = ann.here("trust", "forms", name, "on")
        assert (done.returncode, f"no host {name!r} is registered" in done.stderr) == (1, True)


def test_with_a_passkey_allowing_forms_needs_a_signature_and_disallowing_none(ann: Person) -> None:
    ann.enrol_passkey()
    with ann.start("trust", "forms", "cursor", "on") as process:
        proposal_id = asked(process)
        assert not holds(ann)["forms"]
        ann.signs(proposal_id)
        process.communicate(timeout=60)
        assert process.returncode == 0
    assert holds(ann)["forms"]
    assert ann.here("trust", "forms", "cursor", "off").returncode == 0
    assert not holds(ann)["forms"]


def test_forms_that_were_allowed_by_hand_are_named_by_the_audit(ann: Person) -> None:
    (host,) = ann.asked(lambda state: state.enrolments())
    with closing(sqlite3.connect(next(ann.folder.rglob("state.db")))) as database, database:
        database.execute("INSERT INTO host_forms VALUES (?, ?, 1, 0)", (host.host, host.secret_digest))
    assert holds(ann)["forms"] is True
    done = ann.here("audit", "verify")
    assert done.returncode != 0
    assert "the host cursor may approve with forms, but no audit record says so" in done.stdout + done.stderr


def test_with_a_passkey_an_enrolment_prints_a_secret_that_works_once_it_is_signed(ann: Person) -> None:
    """Only this process knows the secret: the proposal has its digest."""
    ann.enrol_passkey()
    with ann.start("enroll", "zed", "--json") as process:
        proposal_id = asked(process)
        assert ann.asked(lambda state: state.enrolments())[-1].host == "cursor"
        ann.signs(proposal_id)
        out, _ = process.communicate(timeout=60)
    secret = json.loads(out)["FORGE_ENROLMENT"]
    assert ann.asked(lambda state: state.host_of(digest(secret))) == "zed"
    assert secret not in ann.proposal(proposal_id).arguments


def test_with_a_passkey_install_writes_nothing_before_it_is_signed(ann: Person) -> None:
    ann.enrol_passkey()
    file = ann.folder / ".cursor" / "mcp.json"
    with ann.start("install", "cursor", "--yes-edit") as process:
        enrolling = asked(process)
        assert not file.exists()
        ann.signs(enrolling)
        ann.signs(asked(process))
        out, _ = process.communicate(timeout=60)
        assert process.returncode == 0
    assert "granted (level 3)" in out
    secret = json.loads(file.read_text(encoding="utf-8"))["mcpServers"]["knowledge-forge"]["env"]["FORGE_ENROLMENT"]
    assert ann.asked(lambda state: state.host_of(digest(secret))) == "cursor"


def test_an_installation_with_a_declined_registration_changes_nothing(ann: Person) -> None:
    before = ann.asked(lambda state: state.enrolments())
    ann.enrol_passkey()
    with ann.start("install", "cursor", "--yes-edit") as process:
        ann.declines(asked(process))
        _, err = process.communicate(timeout=60)
        assert process.returncode == 1
        assert "Traceback" not in err
    assert not (ann.folder / ".cursor").exists()
    assert ann.asked(lambda state: state.enrolments()) == before


def test_an_installation_with_a_declined_grant_says_that_nothing_is_granted(ann: Person) -> None:
    ann.enrol_passkey()
    with ann.start("install", "cursor", "--yes-edit") as process:
        ann.signs(asked(process))
        ann.declines(asked(process))
        out, _ = process.communicate(timeout=60)
        assert process.returncode == 0
    assert "nothing granted" in out
    assert holds(ann)["level"] == 2


def test_the_doctor_reports_waiting_proposals_the_pages_address_and_passkeys(ann: Person) -> None:
    def findings() -> dict[str, dict[str, Any]]:
        return {f["what"]: f for f in json.loads(ann.here("doctor", "--json").stdout)}

    before = findings()
    assert before["proposals"]["found"] == "none is waiting for a person"
    assert "can't be proven" in before["passkeys"]["found"]
    assert before["review"]["health"] == "ok"
    ann.propose("kb_merge", path="new.md", content="# New\n\nText.")
    ann.enrol_passkey()
    after = findings()
    assert after["proposals"]["found"] == "1 waits for a person"
    assert after["proposals"]["mend"].startswith("knowledge-forge review")
    assert "Ann's key" in after["passkeys"]["found"]


BY_HAND = {
    "UPDATE standing SET score = 5, floor = 5, ceiling = 5": "the trust of {me}@cursor is 5, which differs from the last decision",
    "UPDATE standing SET ceiling = 5": "the trust of {me}@cursor is 3, which differs from the last decision",
    "INSERT INTO standing VALUES ('eve@zed', 5, 5, 5, 0, 0)": "the trust of eve@zed is 5, but no audit record says why",
    "UPDATE enrolment SET secret_digest = x'00'": "the host cursor has a secret that no audit record explains",
    "INSERT INTO enrolment VALUES ('eve', x'00', 0)": "the host eve has a secret that no audit record explains",
    "INSERT INTO passkey VALUES (x'00', x'00', 0, 'Eve', 'eve', 0, NULL)": "the passkey 'Eve' can sign, but no audit record says",
    "UPDATE passkey SET public_key = x'00'": 'the passkey "Ann\'s key" can sign, but no audit record says',
    "UPDATE proposal SET state = 'approved', verdict = (SELECT verdict FROM proposal WHERE state = 'executed') "
    "WHERE state = 'pending'": "is approved, but no audit record has the decision",
    "UPDATE proposal SET verdict = replace(verdict, '\"terminal\"', '\"page\"') WHERE state = 'executed'": (
        "has a decision that differs from its audit record"
    ),
    "UPDATE proposal SET told = replace(told, '@cursor', '@eve') WHERE state = 'executed' AND told LIKE '%trust.grant%'": (
        "differs from the proposal that was decided on"
    ),
}


@pytest.mark.parametrize(("statement", "says"), BY_HAND.items(), ids=range(len(BY_HAND)))
def test_audit_verify_names_state_that_was_edited_by_hand(ann: Person, statement: str, says: str) -> None:
    """kb/guides/trust.md: beyond our reach, and detected."""
    ann.propose("kb_merge", path="new.md", content="# New\n\nText.")
    assert ann.here("trust", "grant", "cursor", "3").returncode == 0
    assert ann.here("enroll", "cursor").returncode == 0
    ann.enrol_passkey()
    before = ann.here("audit", "verify")
    assert before.returncode == 0, before.stdout
    with closing(apsw.Connection(str(ann.folder / "state" / STATE_FILE))) as connection:
        connection.execute(statement)
        assert connection.changes() > 0
    told = ann.here("audit", "verify")
    assert told.returncode == 1
    assert "all intact" in told.stdout, "the chain itself holds"
    assert says.format(me=ME) in told.stdout
    assert not json.loads(ann.here("audit", "verify", "--json").stdout)["sound"]


def test_a_token_is_printed_once_listed_by_its_id_and_revoked_by_id_or_name(ann: Person) -> None:
    made = ann.here("token", "create", "bob", "--level", "2", "--allow-toolsets", "knowledge,runs", "--expires", "30")
    secret = made.stdout.strip()
    assert re.fullmatch(r"kf_[0-9a-f]{12}_[A-Za-z0-9_-]{43}", secret)
    assert "bob@token:http" in made.stderr
    other = json.loads(ann.here("token", "create", "bob", "--expires", "never", "--json").stdout)
    (first, second) = rows_of_tokens(ann)
    assert (first["id"], first["level"], first["toolsets"]) == (secret[3:15], 2, ["knowledge", "runs"])
    assert (second["id"], second["expires"], second["state"]) == (other["id"], None, "valid")
    shown = ann.here("token", "list").stdout + ann.here("audit", "export").stdout
    assert secret[3:15] in shown
    assert secret[16:] not in shown
    assert ann.here("token", "revoke", other["id"]).returncode == 0
    assert [row["state"] for row in rows_of_tokens(ann)] == ["valid", "revoked"]
    assert ann.here("token", "revoke", "bob").returncode == 0
    assert [row["state"] for row in rows_of_tokens(ann)] == ["revoked", "revoked"]
    again = ann.run("token", "revoke", "bob")
    assert (again.returncode, "no valid token has the id or name 'bob'" in again.stderr) == (1, True)
    assert ann.here("audit", "verify").returncode == 0


def test_trust_is_granted_to_the_holder_of_a_token_by_name(ann: Person) -> None:
    assert ann.here("token", "create", "bob").returncode == 0
    (granted,) = rows(ann, "grant", "bob", "3")
    assert (granted["principal"], granted["level"]) == ("bob@token:http", 3)
    assert [row["reason"] for row in rows(ann, "history", "bob")] == ["granted level 3"]


def rows_of_tokens(ann: Person) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(ann.here("token", "list", "--json").stdout)
    return found


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (["create", "Big Name"], 1, "cannot be the name of a token"),
        (["create", "bob", "--level", "6"], 2, "1 to 5"),
        (["create", "bob", "--expires", "0"], 2, "number of days"),
        (["create", "bob", "--allow-toolsets", "kitchen"], 2, "no toolset"),
        (["create", "bob", "--allow-toolsets", ","], 2, "no toolset"),
    ],
)
def test_a_token_that_cannot_be_is_refused_in_one_sentence(ann: Person, words: list[str], code: int, says: str) -> None:
    refused = ann.run("token", *words)
    assert (refused.returncode, says in refused.stderr, refused.stdout) == (code, True, "")
    assert rows_of_tokens(ann) == []
