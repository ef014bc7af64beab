"""Circle 3 on the plain-memory engines: what is found, in which order, and the answer's notes about itself."""

from __future__ import annotations

import asyncio
import itertools
import json
import time
from collections.abc import Sequence
from dataclasses import asdict
from datetime import datetime
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from knowledge.errors import BadCursor, EmbedderUnavailable, NoSuchPath
from knowledge.index.indexer import Indexer
from knowledge.index.ports import KeywordIndex
from knowledge.pages.vault import Vault
from knowledge.search import RECIPE
from knowledge.search.answers import SearchMode
from knowledge.search.finder import Finder
from knowledge.search.query.analysis import words
from knowledge.search.query.corrections import Candidate, Vocabulary
from knowledge.search.query.question import Questions
from knowledge.search.ranking.ranker import Engines
from knowledge.search.ranking.weights import RankingWeights
from knowledge.search.scent.verdict import LOST_BELOW, NAMED, SUFFICIENT_FROM
from knowledge.state.ports import Filters, IndexIdentity, IndexStore
from mcp_server.app.factories.keywords import indexed_terms, name_terms
from tests.support.index.memory_embedder import MemoryEmbedder
from tests.support.index.memory_engines import MemoryKeywordIndex, MemoryVectorIndex
from tests.support.knowledge_bases.folders import PAGES, write
from tests.support.state.memory.index import MemoryIndexStore

TWICE = "alpha beta gamma delta " + " ".join(f"word{i}" for i in range(30))


