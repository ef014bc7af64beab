"""An answer is `sufficient` only if its page is about the very thing that was asked for."""

from __future__ import annotations

import pytest

from knowledge.search.query.asked_words import AskedWord
from tests.support.knowledge_bases.folders import write
from tests.unit.search.test_finder import Base

PAGES = {
    "errors/fs-2010.md": "# FS-2010\n\nThe file name is too long. Rename the file and send it again.\n",
    "errors/fs-3000.md": "# FS-3000\n\nThe disk is full. Delete what nobody needs.\n",
    "clauses/12.1.md": "# 12.1 Force majeure\n\nForce majeure ends all duties of both parties for as long as it lasts.\n",
    "minutes/2024-09-10.md": "# Board meeting of 2024-09-10\n\nThe board meeting chose a new treasurer.\n",
    "daily/2025-01-14.md": "# Standup\n\nAt the standup all said what they do.\n",
    "vorstand.md": "# Vorstandssitzung vom 10.09.2024\n\nDer Vorstand trat zusammen und beschloss den Haushalt.\n",
    "party.md": "# Spring party\n\nAt the spring party of 3 May 2024 it was decided to plant a tree.\n",
    "login.md": "# Two-factor sign-in\n\nTurn on two-factor sign-in in your profile and scan the picture.\n",
    "rooms.md": "# Meter of ward 4A\n\nThe glucose meter shows E-3 if the strip is wet and E-8 if it is cold.\n",
    "indexes.md": "# Package indexes\n\nTo ignore a package index that fails, list its error codes under `ignore_errors`.\n",
    "compatibility.md": "# Compatibility\n\nSettings of pip such as `PIP_INDEX_URL` have no effect.\n",
    "minutes/2024-05-14.md": "# Minutes\n\nThe rent was decided. The roof is due on 2024-06-30.\n",
    "minutes/2024-06-11.md": "# Minutes\n\nThe garden was discussed, and the fee was decided.\n",
    "diary/2024-07-09.md": "# Walk\n\nA walk with friends to the mill.\n",
    "flats.md": "# House C\n\nThe burst pipe in house C was mended by the plumber.\n",
    "plans.md": "# Limits\n\nThe burst limit of the plan is 500 requests.\n",
    "events.md": "# Webhook events\n\nA webhook event such as `object.created` is delivered once.\n",
    "travel/kyoto.md": "# Nights\n\nFour nights in Kyoto are booked.\n",
    "dach.md": "# Schlechtwetter\n\nDie Dacharbeiten und das Handy ruhen, wenn es zu heiß ist oder stürmt.\n",
    "books/piranesi.md": "---\nauthor: Susanna Clarke\nrating: 5\n---\nA house with endless halls, tides and statues.\n",
    "food/pancakes.md": "---\naliases: [flapjacks]\n---\n# Pancakes\n\nWhisk flour, eggs and milk, and fry them in butter.\n",
    "net.md": "---\naliases: [wireless]\n---\n# Router\n\nIts password is on the fridge.\n",
    "auftakttreffen.md": "# Notizen\n\nWir haben beim Treffen alle Aufgaben verteilt.\n",
    "lunch.md": "# Lunch\n\nLunch is served at noon in the garden.\n",
}


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Base:
    return Base(write(tmp_path_factory.mktemp("sure"), PAGES))


