"""What becomes of a page that the other side changed: a table of both sides' states."""

from __future__ import annotations

import pytest

from knowledge.sync.changed_files import CommitAuthor
from knowledge.sync.page_arrival import ArrivalKind, PageTexts, arrival_act

BASE = b"# Plan\n\nOne.\n\nTwo.\n\nThree.\n"
OURS = BASE.replace(b"One.", b"One here.")
THEIRS = BASE.replace(b"Three.", b"Three there.")
BOTH = OURS.replace(b"Three.", b"Three there.")
OTHER = BASE.replace(b"One.", b"One there.")
BOB = CommitAuthor("1a2b3c4d5e6f", "Bob")


@pytest.mark.parametrize(
    ("base", "ours", "theirs", "kind", "result"),
    [
        (None, None, THEIRS, "taken", THEIRS),
        (BASE, BASE, THEIRS, "taken", THEIRS),
        (BASE, OURS, THEIRS, "merged", BOTH),
        (BASE, THEIRS, THEIRS, "same", THEIRS),
        (BASE, OURS, BASE, "same", OURS),
        (BASE, BASE, None, "removed", None),
        (BASE, OURS, None, "kept", OURS),
        (BASE, None, THEIRS, "returned", THEIRS),
        (BASE, None, BASE, "same", None),
        (BASE, None, None, "same", None),
        (b"\xff", b"\xff\x01", b"\xff\x02", "beside", b"\xff\x01"),
    ],
)
async def test_a_page_becomes(
    base: bytes | None, ours: bytes | None, theirs: bytes | None, kind: ArrivalKind, result: bytes | None
) -> None:
    work = await arrival_act("p.md", "p.md", PageTexts(base, theirs), "origin/main", BOB).work({"p.md": ours})
    assert (work.result.kind, work.result.raw, work.result.conflicts) == (kind, result, 0)
    assert work.contents == ({} if result == ours else {"p.md": result})


async def test_of_text_that_both_changed_this_sides_stays_and_is_counted() -> None:
    work = await arrival_act("p.md", "p.md", PageTexts(BASE, OTHER), "origin/main", BOB).work({"p.md": OURS})
    assert (work.result.kind, work.result.raw, work.result.conflicts) == ("merged", OURS, 1)
    assert (work.result.base, work.result.theirs) == (BASE, OTHER)


async def test_two_pages_that_were_made_at_one_path_are_merged() -> None:
    texts = PageTexts(None, b"# Plan\n\nFrom Bob.\n")
    work = await arrival_act("p.md", "p.md", texts, "origin/main", BOB).work({"p.md": b"# Plan\n\nFrom Ann.\n"})
    page = work.contents.get("p.md") or b"# Plan\n\nFrom Ann.\n"
    assert b"From Ann." in page
    assert b"From Bob." in page or work.result.conflicts


async def test_a_moved_page_takes_this_sides_text_along() -> None:
    act = arrival_act("p.md", "q/p.md", PageTexts(BASE, THEIRS), "origin/main", BOB)
    assert act.paths == ("p.md", "q/p.md")
    work = await act.work({"p.md": OURS, "q/p.md": None})
    assert work.contents == {"q/p.md": BOTH, "p.md": None}
    assert work.moved == {"q/p.md": "p.md"}


async def test_the_act_is_its_authors_and_no_hosts() -> None:
    """Names of hosts have no colon, so no host can be given such acts, nor an author those of a host."""
    act = arrival_act("p.md", "p.md", PageTexts(None, b""), "origin/main", CommitAuthor("1a2b3c4d5e", "root@terminal"))
    assert act.actor.principal == "root@terminal@git:origin/main"
    assert act.intent == "bring in commit 1a2b3c4d5 from origin/main"