class Base:
    """A knowledge base in memory, over a real folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.index = MemoryIndexStore()
        self.keyword = MemoryKeywordIndex(indexed_terms, name_terms)
        self.embedder = MemoryEmbedder()
        self.finder = Finder(self.index, self.engines, correct, answer_tokens=1500)
        self.indexer = Indexer(
            Vault.open(folder), self.index, keyword=self.keyword_index, embedder=self.load, now_ns=time.time_ns
        )

    async def engines(self) -> Engines:
        return Engines(self.keyword, MemoryVectorIndex(), self.load)

    async def keyword_index(self) -> KeywordIndex:
        return self.keyword

    async def load(self, _: IndexIdentity) -> MemoryEmbedder:
        return self.embedder

    async def index_all(self) -> None:
        await self.index.begin(IndexIdentity(self.embedder.name, self.embedder.dimensions, RECIPE))
        await self.indexer.reconcile(1)


async def correct(index: IndexStore, word: str) -> Sequence[Candidate]:
    return Vocabulary(await index.vocabulary()).near(word)


def written(folder: Path) -> Base:
    return Base(write(folder / "kb", {**PAGES, "same.md": f"# A\n\n{TWICE}\n\n# B\n\n{TWICE}\n"}))


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Base:
    """A base that tests only read: indexing takes longer than all of their searches."""
    made = written(tmp_path_factory.mktemp("read"))
    asyncio.run(made.index_all())
    return made


@pytest.fixture
async def own_base(tmp_path: Path) -> Base:
    """A base that the test may change."""
    made = written(tmp_path)
    await made.index_all()
    return made


async def paths(base: Base, query: str, **asked: object) -> list[str]:
    return [hit.path for hit in (await base.finder.search(query, **asked)).hits]  # type: ignore[arg-type]  # as asked


@pytest.mark.parametrize(
    "name", ["guides/deploy.md", "guides/deploy", "deploy.md", "release", "Deploying the Payment Service"]
)
async def test_an_exact_name_comes_first_and_suffices(base: Base, name: str) -> None:
    """The design, section 4: exact path, title and heading matches first."""
    answer = await base.finder.search(name)
    assert answer.hits[0].path == "guides/deploy.md"
    assert answer.hits[0].score == NAMED
    assert answer.route.mode == "navigation"
    assert answer.scent.level == "sufficient"


async def test_a_heading_is_a_name_too(base: Base) -> None:
    best = (await base.finder.search("rolling back")).hits[0]
    assert (best.path, best.section) == ("guides/deploy.md", "Deploying the payment service > Rolling back")


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("backpresure", "decisions/0001-queue.md"),
        ("onbaording", "guides/onboarding.md"),
        ("bakcpressuer", "decisions/0001-queue.md"),
    ],
)
async def test_typing_errors_are_forgiven_and_said(base: Base, typed: str, meant: str) -> None:
    """The design, section 4: five letters, one edit; nine letters, two."""
    answer = await base.finder.search(typed)
    assert answer.hits[0].path == meant
    assert answer.corrected


async def test_a_correction_leaves_the_rest_of_the_question_as_it_was(base: Base) -> None:
    answer = await base.finder.search("Where is the Backpresure (of the queue)?")
    assert answer.corrected == "Where is the backpressure (of the queue)?"


async def test_a_misspelt_word_that_says_nothing_is_not_searched_for(base: Base) -> None:
    """As an unknown word it would suggest that the answer is not here."""
    question = await Questions(base.index, correct).ask("backpressure wiht payments")
    assert question.content == ("backpressure", "payments")


QUESTIONS = (
    *("how is the payment service deployed", "switch router previous colour forty seconds", "sentence about gardening"),
    *("secrets", "rolling back", "Onboarding", "where is the onboarding page", "open the guides", "zebra crossing"),
    *("payment service secrets sentence gardening queue router", "backpressure between checkout and billing", "qqqq"),
    *("what is in the decisions folder", "Long page", "why we use a queue", "part", "list everything"),
)


@pytest.mark.parametrize("query", QUESTIONS)
@pytest.mark.parametrize("mode", ["auto", "navigation", "discovery"])
async def test_scores_never_rise_and_agree_with_the_verdict(base: Base, query: str, mode: SearchMode) -> None:
    """A score is the probability that the page answers, and the verdict is that of the first page in words."""
    cursor: str | None = None
    for _ in range(20):
        answer = await base.finder.search(query, mode=mode, limit=3, cursor=cursor)
        scores = [hit.score for hit in answer.hits]
        assert scores == sorted(scores, reverse=True)
        assert all(0 <= score < 1 for score in scores)
        pages = {hit.path: hit.score for hit in answer.hits}
        assert all(hit.score == pages[hit.path] for hit in answer.hits), "passages of a page share its score"
        first = scores[0] if scores else 0.0
        assert (answer.scent.level == "sufficient") == (first >= SUFFICIENT_FROM)
        # The contents of a folder that the question names are shown, so such an answer is never lost.
        assert answer.scent.level != "lost" or first < LOST_BELOW
        assert (
            first >= LOST_BELOW or answer.scent.level == "lost" or answer.scent.reason.startswith("the question is for")
        )
        cursor = answer.next_cursor
        if cursor is None:
            return
    raise AssertionError("the answer never ends")


async def test_a_score_depends_neither_on_the_limit_nor_on_the_page_of_the_answer(base: Base) -> None:
    query = "payment service secrets sentence gardening queue router"
    every = await base.finder.search(query, mode="discovery", limit=50)
    expected = {hit.path: hit.score for hit in every.hits}
    cursor, seen = None, 0
    while seen < len(expected):
        answer = await base.finder.search(query, mode="discovery", limit=1, cursor=cursor)
        assert {hit.path: hit.score for hit in answer.hits}.items() <= expected.items()
        cursor, seen = answer.next_cursor, seen + len(answer.hits)
        if cursor is None:
            break


async def test_a_page_that_the_question_names_is_the_first_hit_although_others_have_more_of_its_words(
    tmp_path: Path,
) -> None:
    """The verdict is that the named page suffices, so a passage of it has to be there, with a score that says so."""
    text = "# Ports\n\nWhere is the page about shipping: where the shipping page is, shipping and shipping pages.\n"
    base = Base(write(tmp_path, {"shipping.md": "# Nothing else\n\nBoats.\n", **{f"{n}.md": text for n in range(40)}}))
    await base.index_all()
    answer = await base.finder.search("where is the page shipping", mode="navigation")
    assert answer.pages[0].path == "shipping.md"
    assert (answer.hits[0].path, answer.hits[0].score, answer.scent.level) == ("shipping.md", NAMED, "sufficient")
    filtered = await base.finder.search(
        "where is the page shipping", mode="navigation", filters=Filters(tags=("none",))
    )
    assert (list(filtered.hits), filtered.scent.level) == ([], "lost")
    assert filtered.scent.reason == "no page passes the filters"


async def test_the_weights_are_asked_with_each_search(base: Base) -> None:
    """Weights that a person stores apply to a server that is running."""
    weights = RankingWeights()

    async def now() -> RankingWeights:
        return weights

    finder = Finder(base.index, base.engines, correct, answer_tokens=1500, weights=now)
    asked = "rolling back messages of the queue"
    usual = [(hit.path, hit.section, hit.score) for hit in (await finder.search(asked)).hits]
    assert usual == [(hit.path, hit.section, hit.score) for hit in (await base.finder.search(asked)).hits]
    weights = RankingWeights(cosine=0.0, coverage=0.0)
    changed = [(hit.path, hit.section, hit.score) for hit in (await finder.search(asked)).hits]
    assert sorted(changed) != sorted(usual)
    weights = RankingWeights()
    assert usual == [(hit.path, hit.section, hit.score) for hit in (await finder.search(asked)).hits]


async def test_a_misspelt_name_comes_first_and_its_words_decide_whether_it_suffices(base: Base) -> None:
    """What was meant is a guess: `crust` is no page called Trust."""
    answer = await base.finder.search("Deploying the paymnet service")
    assert (answer.hits[0].path, answer.scent.level) == ("guides/deploy.md", "sufficient")
    assert answer.hits[0].score != NAMED


async def test_a_name_of_one_misspelt_word_does_not_suffice(own_base: Base) -> None:
    pages = {f"p{n}.md": f"# Part {n}\n\nThe provenance of part {n} is recorded here.\n" for n in range(9)}
    write(own_base.folder, {**pages, "trust.md": "# Provenance\n\nWhat provenance means here.\n"})
    await own_base.index_all()
    answer = await own_base.finder.search("provnance")
    assert (answer.corrected, answer.hits[0].path, answer.scent.level) == ("provenance", "trust.md", "partial")


async def test_the_case_of_a_tag_does_not_matter(own_base: Base) -> None:
    write(own_base.folder, {"tagged.md": "---\ntags: [Area/Sub]\n---\n# Gazebo\n\nPaint it.\n"})
    await own_base.index_all()
    for tag in ("Area/Sub", "area/sub"):
        answer = await own_base.finder.search("gazebo", filters=Filters(tags=(tag,)))
        assert [hit.path for hit in answer.hits] == ["tagged.md"]


async def test_to_search_only_the_page_that_answers_is_no_worse_sign(own_base: Base) -> None:
    """That no other page comes near says nothing if no other page was searched."""
    write(own_base.folder, {"gazebo.md": "# Gazebo maintenance\n\nPaint the gazebo every spring with linseed oil.\n"})
    await own_base.index_all()
    asked = "how often should the gazebo be painted with linseed oil?"
    alone = await own_base.finder.search(asked, path="gazebo.md")
    assert alone.scent.level in ("partial", "sufficient")
    assert alone.hits[0].score > 0.5
    assert (await own_base.finder.search("who feeds the horses", path="gazebo.md")).scent.level == "lost"


async def test_a_word_of_a_few_pages_in_another_language_is_found_as_it_is_written(own_base: Base) -> None:
    english = {
        f"en/{n}.md": f"# Page {n}\n\nThe parts of the other thing are there and this is it.\n" for n in range(60)
    }
    german = "# Urlaub\n\nDie Vorgesetzten genehmigen die Anträge, und die Tage verfallen am Ende des Jahres.\n"
    write(own_base.folder, {**english, "de.md": german})
    await own_base.index_all()
    for word in ("verfallen", "genehmigen"):
        answer = await own_base.finder.search(word)
        assert answer.hits[0].path == "de.md"
        assert "no hit has" not in answer.scent.reason


async def test_another_form_of_a_known_word_is_no_typing_error(base: Base) -> None:
    answer = await base.finder.search("deployments of payments")
    assert answer.corrected is None
    assert answer.hits[0].path == "guides/deploy.md"


async def test_forms_are_those_of_the_language_that_is_asked_in(own_base: Base) -> None:
    """A stray page in Italian doesn't turn an English typo into a known word."""
    write(own_base.folder, {f"{n}.md": "# Filters\n\nThe lattice filters of the other part are here.\n" for n in "pqr"})
    write(
        own_base.folder,
        {"it.md": "# Il latte\n\nIl latte che non è della casa ma di questo paese si beve con il pane.\n"},
    )
    await own_base.index_all()
    questions = Questions(own_base.index, correct)
    assert {"en", "it"} <= set(await questions.languages())
    assert (await questions.ask("low pass lattie filters")).corrected == "low pass lattice filters"
    assert (await questions.ask("quando si beve questo latti")).corrected is None


