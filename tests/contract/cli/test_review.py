"""`knowledge-forge review` as a person uses it: real processes, a real terminal, proposals made by a real client."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from tests.support.hosts.persons import ME
from tests.support.hosts.persons import Person as Somebody
from tests.support.knowledge_bases.folders import write

DEPLOY, ONBOARDING = "guides/deploy.md", "guides/onboarding.md"

pytestmark = pytest.mark.skipif(os.name == "nt", reason="there are no pseudo-terminals")


class Person(Somebody):
    """Somebody who reviews."""

    def delete(self, path: str = ONBOARDING) -> str:
        return self.propose("kb_delete", path=path, base_revision="")

    def merge(self, path: str, content: str) -> str:
        return self.propose("kb_merge", path=path, content=content)

    def there(self, path: str) -> bool:
        return (self.kb / path).exists()

    def score(self) -> float:
        found = self.asked(lambda state: state.trust_record(f"{ME}@cursor"))
        assert found is not None
        return found.score


@pytest.fixture
def ann(tmp_path: Path) -> Person:
    write(tmp_path / "kb")
    return Person(tmp_path)


def listed(ann: Person) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(ann.here("review", "--list", "--json").stdout)
    return found


def test_an_empty_list_says_so(ann: Person) -> None:
    done = ann.here("review")
    assert (done.returncode, done.stdout, done.stderr) == (1, "nothing is waiting for you\n", "")
    assert listed(ann) == []


@pytest.mark.external
def test_without_a_terminal_proposals_are_listed_and_shown_and_not_decided(ann: Person) -> None:
    proposal_id = ann.delete()
    done = ann.run("review")
    assert done.returncode == 0
    assert f"{proposal_id}  level 4  {ME}@cursor  kb_delete: " in done.stdout
    (found,) = listed(ann)
    assert (found["id"], found["state"], found["arguments"][0]["path"]) == (proposal_id, "pending", ONBOARDING)
    shown = ann.here("review", "--show", proposal_id)
    assert shown.returncode == 0
    for fact in (
        found["hash"],
        f"{ME}@cursor",
        "-New colleagues get a laptop",
        f'path: "{ONBOARDING}"',
        "not protected by a passkey",
    ):
        assert fact in shown.stdout
    for words in (["--approve", proposal_id, "--hash", found["hash"]], ["--reject", proposal_id]):
        refused = ann.run("review", *words)
        assert refused.returncode == 1
        assert "only a person at a terminal" in refused.stderr
    assert ann.there(ONBOARDING)
    assert ann.proposal(proposal_id).state == "pending"


def test_a_proposal_is_read_and_approved_with_the_keyboard(ann: Person) -> None:
    proposal_id = ann.merge("guides/new.md", "# New\n\nSomething worth knowing.")
    wanted = ann.proposal(proposal_id).hash[:6]
    with ann.at("review") as screen:
        screen.until("1 waiting for a person", "kb_merge")
        screen.type("\r")
        screen.until("Something worth knowing.", "Who asks", "Exact call", "r reject")
        screen.type("a")
        screen.until(f"to approve type {wanted}:")
        screen.type(f"{wanted}\n")
        screen.until("approved, and carried out", "0 waiting")
        screen.type("q")
        assert screen.left() == 0
    assert "Something worth knowing." in (ann.kb / "guides/new.md").read_text(encoding="utf-8")
    done = ann.proposal(proposal_id)
    assert done.verdict is not None
    assert (done.state, done.verdict.channel, done.verdict.by, done.verdict.advisory) == (
        "executed",
        "terminal",
        ME,
        False,
    )
    assert ann.score() == pytest.approx(2.1)


def test_from_level_4_on_an_approval_in_a_terminal_is_recorded_as_advisory(ann: Person) -> None:
    proposal_id = ann.delete()
    approved(ann, proposal_id)
    assert not ann.there(ONBOARDING)
    verdict = ann.proposal(proposal_id).verdict
    assert verdict is not None
    assert verdict.advisory


def approved(ann: Person, proposal_id: str) -> None:
    digest = ann.proposal(proposal_id).hash
    with ann.at("review", "--approve", proposal_id, "--hash", digest) as screen:
        screen.until(f"to approve type {digest[:6]}")
        screen.type(f"{digest[:6]}\n")
        screen.until("approved, and carried out")
        assert screen.left() == 0


def test_a_diff_is_coloured(ann: Person) -> None:
    ann.delete()
    with ann.at("review") as screen:
        screen.until("1 waiting")
        screen.type("\r")
        screen.until("-New colleagues")
        assert b"\x1b[31m-New colleagues" in screen.raw
        screen.type("q")
        assert screen.left() == 0


@pytest.mark.external
def test_the_typed_text_must_be_the_beginning_of_the_hash(ann: Person) -> None:
    proposal_id = ann.delete()
    digest = ann.proposal(proposal_id).hash
    for typed in ("yes", "", digest[:5], digest[1:7]):
        with ann.at("review", "--approve", proposal_id, "--hash", digest) as screen:
            screen.until("to approve type")
            screen.type(f"{typed}\n")
            screen.until("nothing was decided")
            assert screen.left() == 1
    with ann.at("review", "--approve", proposal_id, "--hash", "0" * 64) as screen:
        screen.until("the proposal's hash is")
        assert screen.left() == 1
    assert ann.there(ONBOARDING)


@pytest.mark.external
def test_a_rejection_has_a_reason_and_costs_trust(ann: Person) -> None:
    """It never falls below the floor, so the host has to earn something first."""
    approved(ann, ann.merge("guides/new.md", "# New\n\nText."))
    proposal_id = ann.delete()
    before = ann.score()
    with ann.at("review") as screen:
        screen.until("1 waiting")
        screen.type("\r")
        screen.until("r reject")
        screen.type("r")
        screen.until("why?")
        screen.type("still needed\n")
        screen.until("to reject type")
        screen.type(f"{ann.proposal(proposal_id).hash[:6]}\n")
        screen.until("rejected", "0 waiting")
        screen.type("q")
        assert screen.left() == 0
    done = ann.proposal(proposal_id)
    assert done.verdict is not None
    assert (done.state, done.verdict.note) == ("rejected", "still needed")
    assert before - ann.score() == pytest.approx(0.1, abs=0.001)


def test_all_hosts_that_ask_for_the_same_are_listed_shown_and_frozen_together(ann: Person) -> None:
    (ann.kb / "limits.md").write_text("# Limits\n\nAn upload may be 64 MiB.\n", encoding="utf-8")
    for host, source in (("cursor", "plane:KB-1"), ("zed", "zulip:ops/x/3")):
        claim = {"path": "limits.md", "content": "An upload may be 32 MiB.\n", "source": source, "base_revision": ""}
        proposal_id = ann.propose("kb_merge", host=host, **claim)
    (line,) = ann.here("review", "--list").stdout.splitlines()
    assert f"{ME}@cursor (" in line
    assert f", {ME}@zed (" in line
    (found,) = listed(ann)
    assert [(one["principal"], one["level"], one["frozen"]) for one in found["askers"]] == [
        (f"{ME}@cursor", 2, False),
        (f"{ME}@zed", 2, False),
    ]
    assert "2 hosts ask for the same change" in ann.here("review", "--show", proposal_id).stdout
    with ann.at("review", "--harmful", proposal_id) as screen:
        screen.until("freeze all 2 hosts type")
        screen.type(f"{found['hash'][:6]}\n")
        assert screen.left() == 0
    rows = json.loads(ann.here("trust", "list", "--json").stdout)
    assert {row["principal"] for row in rows if row["frozen"]} == {f"{ME}@cursor", f"{ME}@zed"}


@pytest.mark.external
def test_a_proposal_with_a_changed_page_is_made_again_instead_of_approved_in_vain(ann: Person) -> None:
    page = ann.kb / "limits.md"
    page.write_text("# Limits\n\n## Size\n\nAn upload may be 64 MiB.\n", encoding="utf-8")
    wanted = page.read_text(encoding="utf-8").replace("64", "32")
    proposal_id = ann.propose("kb_merge", path="limits.md", content=wanted, base_revision="")
    digest = ann.proposal(proposal_id).hash
    assert listed(ann)[0]["present"] is None
    page.write_text("# Limits\n\n## Uploads\n\nAn upload may be 64 MiB.\n", encoding="utf-8")
    (found,) = listed(ann)
    assert found["present"]["outcome"] == "different"
    assert found["present"]["changed"][0]["path"] == "limits.md"
    assert " ## Uploads" in found["present"]["preview"]["files"][0]["diff"]
    shown = ann.here("review", "--show", proposal_id).stdout
    assert "Changed since this was proposed" in shown
    assert "As proposed: limits.md changes" in shown
    with ann.at("review", "--approve", proposal_id, "--hash", digest) as screen:
        screen.until("not approved: the page has changed")
        assert screen.left() == 1
    assert ann.here("review", "--renew", proposal_id).returncode == 2
    assert "only a person at a terminal" in ann.here("review", "--renew", proposal_id, "--hash", digest).stderr
    with ann.at("review", "--renew", proposal_id, "--hash", digest) as screen:
        screen.until("to propose it with the page as it is now type")
        screen.type(f"{digest[:6]}\n")
        screen.until("takes its place")
        assert screen.left() == 0
    (again,) = listed(ann)
    assert again["present"] is None
    with ann.at("review", "--approve", again["id"], "--hash", again["hash"]) as screen:
        screen.type(f"{again['hash'][:6]}\n")
        screen.until("approved, and carried out")
        assert screen.left() == 0
    assert page.read_text(encoding="utf-8") == "# Limits\n\n## Uploads\n\nAn upload may be 32 MiB.\n"


def test_the_key_w_makes_it_again_with_the_present_page(ann: Person) -> None:
    page = ann.kb / "limits.md"
    page.write_text("# Limits\n\n## Size\n\nAn upload may be 64 MiB.\n", encoding="utf-8")
    wanted = page.read_text(encoding="utf-8").replace("64", "32")
    proposal_id = ann.propose("kb_merge", path="limits.md", content=wanted, base_revision="")
    page.write_text("# Limits\n\n## Uploads\n\nAn upload may be 64 MiB.\n", encoding="utf-8")
    with ann.at("review") as screen:
        screen.until("limits.md")
        screen.type("\r")
        screen.until("Changed since this was proposed")
        screen.type("w")
        screen.until("to propose it with the page as it is now type")
        screen.type(f"{ann.proposal(proposal_id).hash[:6]}\n")
        screen.until("takes its place: read it")
        screen.type("q")
        assert screen.left() == 0
    assert ann.proposal(proposal_id).state == "superseded"


def test_harmful_freezes_the_asker_and_thaw_lifts_it(ann: Person) -> None:
    proposal_id = ann.delete()
    with ann.at("review", "--harmful", proposal_id, "--reason", "it deletes everything") as screen:
        screen.until("reject as harmful")
        screen.type(f"{ann.proposal(proposal_id).hash[:6]}\n")
        assert screen.left() == 0
    (row,) = [r for r in json.loads(ann.here("trust", "list", "--json").stdout) if r["principal"] == f"{ME}@cursor"]
    assert (row["score"], row["level"], row["frozen"]) == (0.0, 0, True)
    assert "it deletes everything" in ann.here("trust", "history", "cursor").stdout
    assert ann.here("trust", "thaw", "cursor").returncode == 0


def test_long_text_is_approved_only_after_all_of_it_was_on_the_screen(ann: Person) -> None:
    text = "\n\n".join(f"Thought number {n} about gardening." for n in range(60))
    proposal_id = ann.merge("guides/long.md", f"# Long\n\n{text}")
    with ann.at("review", size=(30, 100)) as screen:
        screen.until("1 waiting")
        screen.type("\r")
        screen.until("lines 1-27 of")
        screen.type("a")
        screen.until("not approved: part of it is collapsed")
        screen.type("o")
        screen.until("lines 1-27 of")
        screen.type("G")
        screen.until("hash     ")
        screen.type("a")
        screen.until("not approved:", "have not been on the screen yet")
        screen.type("g")
        screen.until("lines 1-27 of")
        for _ in range(20):
            screen.type(" ")
            screen.until("lines ")
        screen.type("a")
        screen.until("to approve type")
        screen.type(f"{ann.proposal(proposal_id).hash[:6]}\n")
        screen.until("approved, and carried out")
    assert ann.there("guides/long.md")


def test_a_proposal_decided_elsewhere_leaves_the_screen_automatically(ann: Person) -> None:
    proposal_id = ann.delete()
    with ann.at("review") as screen:
        screen.until("1 waiting")
        screen.type("\r")
        screen.until("r reject")
        screen.type("x")
        approved(ann, proposal_id)
        screen.until("no longer open", "0 waiting")


@pytest.mark.parametrize("leaving", ["interrupted", "hung up"])
def test_any_exit_leaves_the_terminal_as_it_was(ann: Person, leaving: str) -> None:
    ann.delete()
    with ann.at("review") as screen:
        screen.until("1 waiting")
        assert not screen.echoes
        if leaving == "interrupted":
            screen.process.send_signal(signal.SIGINT)
            assert screen.left() == 130
            assert screen.echoes
            assert screen.raw.rstrip().endswith(b"\x1b[?1049l"), "the first screen is back"
        else:
            os.close(screen.end)
            screen.end = os.open(os.devnull, os.O_RDONLY)
            assert screen.process.wait(timeout=60) != 0, "it ends, and does not wait for keys for ever"


def test_next_and_previous_go_from_one_to_the_other(ann: Person) -> None:
    ann.delete()
    ann.delete(DEPLOY)
    with ann.at("review") as screen:
        screen.until("2 waiting")
        screen.type("\r")
        screen.until("1 of 2", "-The payment service")
        screen.type("n")
        screen.until("2 of 2", "-New colleagues")
        screen.type("p")
        screen.until("1 of 2", "-The payment service")


@pytest.mark.external
def test_with_a_passkey_the_terminal_names_the_page_from_level_4_on(ann: Person) -> None:
    high, low = ann.delete(), ann.merge("guides/new.md", "# New\n\nText.")
    ann.enrol_passkey()
    digest = ann.proposal(high).hash
    with ann.at("review", "--approve", high, "--hash", digest) as screen:
        assert screen.left() == 1
        assert "passkey" in screen.shown
        assert "review --web" in screen.shown
    with ann.at("review") as screen:
        screen.until("2 waiting")
        screen.type("j\r")
        screen.until("2 of 2", "needs a passkey")
        screen.type("a")
        screen.until("not approved: this needs a passkey", "review")
    assert ann.there(ONBOARDING)
    approved(ann, low)
    assert ann.there("guides/new.md")


def test_a_place_that_holds_a_proposal_up_is_trusted_by_typing_its_name(ann: Person) -> None:
    learned = {"path": "_learnings/all/general.md", "content": "# All\n\n## Be brief\n\nNobody reads page three.\n"}
    proposal_id = ann.propose("kb_merge", **learned, source="zulip:design/merge")
    with ann.at("review") as screen:
        screen.until("1 waiting for a person")
        screen.type("\r")
        screen.until("which nobody has vouched for", "press t to trust zulip:design")
        screen.type("t")
        screen.until("to trust a place type its name (zulip:design):")
        screen.type("yes\n")
        screen.until("nothing was trusted")
        screen.type("t")
        screen.until("(zulip:design):")
        screen.type("zulip:design\n")
        screen.until("zulip:design is now trusted")
        screen.type("q")
        assert screen.left() == 0
    assert [one.place for one in ann.asked(lambda state: state.trust.trusted_places())] == ["zulip:design"]
    assert ann.proposal(proposal_id).state == "pending"
    listed_places = json.loads(ann.here("trust", "places", "--json").stdout)
    assert [row["place"] for row in listed_places] == ["zulip:design"]
    assert ann.here("trust", "places", "remove", "zulip:design").returncode == 0
    assert ann.asked(lambda state: state.trust.trusted_places()) == []


def test_rejecting_needs_no_passkey(ann: Person) -> None:
    proposal_id = ann.delete()
    ann.enrol_passkey()
    with ann.at("review", "--reject", proposal_id) as screen:
        screen.until("to reject type")
        screen.type(f"{ann.proposal(proposal_id).hash[:6]}\n")
        assert screen.left() == 0
    assert ann.proposal(proposal_id).state == "rejected"


def test_hostile_text_does_not_act_on_the_terminal(ann: Person) -> None:
    hostile = (
        "# Odd\n\nRed \x1b[31mtext\x1b[0m, \u202edetrevni, hid\u200bden, \U000e0041\U000e0042\U000e0043\U000e0044."
    )
    proposal_id = ann.merge("guides/odd.md", hostile)
    printed = ann.run("review", "--show", proposal_id).stdout
    for character in ("\x1b", "\u202e", "\u200b", "\U000e0041"):
        assert character not in printed
    assert "⟦U+202E⟧" in printed
    asked = ann.here("review", "--show", proposal_id, "--json").stdout
    assert asked.isascii()
    assert json.loads(asked)["arguments"][0]["content"] == hostile
    with ann.at("review") as screen:
        screen.until("1 waiting")
        screen.type("\r")
        screen.until("⟦U+202E⟧", "r reject")
        assert "\u202e".encode() not in screen.raw
        assert b"\x1b[31mtext" not in screen.raw


def test_unknown_ids_and_wrong_usage_get_one_sentence(ann: Person) -> None:
    for code, says, words in (
        (1, "there is no proposal 'p-0'", ["--show", "p-0"]),
        (2, "--approve needs --hash", ["--approve", "p-0"]),
        (2, "not allowed with", ["--list", "--web"]),
    ):
        done = ann.here("review", *words)
        assert (done.returncode, done.stdout) == (code, "")
        assert says in done.stderr
        assert len(done.stderr.splitlines()) == 1
