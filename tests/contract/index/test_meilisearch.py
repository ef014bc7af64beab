"""What Meilisearch adds to the promises of a keyword index: typos, filters in words, swaps, and outages."""

from __future__ import annotations

import asyncio
import json
import os
import secrets
from collections.abc import AsyncIterator, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from knowledge.errors import EngineUnavailable
from knowledge.index.engines import server_line
from knowledge.index.engines.meilisearch import engine as meilisearch
from knowledge.index.engines.meilisearch import wire as meilisearch_wire
from knowledge.index.engines.meilisearch.engine import MeilisearchKeywordIndex
from knowledge.index.engines.meilisearch.server import MeilisearchAddress, MeilisearchLine
from knowledge.index.engines.standby import StandbyKeyword
from knowledge.index.ports import Noted, QueryTerm, Scored
from knowledge.state.ports import Filters, IndexIdentity, Remove, Stamp, Touch
from mcp_server.app.factories import engines
from mcp_server.app.freshness.index_update import bring_up_to_date, held_lease
from mcp_server.app.knowledge_base import open_base
from mcp_server.app.settings.settings import Settings
from tests.contract.index.test_index_store import IDENTITY, page
from tests.doubles.meilisearch import MeilisearchDouble, serving
from tests.support.index.keyword_engines import ENGINES
from tests.support.index.meilisearch import index_at
from tests.support.index.memory_engines import MemoryKeywordIndex
from tests.support.index.split_terms import terms_of
from tests.support.state.memory.index import MemoryIndexStore

NAME = "kf-test"


@pytest.fixture
async def store() -> MemoryIndexStore:
    made = MemoryIndexStore()
    await made.begin(IDENTITY)
    return made