async def test_the_last_word_is_found_while_it_is_typed(base: Base) -> None:
    assert (await paths(base, "message backpr"))[0] == "decisions/0001-queue.md"


async def test_what_one_page_says_twice_is_shown_once(base: Base) -> None:
    assert (await paths(base, "alpha beta gamma delta")).count("same.md") == 1


async def test_later_pages_repeat_nothing_though_the_index_has_changed(own_base: Base) -> None:
    seen: list[tuple[str, int]] = []
    cursor = None
    for round_ in range(4):
        answer = await own_base.finder.search("sentence about gardening", limit=3, cursor=cursor)
        seen += [(hit.path, hit.line_start) for hit in answer.hits]
        cursor = answer.next_cursor
        (own_base.folder / f"new{round_}.md").write_text("A sentence about gardening, and another.\n", encoding="utf-8")
        await own_base.index_all()
        if cursor is None:
            break
    assert len(seen) >= 9
    assert len(seen) == len(set(seen))


@pytest.mark.parametrize("cursor", ["", "x", "W10", "bnVsbA", "WyJ4Iiwib25lIl0", "[]", "é"])
async def test_a_cursor_of_nobody_is_refused(base: Base, cursor: str) -> None:
    if cursor:
        with pytest.raises(BadCursor):
            await base.finder.search("gardening", cursor=cursor)


async def test_a_search_in_a_place_stays_there_and_an_unknown_place_is_said(base: Base) -> None:
    assert set(await paths(base, "service queue gardening", path="guides")) <= {
        p for p in PAGES if p.startswith("guides/")
    }
    assert set(await paths(base, "gardening", path="long")) == {"long.md"}
    with pytest.raises(NoSuchPath, match=r"guides/deploy\.md"):
        await base.finder.search("x", path="deploy")


async def test_an_answer_that_lacks_what_was_asked_says_so(base: Base) -> None:
    answer = await base.finder.search("quantum chromodynamics lattice simulation")
    assert answer.scent.level == "lost"
    assert "kb_map" in answer.scent.next


@pytest.mark.parametrize("limit", [1, 8, 50])
@pytest.mark.parametrize(
    "query", ["sentence about gardening", "what is in guides", "how is the payment service deployed"]
)
async def test_a_whole_answer_keeps_to_its_tokens(base: Base, query: str, limit: int) -> None:
    """At most a configured number of tokens; counted as a model sees them, characters of the JSON / 4."""
    answer = await base.finder.search(query, limit=limit)
    told = json.dumps(asdict(answer), ensure_ascii=False, separators=(",", ":"))
    assert len(told) / 4 <= 1500
    assert all(hit.snippet for hit in answer.hits)