@pytest.mark.parametrize(
    ("query", "path", "level"),
    [
        ("FS-2010 file name too long", "errors/fs-2010.md", "sufficient"),
        ("Susanna Clarke", "books/piranesi.md", "partial"),
        ("endless halls, tides and statues", "books/piranesi.md", "sufficient"),
        ("Ruhen das Diensthandy und das Dach, wenn es stürmt?", "dach.md", "partial"),
        ("error FS2010: file name is too long", "errors/fs-2010.md", "sufficient"),
        ("FS-2011 file name too long", "errors/fs-2010.md", "partial"),
        ("ENAMETOOLONG: file name too long", "errors/fs-2010.md", "partial"),
        ("12.1 force majeure", "clauses/12.1.md", "sufficient"),
        ("clause 12.2 force majeure", "clauses/12.1.md", "partial"),
        ("board meeting 2024-09-10", "minutes/2024-09-10.md", "sufficient"),
        ("board meeting 2024-09-17", "minutes/2024-09-10.md", "partial"),
        ("board meeting in September 2024", "minutes/2024-09-10.md", "sufficient"),
        ("board meeting of 10 September 2024", "minutes/2024-09-10.md", "sufficient"),
        ("standup on 14 January 2025", "daily/2025-01-14.md", "sufficient"),
        ("standup on 15 January 2025", "daily/2025-01-14.md", "partial"),
        ("Welchen Haushalt beschloss die Vorstandssitzung vom 10. September 2024", "vorstand.md", "sufficient"),
        ("Welchen Haushalt beschloss die Vorstandssitzung vom 11. September 2024", "vorstand.md", "partial"),
        ("board meeting in July 2024", "minutes/2024-09-10.md", "partial"),
        ("board meeting of 17 September 2024", "minutes/2024-09-10.md", "partial"),
        ("what was decided at the spring party of 3 May 2024", "party.md", "sufficient"),
        ("what was decided at the spring party of 4 June 2024", "party.md", "partial"),
        ("what does the glucose meter show with E-3", "rooms.md", "sufficient"),
        ("what does the glucose meter show with E-5", "rooms.md", "partial"),
        ("ignore a package index that fails", "indexes.md", "sufficient"),
        ("ignore_errors of a package index", "indexes.md", "sufficient"),
        ("ignore the package index of PIP_INDEX_URL that fails", "indexes.md", "partial"),
        ("what was decided in June 2024", "minutes/2024-06-11.md", "partial"),
        ("minutes of 11 June", "minutes/2024-06-11.md", "partial"),
        ("walk on 9 July", "diary/2024-07-09.md", "sufficient"),
        ("burst pipe in house C", "flats.md", "sufficient"),
        ("burst pipe in house D", "flats.md", "partial"),
        ("burst limit of the plan", "plans.md", "sufficient"),
        ("burst limit of the Business plan", "plans.md", "partial"),
        ("webhook event object.created", "events.md", "sufficient"),
        ("webhook event object.copied", "events.md", "partial"),
        ("how many nights in Kyoto", "travel/kyoto.md", "sufficient"),
        ("turn on two-factor sign-in", "login.md", "sufficient"),
        ("how do I make flapjacks", "food/pancakes.md", "partial"),
        ("flapjakcs", "food/pancakes.md", "partial"),
        ("wireless password", "net.md", "partial"),
        ("Aufgaben vom Auftakttreffen", "auftakttreffen.md", "partial"),
        ("turn off two-factor sign-in", "login.md", "partial"),
    ],
)
async def test_a_code_a_name_a_date_or_an_opposite_that_the_page_lacks_is_not_sufficient(
    base: Base, query: str, path: str, level: str
) -> None:
    await base.index_all()
    answer = await base.finder.search(query)
    assert (answer.hits[0].path, answer.scent.level) == (path, level), answer.scent.reason


@pytest.mark.parametrize("query", ["how do I make flapjacks", "wireless password", "Aufgaben vom Auftakttreffen"])
async def test_a_word_that_only_an_alias_or_a_file_name_has_is_not_missing(base: Base, query: str) -> None:
    await base.index_all()
    assert "no hit has" not in (await base.finder.search(query)).scent.reason


@pytest.mark.parametrize(
    ("query", "missing"),
    [
        ("what does the glucose meter show with E-5", "E-5"),
        ("what was decided at the spring party of 4 June 2024", "4 June 2024"),
        ("board meeting in August 2024", "August 2024"),
    ],
)
async def test_a_code_or_a_date_that_no_hit_has_is_named(base: Base, query: str, missing: str) -> None:
    await base.index_all()
    assert f"no hit has {missing!r}" in (await base.finder.search(query)).scent.reason


@pytest.mark.parametrize(
    ("query", "asking"),
    [
        ("how do I use the burst limit of the plan", "use"),
        ("everything about the burst limit of the plan", "everything"),
        ("list all of the burst limit of the plan", "list"),
        ("what happened to the burst pipe in house C", "happened"),
        ("differences between burst limit and plan", "differences"),
        ("what is the burst limit of the plan like", "like"),
    ],
)
async def test_words_that_only_ask_are_not_missed(base: Base, query: str, asking: str) -> None:
    await base.index_all()
    scent = (await base.finder.search(query)).scent
    assert repr(asking) not in scent.reason
    assert scent.level == "sufficient"


async def test_the_same_word_is_missed_where_it_is_asked_for(base: Base) -> None:
    await base.index_all()
    assert "no hit has 'notes'" in (await base.finder.search("burst limit of notes in the plan")).scent.reason


async def test_one_of_two_things_that_are_compared_is_not_sufficient(base: Base) -> None:
    await base.index_all()
    answer = await base.finder.search("force majeure vs lunch in the garden")
    assert answer.scent.level == "partial"
    assert "the question asks for two things" in answer.scent.reason


@pytest.mark.parametrize(
    ("written", "text", "is_there"),
    [
        ("FS-2011", "see FS 2011 below", True),
        ("FS2011", "see fs-2011", True),
        ("FS-2011", "FS-20110", False),
        ("FS-2011", "XFS-2011", False),
        ("12.2", "as in 12.2.1", True),
        ("12.2", "as in 12.20", False),
        ("12.2", "as in 3.12.2", False),
        ("4D", "ward 4D", True),
        ("4D", "40 days, 4Days", False),
    ],
)
def test_a_code_is_found_however_it_is_joined_and_not_in_a_longer_one(
    written: str, text: str, *, is_there: bool
) -> None:
    word = AskedWord(written, (written.lower(),))
    assert word.is_code
    assert word.is_code_in([text]) == is_there


@pytest.mark.parametrize("written", ["front-matter", "dump", "DNS", "2024", "Kubernetes"])
def test_an_ordinary_word_is_no_code(written: str) -> None:
    assert not AskedWord(written, (written.lower(),)).is_code