@pytest.fixture(params=["meilisearch-double", "meilisearch-server"])
async def place(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[str]:
    async with ENGINES[request.param].place(tmp_path) as found:
        yield found


@pytest.fixture
def double(monkeypatch: pytest.MonkeyPatch) -> Iterator[MeilisearchDouble]:
    """Yield a double; waits for an absent one are short."""
    monkeypatch.setattr(server_line, "FIRST_PAUSE_S", 0.01)
    monkeypatch.setattr(server_line, "REST_S", 0.2)
    monkeypatch.setattr(server_line, "FRESH_S", 0.0)
    with serving("the right key") as started:
        yield started


def opened(double: MeilisearchDouble, folder: Path, key: str | None = "the right key") -> MeilisearchKeywordIndex:
    return MeilisearchKeywordIndex(
        MeilisearchLine(MeilisearchAddress(double.url, key)), NAME, terms_of, lock=folder / "lock"
    )


def ask(*words: str) -> list[QueryTerm]:
    return [QueryTerm(word, ((word, 1.0),)) for word in words]


def docs_of(hits: Sequence[Scored]) -> set[int]:
    return {hit.doc for hit in hits}


async def test_typing_errors_are_forgiven_and_the_last_word_may_be_unfinished(
    place: str, store: MemoryIndexStore
) -> None:
    texts = ["the configuration of a gateway", "pelicans fly over water", "run fast"]
    await store.apply([page(f"{i}.md", text) for i, text in enumerate(texts)], fence=1)
    index = index_at(place)
    await index.catch_up(store)
    for asked, doc in [("gatewey", 1), ("configuraton", 1), ("cnofiguratoin", 1), ("pelican", 2), ("conf", 1)]:
        assert docs_of(await index.search(ask(asked), limit=9)) == {doc}, asked
    assert docs_of(await index.search(ask("conf", "water"), limit=9)) == {2}, "only the last word is a beginning"
    assert not await index.search(ask("ruin"), limit=9), "short words are taken as they are"
    inflected = [QueryTerm("flying", (("fli", 1.0), ("fly", 0.8))), QueryTerm("configuring", (("configur", 1.0),))]
    assert 1 in docs_of(await index.search(inflected, limit=9)), "a stem finds the other forms"
    await index.close()


async def test_a_word_that_is_there_finds_no_similar_ones(place: str, store: MemoryIndexStore) -> None:
    texts = ["a gateway", "a gatewey", "gateways", "a router"]
    await store.apply([page(f"{i}.md", text) for i, text in enumerate(texts)], fence=1)
    index = index_at(place)
    await index.catch_up(store)
    assert docs_of(await index.search(ask("gateway"), limit=9)) == {1}
    assert docs_of(await index.search(ask("gatewayy"), limit=9)) >= {1}, "a word that is nowhere does"
    corrected = [QueryTerm("gatewya", (("gatewya", 1.0), ("gateway", 1.0))), *ask("router")]
    assert docs_of(await index.search(corrected, limit=9)) == {1, 4}, "our own correction comes first"
    await index.close()


def test_three_exact_words_late_in_a_text_outweigh_one_in_a_title() -> None:
    def found(word: str, *hits: tuple[int, float]) -> dict[str, Any]:
        listed = [{"seq": doc, "doc": doc, "_rankingScore": score} for doc, score in hits]
        return {"query": word, "hits": listed, "estimatedTotalHits": 2}

    words = [[found('"gateway"', (1, 1.0), (2, 0.05))], [found('"router"', (2, 0.05))], [found('"valve"', (2, 0.05))]]
    answer = meilisearch_wire.answer(words, total=9, limit=9, docs=None)
    assert [hit.doc for hit in answer.found] == [2, 1]


FILTERS = [
    (Filters(path="guides"), {1, 2}),
    (Filters(path="Guides"), {3}),
    (Filters(path="guides/a.md"), {1}),
    (Filters(tags=("a",)), {1, 3, 4}),
    (Filters(tags=("a", "c d")), {1}),
    (Filters(tags=("b",)), {2, 3}),
    (Filters(tags=("b/sub",)), {3}),
    (Filters(kind="decision"), {2}),
    (Filters(source="zulip"), {3}),
    (Filters(source="zulip:design/merge"), {3}),
    (Filters(source="zulip:design"), set()),
    (Filters(modified_after_ns=2_000_000), {3, 4}),
    (Filters(modified_after_ns=2_000_000, modified_before_ns=3_000_000), {3}),
    (Filters(path="guides", tags=("b",), kind="decision"), {2}),
    (Filters(tags=('it\'s "quoted" AND doc = 1',)), {4}),
]


@pytest.mark.parametrize("few", [0, 1_000])
async def test_every_filter_admits_what_the_store_says(
    place: str, few: int, store: MemoryIndexStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    stamps = [Stamp(1, 1_000_000, 1), Stamp(1, 1_999_999, 1), Stamp(1, 2_000_000, 1), Stamp(1, 3_000_000, 1)]
    pages = [
        page("guides/a.md", "apple", tags=("a", "c d"), stamp=stamps[0]),
        page("guides/sub/b.md", "apple", tags=("b",), kind="decision", stamp=stamps[1]),
        page("Guides/c.md", "apple", tags=("a", "b/sub"), source="zulip:design/merge", stamp=stamps[2]),
        page("d.md", "apple", tags=("a", 'it\'s "quoted" AND doc = 1'), stamp=stamps[3]),
    ]
    await store.apply(pages, fence=1)
    index = index_at(place)
    await index.catch_up(store)
    monkeypatch.setattr(meilisearch_wire, "FEW", few)
    monkeypatch.setattr(meilisearch_wire, "DEEP", 1 if few == 0 else 100)
    for filters, expected in FILTERS:
        docs = await store.select(filters)
        assert set(docs or ()) == expected
        assert docs_of(await index.search(ask("apple"), limit=9, docs=docs, filters=filters)) == expected, filters
        assert docs_of(await index.search(ask("apple"), limit=9, filters=filters)) == expected, filters
    await store.apply([Touch("d.md", Stamp(1, 500_000, 1), 7)], fence=1)
    assert await index.catch_up(store) == 0, "nobody tells the engine of a touched file"
    early = Filters(modified_before_ns=1_000_000)
    assert docs_of(await index.search(ask("apple"), limit=9, docs=await store.select(early), filters=early)) == {4}
    await index.close()


async def test_a_few_pages_among_many_are_found_however_deep_they_lie(
    place: str, store: MemoryIndexStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(meilisearch_wire, "FEW", 1)
    monkeypatch.setattr(meilisearch_wire, "DEEP", 1)
    late = Stamp(1, 9_000_000, 1)
    pages = [page(f"{i}.md", "common", **({"stamp": late} if i >= 117 else {})) for i in range(120)]
    await store.apply(pages, fence=1)
    index = index_at(place)
    await index.catch_up(store)
    filters = Filters(modified_after_ns=9_000_000)
    docs = await store.select(filters)
    assert docs_of(await index.search(ask("common"), limit=4, docs=docs, filters=filters)) == set(docs or ())
    assert docs_of(await index.search(ask("common"), limit=4, filters=filters)) == set(docs or ())
    await index.close()


async def test_a_searcher_never_sees_an_empty_or_half_index(place: str, store: MemoryIndexStore) -> None:
    index, searching = index_at(place), index_at(place)
    await store.apply([page(f"{i}.md", "common") for i in range(40)], fence=1)
    await index.catch_up(store)
    counts: list[int] = []
    ended = asyncio.Event()

    async def search() -> None:
        while not ended.is_set():
            counts.append(len(await searching.search(ask("common"), limit=100)))

    searcher = asyncio.create_task(search())
    for recipe in (2, 3, 4):
        await store.begin(IndexIdentity(IDENTITY.embedder, IDENTITY.dimensions, recipe))
        await store.apply([page(f"{i}.md", "common") for i in range(40)], fence=1)
        await index.catch_up(store)
    ended.set()
    await searcher
    assert set(counts) == {40}
    names = await index._line.do(lambda line: line.names(index._name))
    assert names == [index._name], "what served before is gone"
    await index.close()
    await searching.close()


async def test_what_a_killed_process_left_behind_is_not_found(place: str, store: MemoryIndexStore) -> None:
    """It wrote rows and died before it could record that; the page was deleted before the next one came."""
    first = index_at(place)
    await store.apply([page("a.md", "apple")], fence=1)
    await first.catch_up(store)
    await store.apply([page("b.md", "apple")], fence=1)
    delta = await store.delta(await first.position(), limit=9, texts=True)
    left = json.dumps(meilisearch_wire.document(delta.texts[0], None, await first.position(), terms_of)).encode()
    await first._line.do(lambda server: server.add(first._name, left))
    leftover = f"{first._name}-gone-1"
    await first._line.do(lambda server: server.configure(leftover, meilisearch_wire.SETTINGS))
    await store.apply([Remove("b.md")], fence=1)
    second = index_at(place)
    await second.catch_up(store)
    assert docs_of(await second.search(ask("apple"), limit=9)) == {1}
    assert await second._line.do(lambda server: server.names(first._name)) == [first._name]
    await first.close()
    await second.close()


async def test_a_wrong_key_is_told_without_it(place: str, store: MemoryIndexStore) -> None:
    url, key, name, lock = json.loads(place)
    if key is None:
        pytest.skip("the server wants no key")
    wrong = f"wrong-{secrets.token_hex(8)}"
    index = index_at(json.dumps([url, wrong, name, lock]))
    for asking in (index.search(ask("apple"), limit=1), index.catch_up(store), index.position()):
        with pytest.raises(EngineUnavailable, match="FORGE_MEILI_KEY") as raised:
            await asking
        assert wrong not in str(raised.value)
        assert wrong not in repr(index._line._address)
    await index.close()


async def test_a_long_batch_is_sent_in_pieces(
    place: str, store: MemoryIndexStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(meilisearch_wire, "PAYLOAD_BYTES", 3_000)
    monkeypatch.setattr(meilisearch, "BATCH", 60)
    await store.apply([page(f"{i}.md", "common text " * 20) for i in range(150)], fence=1)
    index = index_at(place)
    assert await index.catch_up(store) == 150
    assert len(await index.search(ask("common"), limit=500)) == 150
    assert await index.caught_up(store)
    await index.close()


# --- outages: on the double alone, because a real server is not ours to stop ------------------------------------------


async def test_nothing_is_there_before_its_task_has_run(
    double: MeilisearchDouble, store: MemoryIndexStore, tmp_path: Path
) -> None:
    index = opened(double, tmp_path)
    await store.apply([page("a.md", "apple")], fence=1)
    double.hold(held=True)
    async with asyncio.TaskGroup() as both:
        filling = both.create_task(index.catch_up(store))
        while not double.store.tasks:  # noqa: ASYNC110 - the double lives in threads
            await asyncio.sleep(0.01)
        assert await index.search(ask("apple"), limit=9) == []
        assert not (await index.position()).generation
        double.hold(held=False)
    assert filling.result() == 1
    assert len(await index.search(ask("apple"), limit=9)) == 1
    await index.close()


async def test_while_the_server_is_away_the_embedded_index_answers_and_says_so(
    double: MeilisearchDouble, store: MemoryIndexStore, tmp_path: Path
) -> None:
    primary, spare = opened(double, tmp_path), MemoryKeywordIndex(terms_of)
    index = StandbyKeyword("Meilisearch", primary, spare, store)
    await store.apply([page("a.md", "apple")], fence=1)
    with pytest.raises(EngineUnavailable, match="still being filled"):
        await index.search(ask("apple"), limit=9)
    await index.catch_up(store)
    assert not double.requests or all("documents/0" in request for request in double.requests), "no page waits for it"
    early = await index.search(ask("apple"), limit=9)
    assert isinstance(early, Noted)
    assert "still being filled" in early.note
    await primary.catch_up(store)
    assert not isinstance(await index.search(ask("appel"), limit=9), Noted)
    double.stop()
    found = await asyncio.gather(*(index.search(ask("apple"), limit=9) for _ in range(5)))
    assert all(isinstance(hits, Noted) and "cannot be reached" in hits.note and len(hits) == 1 for hits in found)
    assert await index.position() == await store.position()
    asked = len(double.requests)
    double.start()
    assert isinstance(await index.search(ask("apple"), limit=9), Noted), "for a moment it is not even asked"
    assert len(double.requests) == asked
    await asyncio.sleep(0.25)
    assert not isinstance(await index.search(ask("appel"), limit=9), Noted)
    await index.close()


async def test_a_server_that_comes_back_is_caught_up(
    double: MeilisearchDouble, store: MemoryIndexStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engines, "CHECK_S", 0.01)
    monkeypatch.setattr(engines, "FIRST_PAUSE_S", 0.05)
    index = opened(double, tmp_path)
    await store.apply([page("a.md", "apple")], fence=1)
    keeping = asyncio.create_task(engines.keep_up(index, store))
    try:
        await _until_caught_up(index, store)
        double.stop()
        await store.apply([page("b.md", "apple"), Remove("a.md")], fence=1)
        await asyncio.sleep(0.1)
        double.start()
        await _until_caught_up(index, store)
        assert docs_of(await index.search(ask("apple"), limit=9)) == {2}
    finally:
        keeping.cancel()
        await index.close()


async def _until_caught_up(index: MeilisearchKeywordIndex, store: MemoryIndexStore) -> None:
    async with asyncio.timeout(20):
        while True:
            try:
                if await index.caught_up(store):
                    return
            except EngineUnavailable:
                pass
            await asyncio.sleep(0.02)


async def test_a_busy_server_is_asked_again_and_a_refused_payload_is_told(
    double: MeilisearchDouble, store: MemoryIndexStore, tmp_path: Path
) -> None:
    index = opened(double, tmp_path)
    await store.apply([page("a.md", "apple")], fence=1)
    double.refusing = [503, 429]
    assert await index.catch_up(store) == 1
    double.refusing = [503]
    assert len(await index.search(ask("apple"), limit=9)) == 1
    double.most_bytes = 150
    await store.apply([page("b.md", "apple " * 99)], fence=1)
    with pytest.raises(EngineUnavailable, match=r"413.*payload_too_large"):
        await index.catch_up(store)
    double.most_bytes = 1_000_000
    assert await index.catch_up(store) == 1
    await index.close()


async def test_a_failed_task_is_told_and_done_again(
    double: MeilisearchDouble, store: MemoryIndexStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    index = opened(double, tmp_path)
    await store.apply([page("a.md", "apple")], fence=1)
    with monkeypatch.context() as broken:
        broken.setattr(meilisearch_wire, "document", lambda row, *_: {"doc": row.doc, "text": row.text})
        with pytest.raises(EngineUnavailable, match="missing_document_id"):
            await index.catch_up(store)
    assert not (await index.position()).generation, "nothing half serves"
    assert await index.catch_up(store) == 1
    await index.close()


async def test_an_address_that_is_no_meilisearch_is_told(tmp_path: Path) -> None:
    line = MeilisearchLine(MeilisearchAddress("http://127.0.0.1:9", None))
    index = MeilisearchKeywordIndex(line, NAME, terms_of, lock=tmp_path / "lock")
    with pytest.raises(EngineUnavailable, match=r"http://127\.0\.0\.1:9 cannot be reached"):
        await index.search(ask("apple"), limit=1)
    await index.close()
    missing = MeilisearchLine(MeilisearchAddress("https://127.0.0.1:9", None, tmp_path / "no.pem"))
    with pytest.raises(EngineUnavailable, match="cannot be"):
        await missing.ask(lambda server: server.get("version"))
    await missing.close()


async def test_a_search_goes_on_without_the_server_that_the_settings_name(
    double: MeilisearchDouble, tmp_path: Path
) -> None:
    (tmp_path / "kb").mkdir()
    (tmp_path / "kb" / "a.md").write_text("# Gateway\n\nThe gateway turns packets round.\n", encoding="utf-8")
    url, key = double.url, "the right key"
    chosen = Settings(kb=tmp_path / "kb", state_dir=tmp_path / "state", meili_url=url, meili_key=key)
    assert key not in repr(chosen)
    async with open_base(chosen) as base:
        async with held_lease(base) as lease:
            assert lease is not None
            await bring_up_to_date(base, lease)
        answer = await base.finder.search("gatewey packets", explain=True)
        assert [hit.path for hit in answer.hits] == ["a.md"]
        assert answer.note is None
        assert any("multi-search" in request for request in double.requests)
        explanation: dict[str, Any] = dict(answer.explanation or {})
        (told,) = explanation["hits"]
        assert set(told["parts"]) == {"place by words", "place by meaning"}
        assert all(word["place by words"] > 0 for word in told["words"])
        double.stop()
        answer = await base.finder.search("gateway packets")
        assert [hit.path for hit in answer.hits] == ["a.md"]
        assert "words were searched by the embedded index" in (answer.note or "")
        (tmp_path / "kb" / "b.md").write_text("# Valve\n\nIt opens.\n", encoding="utf-8")
        async with held_lease(base) as lease:
            assert lease is not None
            await bring_up_to_date(base, lease)
        assert [hit.path for hit in (await base.finder.search("valve opens")).hits][:1] == ["b.md"]
        double.start()


def test_the_double_is_as_new_as_what_was_tested() -> None:
    """If a real server is named, it has the version whose answers the double repeats, or a newer one."""
    url = os.environ.get("FORGE_TEST_MEILI_URL")
    if not url:
        pytest.skip("FORGE_TEST_MEILI_URL names no Meilisearch server")
    line = MeilisearchLine(MeilisearchAddress(url, os.environ.get("FORGE_TEST_MEILI_KEY")))
    found = asyncio.run(line.ask(lambda server: server.get("version")))
    assert [int(part) for part in found["pkgVersion"].split(".")[:2]] >= [1, 50]