async def test_who_asks_for_ten_hits_gets_ten(tmp_path: Path) -> None:
    """Each from a different page, which also costs a map line; more are behind the cursor."""
    long = "Gardening needs patience, water and a shed, as everybody knows who ever tried. " * 30
    base = Base(write(tmp_path, {f"areas/gardening/page-{i:02}.md": f"# Gardening {i}\n\n{long}\n" for i in range(30)}))
    await base.index_all()
    for limit, shown in ((10, 10), (50, 10), (4, 4)):
        answer = await base.finder.search("how does gardening need patience", mode="discovery", limit=limit)
        assert len(answer.hits) >= shown
        told = json.dumps(asdict(answer), ensure_ascii=False, separators=(",", ":"))
        assert len(told) / 4 <= 1500
        assert answer.next_cursor
    usual = await base.finder.search("how does gardening need patience", mode="discovery")
    assert 4 <= len(usual.hits) <= 8
    assert min(len(hit.snippet) for hit in usual.hits) >= 200


async def test_a_larger_limit_finds_every_page_that_a_smaller_one_finds(tmp_path: Path) -> None:
    """Otherwise the passages of the first page would take the room of all other pages."""
    sections = "".join(
        f"## Part {n}\n\nRotating the signing keys, part {n}: {'keys and more keys. ' * 40}\n\n" for n in range(30)
    )
    pages = {f"{n}.md": f"# Page {n}\n\nThe signing keys of service {n} are rotating.\n" for n in range(12)}
    base = Base(write(tmp_path / "kb", {"all.md": f"# Signing keys\n\n{sections}", **pages}))
    await base.index_all()
    found: set[str] = set()
    for limit in (1, 3, 5, 8, 10, 20, 50):
        answer = await base.finder.search("rotating signing keys", mode="discovery", limit=limit)
        now = {hit.path for hit in answer.hits}
        assert found <= now, limit
        found = now


async def test_the_first_hits_are_the_same_with_any_limit_though_a_page_repeats_itself(tmp_path: Path) -> None:
    """Near-duplicates are left out, so a larger limit must not examine chunks that a smaller one did not."""
    once = "The rotating signing keys are rotating keys, rotating in signing. " + " ".join(
        f"word{i}" for i in range(40)
    )
    again = "".join(f"## Part {n}\n\n{once}\n\n" for n in range(26))
    short = {f"s{n:02}.md": f"# Short {n}\n\nKeys for {n}, rotating, and then signing.\n" for n in range(5)}
    long = {
        f"t{n:02}.md": f"# Long {n}\n\nThe rotating signing keys. {'And much more in it. ' * 24}\n" for n in range(20)
    }
    base = Base(write(tmp_path / "kb", {"all.md": f"# All\n\n{again}", **short, **long}))
    await base.index_all()
    found: list[tuple[str, str]] = []
    for limit in (5, 10, 20, 50):
        answer = await base.finder.search("rotating signing keys", mode="discovery", limit=limit)
        now = [(hit.path, hit.section) for hit in answer.hits]
        assert now[: len(found)] == found, limit
        found = now


@pytest.mark.parametrize(
    "query",
    ["lastRegisteredEmail", "rotation::Plan", '"error: the last registered email of the account is gone"'],
)
async def test_a_page_with_the_question_as_it_was_written_comes_first(tmp_path: Path, query: str) -> None:
    """An identifier, or a line of an error message, that a long page has once: others have its words more often."""
    other = "The email of the last account is registered. An error says that it is gone. A plan of the rotation. "
    said = "Then set lastRegisteredEmail, call rotation::Plan, and see error: the last registered email of the account is gone."
    reference = "# Reference\n\n" + "\n\n".join(f"Field {n} means what field {n + 1} means. " * 25 for n in range(20))
    pages = {f"{n}.md": f"# Registered email {n}\n\n{other * (n % 5 + 1)}\n" for n in range(40)}
    base = Base(write(tmp_path / "kb", {"reference.md": f"{reference} {said}\n", **pages}))
    await base.index_all()
    answer = await base.finder.search(query)
    assert answer.hits[0].path == "reference.md"


async def test_words_that_many_pages_have_in_this_order_decide_nothing(tmp_path: Path) -> None:
    pages = {f"{n}.md": f"# Page {n}\n\nSee how to rotate the signing keys.\n" for n in range(8)}
    guide = "# Rotating keys\n\nRotate signing keys: rotate all the keys, then sign. Signing keys are rotated.\n"
    base = Base(write(tmp_path / "kb", {"guide.md": guide, **pages}))
    await base.index_all()
    answer = await base.finder.search("how to rotate the signing keys", explain=True)
    assert "as written" not in json.dumps(answer.explanation)


async def test_of_files_with_the_same_name_the_one_with_the_title_comes_first(tmp_path: Path) -> None:
    pages = {
        "a/faq.md": "# Questions about a\n\nNone.\n",
        "b/faq.md": "# FAQ\n\nNone.\n",
        "c/faq.md": "# Of c\n\nNone.\n",
    }
    base = Base(write(tmp_path / "kb", pages))
    await base.index_all()
    assert (await paths(base, "faq"))[0] == "b/faq.md"
    assert (await paths(base, "c/faq.md"))[0] == "c/faq.md"


@pytest.mark.parametrize("mark", ["{#translations}", "{#translations .wide}", "{/*translations*/}"])
@pytest.mark.parametrize("name", ["Traductions", "Langues disponibles", "Traductions > Langues disponibles"])
async def test_a_title_or_heading_is_found_without_its_attributes_for_a_site_generator(
    tmp_path: Path, name: str, mark: str
) -> None:
    """VitePress, Hugo, Docusaurus and MDX name the anchor at the end of the heading; people ask for the words before it."""
    page = f"# Traductions {mark}\n\nUne page.\n\n## Langues disponibles {mark}\n\nDix.\n"
    other = "# Guide\n\nTraductions, langues disponibles, traductions et langues disponibles.\n"
    base = Base(write(tmp_path / "kb", {"a/index.md": page, "b.md": other}))
    await base.index_all()
    answer = await base.finder.search(name)
    first = answer.hits[0]
    assert (first.path, first.title) == ("a/index.md", "Traductions")
    assert first.section in ("Traductions", "Traductions > Langues disponibles")
    assert answer.scent.level == "sufficient"


async def test_a_hit_names_a_section_so_that_it_can_be_read(tmp_path: Path) -> None:
    page = "# A\n\n## Options {#client}\n\nRetry the zebra.\n\n## Options {#server}\n\nGraze the giraffe.\n"
    base = Base(write(tmp_path / "kb", {"a.md": page}))
    await base.index_all()
    assert (await base.finder.search("giraffe")).hits[0].section == "A > Options {#server}"


async def test_of_pages_with_the_same_alias_the_one_about_it_comes_first(tmp_path: Path) -> None:
    front = "---\naliases: [undo]\n---\n"
    pages = {
        "a.md": f"{front}# Messages\n\nMessages are sent once.\n",
        "b.md": f"{front}# Batches\n\nA batch is one act.\n",
        "take-back.md": f"{front}# Take changes back\n\nTo undo a change, open its history. An undo is a change, too.\n",
    }
    base = Base(write(tmp_path / "kb", pages))
    await base.index_all()
    assert (await paths(base, "undo"))[0] == "take-back.md"
    answer = await base.finder.search("where is undo", mode="navigation")
    assert answer.pages[0].path == "take-back.md"


async def test_a_title_comes_before_a_file_name_and_a_full_path_before_both(tmp_path: Path) -> None:
    pages = {
        "a/faq.md": "# Questions about data\n\nNothing here.\n",
        "b/questions.md": "# FAQ\n\nNothing there.\n",
        "faq": "",
    }
    base = Base(write(tmp_path / "kb", {path: text for path, text in pages.items() if text}))
    await base.index_all()
    assert (await paths(base, "faq"))[:2] == ["b/questions.md", "a/faq.md"]
    assert (await paths(base, "a/faq.md"))[0] == "a/faq.md"


async def test_a_page_is_found_by_its_alias_and_its_folder_although_its_text_has_neither(tmp_path: Path) -> None:
    pages = {
        "billing/terms.md": "---\naliases: [invoicing rules]\n---\n# Terms\n\nPay within a month.\n",
        **{f"{n}.md": f"# Page {n}\n\nPay attention to rules of part {n}.\n" for n in range(9)},
    }
    base = Base(write(tmp_path / "kb", pages))
    await base.index_all()
    assert (await paths(base, "invoicing"))[0] == "billing/terms.md"
    assert (await paths(base, "billing month"))[0] == "billing/terms.md"


async def test_a_page_whose_words_are_spread_over_its_passages_comes_before_one_with_some_of_them(
    tmp_path: Path,
) -> None:
    filler = "Other sentences of this section are about something else entirely. " * 20
    spread = "".join(
        f"## {word}\n\n{word} is described here. {filler}\n\n" for word in ("Quota", "Invoice", "Refund", "Ledger")
    )
    some = {f"{n}.md": f"# Note {n}\n\nquota and invoice. {filler}\n" for n in range(6)}
    base = Base(write(tmp_path / "kb", {"billing.md": f"# Money\n\n{spread}", **some}))
    await base.index_all()
    assert "billing.md" in (await paths(base, "quota invoice refund ledger"))[:1]


async def test_what_does_not_fit_is_on_the_next_page(base: Base) -> None:
    everything: list[str] = []
    cursor = None
    while True:
        answer = await base.finder.search("sentence about gardening", mode="discovery", limit=50, cursor=cursor)
        everything += [f"{hit.path}#{hit.section}" for hit in answer.hits]
        cursor = answer.next_cursor
        if cursor is None:
            break
    assert len(everything) == len(set(everything)) >= 12


@pytest.mark.parametrize("query", ["what's in guides", "list guides", "show me the guides", "guides/", "Guides"])
async def test_a_question_for_a_place_gets_the_place_first_and_few_chunks(base: Base, query: str) -> None:
    """Navigation answers with the map entry or document first and a few chunks."""
    answer = await base.finder.search(query, mode="navigation")
    assert (answer.pages[0].path, answer.pages[0].kind) == ("guides", "directory")
    assert answer.pages[0].line == "Guides: How we do things."
    assert {"guides/deploy.md", "guides/onboarding.md"} <= {page.path for page in answer.pages}
    assert len(answer.hits) <= 3
    assert len((await base.finder.search(query, mode="navigation", limit=5)).hits) == 5


@pytest.mark.parametrize(
    ("query", "next_call"),
    [
        ("what's in guides", "kb_map('guides')"),
        ("list the decisions", "kb_map('decisions')"),
        ("where is the onboarding page", "kb_read('guides/onboarding.md')"),
        ("open guides/deploy", "kb_read('guides/deploy.md')"),
        ("list all pages", "kb_map('')"),
        ("what does the guides folder contain?", "kb_map('guides')"),
        ("What does guides/ contain", "kb_map('guides')"),
    ],
)
async def test_the_next_call_after_a_question_for_a_place_opens_it(base: Base, query: str, next_call: str) -> None:
    """Issue: "A question taken for navigation is answered with that map as `next`, not with another search"."""
    answer = await base.finder.search(query)
    assert answer.route.mode == "navigation"
    assert answer.scent.next == next_call
    assert answer.scent.level != "lost"


@pytest.mark.parametrize(
    "query",
    [
        "guides 里有什么",
        "guidesには何がありますか",
        "qu'y a-t-il dans guides",
        "que contient guides",
        "was enthält guides",
        "co jest w guides",
    ],
)
async def test_a_place_is_known_by_its_name_in_a_question_of_any_language(base: Base, query: str) -> None:
    answer = await base.finder.search(query, mode="navigation")
    assert answer.scent.next == "kb_map('guides')"
    assert answer.pages[0].path == "guides"


@pytest.mark.parametrize("query", ["open guides about rollback", "welche guides oder decisions gibt es"])
async def test_a_question_that_says_more_than_a_places_name_is_not_about_that_place(base: Base, query: str) -> None:
    assert (await base.finder.search(query, mode="navigation")).scent.next != "kb_map('guides')"


async def test_a_place_is_found_by_the_end_of_its_path(tmp_path: Path) -> None:
    """A knowledge base may be a whole repository, and people name its folders as the website does."""
    folder = write(tmp_path, {"content/en/tasks/debug/pods.md": "# Pods\n\nLook at the pods in the debug folder.\n"})
    base = Base(folder)
    await base.index_all()
    for query in ("what's in tasks/debug", "what's in debug", "what is in en/tasks/debug/?"):
        assert (await base.finder.search(query)).scent.next == "kb_map('content/en/tasks/debug')"
    assert (await base.finder.search("open debug/pods")).scent.next == "kb_read('content/en/tasks/debug/pods.md')"


async def test_a_directory_is_found_by_its_name_whatever_the_search_finds(tmp_path: Path) -> None:
    """Only some parts of a question are looked up, and the directory's pages need not be among the hits."""
    pages = {f"notes/n{i}.md": f"# List of pages {i}\n\nShow a list of all pages in the folder.\n" for i in range(60)}
    base = Base(write(tmp_path, pages | {"areas/people-talent/a.md": "# A\n\nHiring.\n"}))
    await base.index_all()
    for query in ("show me a list of all the pages in the folder people-talent", "list the pages in People Talent"):
        answer = await base.finder.search(query, mode="navigation")
        assert answer.scent.next == "kb_map('areas/people-talent')"
        assert answer.pages[0].path == "areas/people-talent"


async def test_a_question_for_the_contents_of_the_searched_directory_leads_to_its_map(base: Base) -> None:
    answer = await base.finder.search("list all pages", path="guides")
    assert answer.scent.next == "kb_map('guides')"


@pytest.mark.parametrize("query", ["where are the retry timeouts of guides kept", "how do the guides explain a deploy"])
async def test_a_question_that_says_more_than_a_place_is_judged_by_its_hits(base: Base, query: str) -> None:
    assert (await base.finder.search(query)).scent.next != "kb_map('guides')"


async def test_a_page_that_is_asked_for_comes_first(base: Base) -> None:
    answer = await base.finder.search("where is the onboarding page", mode="navigation")
    assert answer.pages[0].path == "guides/onboarding.md"


async def test_a_place_is_looked_for_where_the_search_is(base: Base) -> None:
    answer = await base.finder.search("open the guides", mode="navigation", path="decisions")
    assert all(page.path.startswith("decisions") for page in answer.pages)


async def test_chunks_of_a_page_stand_together_with_the_line_of_each_page(base: Base) -> None:
    """Discovery with chunks, grouped by document, and the map line of each."""
    answer = await base.finder.search("payment service secrets sentence gardening queue router", mode="discovery")
    found = [hit.path for hit in answer.hits]
    assert len(found) > len(set(found)) > 1
    assert [path for path, _ in itertools.groupby(found)] == list(dict.fromkeys(found))
    assert [page.path for page in answer.pages] == list(dict.fromkeys(found))
    assert answer.pages[0].path == answer.hits[0].path


async def test_a_page_indexed_anew_is_not_shown_again(own_base: Base) -> None:
    """Cursors identify shown text by its contents: a new number for the same text is not new."""
    first = await own_base.finder.search("sentence about gardening", mode="discovery", limit=5)
    page = own_base.folder / "long.md"
    page.write_text(page.read_text(encoding="utf-8") + "\n## Part 99\n\nUnrelated.\n", encoding="utf-8")
    await own_base.indexer.reconcile(1)
    second = await own_base.finder.search(
        "sentence about gardening", mode="discovery", limit=50, cursor=first.next_cursor
    )
    assert not {hit.snippet for hit in first.hits} & {hit.snippet for hit in second.hits}
    assert not {hit.section for hit in first.hits} & {hit.section for hit in second.hits}


async def test_a_hit_says_when_its_page_was_written(base: Base) -> None:
    answer = await base.finder.search("canary")
    written = datetime.fromisoformat(answer.hits[0].modified)
    assert abs(written.timestamp() - (base.folder / "guides/deploy.md").stat().st_mtime) < 1


async def test_the_same_question_has_the_same_answer(base: Base) -> None:
    assert await base.finder.search("payment service queue") == await base.finder.search("payment service queue")


class NoEmbedder(MemoryEmbedder):
    async def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        raise EmbedderUnavailable("weights", f"{len(texts)} texts, no weights")


async def test_without_an_embedder_the_words_must_do(own_base: Base) -> None:
    own_base.embedder = NoEmbedder()
    assert (await paths(own_base, "backpressure between checkout and billing"))[0] == "decisions/0001-queue.md"


GERMAN = "Warum gibt es zwischen Kasse und Abrechnung eine Warteschlange?"
TRANSLATED = {"kasse": "checkout", "abrechnung": "billing", "warteschlange": "queue"}


class Translating(MemoryEmbedder):
    """Words of a small dictionary mean the same in both languages."""

    multilingual = True

    def __init__(self) -> None:
        super().__init__(words=lambda text: [TRANSLATED.get(word, word) for word in words(text)])


async def test_a_foreign_question_is_answered_by_a_multilingual_embedder(tmp_path: Path) -> None:
    base = written(tmp_path)
    base.embedder = Translating()
    await base.index_all()
    answer = await base.finder.search(GERMAN)
    assert answer.hits[0].path == "decisions/0001-queue.md"
    assert (answer.scent.level, answer.note) == ("partial", None)
    assert LOST_BELOW <= answer.hits[0].score < SUFFICIENT_FROM
    assert answer.scent.reason == "the question is in German and the pages are in English; found by meaning"
    assert answer.scent.next.startswith("kb_read(")


async def test_without_one_the_answer_says_what_is_missing_and_is_not_lost(base: Base) -> None:
    answer = await base.finder.search(GERMAN)
    assert answer.scent.level == "partial"
    assert answer.scent.next == "ask again in English"
    assert answer.note is not None
    assert answer.note.startswith(
        "the question is in German and the pages are in English, and the current embedder can't match across languages"
    )
    assert "knowledge-forge embedder list" in answer.note
    assert answer.corrected is None


async def test_a_foreign_question_is_not_lost_while_its_embedder_is_down(tmp_path: Path) -> None:
    """No page has its words, and nothing could be searched by meaning: that says nothing about the pages."""
    base = written(tmp_path)
    base.embedder = Translating()
    await base.index_all()

    async def broken(_: IndexIdentity) -> MemoryEmbedder:
        raise EmbedderUnavailable("the multilingual one", "no answer")

    base.load = broken  # type: ignore[method-assign]
    answer = await base.finder.search("Warum haben wir die Zyklenwarteschlange nicht mehr?")
    assert (list(answer.hits), answer.scent.level) == ([], "partial")
    assert answer.scent.next == "ask again in English"
    assert answer.note is not None
    assert "search by meaning is not available now" in answer.note
    assert "works only within one language" not in answer.note


async def test_an_exact_name_suffices_in_any_language(tmp_path: Path) -> None:
    base = Base(write(tmp_path / "kb", {**PAGES, "de.md": "# Wie wir den Dienst nach einem Fehler neu starten\n\nx\n"}))
    await base.index_all()
    answer = await base.finder.search("Wie wir den Dienst nach einem Fehler neu starten")
    assert (answer.hits[0].path, answer.scent.level) == ("de.md", "sufficient")


@pytest.mark.parametrize(
    ("query", "text", "learns"),
    [
        ("rotating keys", "Rotating keys needs the vault, its owner and a maintenance window.", True),
        ("鍵の交換", "鍵の交換には金庫と担当者と保守の時間帯が必要です。", False),
    ],
)
async def test_nothing_is_learnt_from_pieces_of_a_script_without_spaces(
    tmp_path: Path, query: str, text: str, *, learns: bool
) -> None:
    """What two such passages share are pieces of a few words; searched again, they pull up pages that say something else."""
    base = Base(write(tmp_path / "kb", {f"{n}.md": f"# Page {n}\n\n{text}\n" for n in range(4)}))
    await base.index_all()
    explanation = (await base.finder.search(query, mode="discovery", explain=True)).explanation
    assert explanation is not None
    assert explanation["hits"]
    assert ("shared words" in json.dumps(explanation["hits"])) is learns


async def test_only_an_answer_that_is_sure_of_its_page_is_filled_by_it(tmp_path: Path) -> None:
    """Another page may be meant; and if this one is, one of its passages has the answer."""
    sections = "".join(
        f"## Part {n}\n\nThe pressure of valve {n} is set by hand, and its pressure is read on dial {n}.\n\n"
        for n in range(12)
    )
    pages = {"valves.md": f"# Set the pressure of a valve\n\n{sections}"} | {
        f"other/{n}.md": f"# Machine {n}\n\nMachine {n} has a valve and a belt that is {n} metres long.\n"
        for n in range(9)
    }
    base = Base(write(tmp_path, pages))
    await base.index_all()
    sure = await base.finder.search("set the pressure of a valve by hand")
    assert sure.scent.level == "sufficient"
    assert {hit.path for hit in sure.hits} == {"valves.md"}
    unsure = await base.finder.search("valve noise at night")
    assert unsure.scent.level != "sufficient"
    assert len({hit.path for hit in unsure.hits}) == len(unsure.hits) - 1 > 4


async def test_a_page_of_many_similar_sections_hides_no_other_page(tmp_path: Path) -> None:
    """Both engines' lists were full of its sections."""
    sections = "".join(
        f"## option {n}\n\nThe timeout of the connection for option {n}, in seconds. Default timeout: {n}.\n\n"
        for n in range(150)
    )
    pages = {"reference.md": f"# Reference\n\n{sections}"} | {
        f"guides/{n}.md": f"# Guide {n}\n\nHow to do task {n}. Sometimes a connection has a timeout; raise it for task {n}.\n"
        for n in range(8)
    }
    base = Base(write(tmp_path, pages))
    await base.index_all()
    answer = await base.finder.search("connection timeout")
    assert answer.hits[0].path == "reference.md"
    assert len({hit.path for hit in answer.hits}) == len(answer.hits) - 1 > 4
    inside = await base.finder.search("connection timeout", path="reference.md", limit=10)
    assert len(inside.hits) == 10


async def test_the_only_page_in_the_language_of_the_question_is_found_by_its_words(tmp_path: Path) -> None:
    english = {
        f"n{n}.md": f"# Note {n}\n\nWe talked about the garden and number {n}, then tea was served.\n"
        for n in range(30)
    }
    german = "# Steuererklärung\n\nDie Abgabe ist bis zum 31. Juli fällig.\n"
    base = Base(write(tmp_path, {**english, "tax.md": german}))
    await base.index_all()
    answer = await base.finder.search("Wann ist die Steuererklärung fällig?")
    assert answer.hits[0].path == "tax.md"
    assert "no hit has" not in answer.scent.reason


async def test_pages_are_ranked_without_a_layout_as_they_are_searched(base: Base) -> None:
    """Lone surrogates and tags in another case reach `search` as well."""
    assert await base.finder.ranked_pages("deploy \ud800", most=3) == await base.finder.ranked_pages("deploy ?", most=3)
    assert await base.finder.sections_like("deploy \ud800", "") == await base.finder.sections_like("deploy ?", "")
    tag = next(iter(await base.index.tags(limit=1)))[0]
    found = await base.finder.ranked_pages("deploy", filters=Filters(tags=(tag.upper(),)), most=3)
    assert found == await base.finder.ranked_pages("deploy", filters=Filters(tags=(tag,)), most=3) != []


async def test_a_page_with_all_words_in_its_title_comes_before_one_with_them_in_its_text(tmp_path: Path) -> None:
    base = Base(
        write(
            tmp_path,
            {
                "pan.md": "# Pan pizza\n\nMake the pizza dough. There is no need to knead it. Press the pizza dough into the pan.\n",
                "night.md": "---\ntitle: No-Knead Pizza Dough\n---\nFlour, water, a night.\n",
                "meat.md": "# Meatloaf\n\nBeef, breadcrumbs.\n",
                "sauce.md": "# Pizza sauce\n\nTomatoes.\n",
            },
        )
    )
    await base.index_all()
    assert (await base.finder.search("pizza dough no knead")).hits[0].path == "night.md"


async def test_a_page_outside_the_searched_folder_that_has_the_name_is_told(base: Base) -> None:
    inside = await base.finder.search("long", path="guides")
    assert inside.note == "outside 'guides', 'long.md' has this name"
    assert (await base.finder.search("long")).note is None
    left_out = await base.finder.search("deploy.md", path="guides", filters=Filters(tags=("no-such-tag",)))
    assert left_out.note is None, "it is inside, and the filter leaves it out"
    assert (await base.finder.search("deploy", path="guides")).note is None


async def test_a_folder_in_another_case_is_searched_and_a_tag_is_no_folder(base: Base) -> None:
    assert await paths(base, "deploy", path="GUIDES") == await paths(base, "deploy", path="guides") != []
    tag = next(iter(await base.index.tags(limit=1)))[0]
    with pytest.raises(NoSuchPath, match=rf"'#{tag}' is a tag; .*filters={{'tags': \['{tag}'\]}}"):
        await base.finder.search("deploy", path=f"#{tag}")
    with pytest.raises(NoSuchPath, match="nothing at '#nowhere'"):
        await base.finder.search("deploy", path="#nowhere")
