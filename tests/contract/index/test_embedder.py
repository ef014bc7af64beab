"""The promises of every embedder."""

from __future__ import annotations

import anyio
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from knowledge.index.embed.ports import Embedder
from knowledge.index.embed.static import FEW_WORDS, StaticEmbedder
from tests.support.index.memory_embedder import MemoryEmbedder

SHARED = StaticEmbedder()
LONG = " ".join(f"longer{n}" for n in range(5_000))


@pytest.fixture(params=["memory", "static"])
def embedder(request: pytest.FixtureRequest) -> Embedder:
    return MemoryEmbedder(256) if request.param == "memory" else StaticEmbedder()


async def test_a_vector_is_one_long_or_nothing(embedder: Embedder) -> None:
    vectors = await embedder.embed(["How to deploy the service", "", " \n\t", "été 日本 \x00 😀", "x" * 100_000])
    assert vectors.shape == (5, embedder.dimensions)
    assert vectors.dtype == np.float32
    assert np.isfinite(vectors).all()
    lengths = np.linalg.norm(vectors, axis=1)
    assert all(length == pytest.approx(1, abs=1e-5) or length == 0 for length in lengths)
    assert lengths[0] > 0
    assert not vectors[1:3].any()


async def test_the_same_text_has_the_same_vector_in_any_company(embedder: Embedder) -> None:
    (alone,) = await embedder.embed(["the trust of a host"])
    (among,) = (await embedder.embed(["something else", "the trust of a host", "host"]))[1:2]
    assert np.array_equal(alone, among)
    assert (await embedder.embed([])).shape == (0, embedder.dimensions)


async def test_a_vector_does_not_depend_on_what_was_embedded_before() -> None:
    """To the last bit: an index that grew change by change equals one built from scratch."""
    words = [
        f"{a}{b}" for a in ("berry", "damson", "fig", "grape", "ivy", "hazel") for b in ("", "s", "ing", "wood", "tree")
    ]
    texts = [" ".join(words[n:] + words[: n * 2]) for n in range(len(words))]
    forwards = await StaticEmbedder().embed(texts)
    backwards = await StaticEmbedder().embed(texts[::-1])
    assert np.array_equal(forwards, backwards[::-1])


async def test_texts_that_share_words_are_closer(embedder: Embedder) -> None:
    rollback, undo, garden = await embedder.embed(
        ["roll back the deployment", "the deployment was rolled back", "flowers need water"]
    )
    assert rollback @ undo > rollback @ garden


async def test_synonyms_are_close_without_sharing_a_word() -> None:
    car, automobile, poem = await StaticEmbedder().embed(["car repair", "automobile maintenance", "sad poem"])
    assert car @ automobile > car @ poem


async def test_a_full_memory_changes_no_vector(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("knowledge.index.embed.static.MOST_WORDS", 4)
    monkeypatch.setattr("knowledge.index.embed.static.KEPT_WORDS", 2)
    text = "one two three four five six seven eight nine ten"
    (cramped,) = await StaticEmbedder().embed([text])
    monkeypatch.undo()
    (roomy,) = await StaticEmbedder().embed([text])
    assert cramped == pytest.approx(roomy, abs=1e-5)


@given(st.lists(st.lists(st.integers(0, 4_000).map("w{}".format), max_size=120).map(" ".join), max_size=12))
@settings(max_examples=40)
def test_a_vector_is_the_same_to_the_last_bit_in_any_batch(texts: list[str]) -> None:
    """A rename finds its vectors by the text alone, so the other texts of a batch must not matter."""
    alone = [anyio.run(SHARED.embed, [text])[0] for text in texts]
    together = anyio.run(SHARED.embed, [LONG, *texts, LONG])
    assert all(np.array_equal(a, b) for a, b in zip(alone, together[1:-1], strict=True))
    assert np.array_equal(together[0], together[-1])


async def test_a_word_has_the_same_vector_alone_and_among_many_new_ones() -> None:
    """The vectors of a few words' tokens are added up one after the other, and those of many words together."""
    names = [f"{start}{n}" for n in range(FEW_WORDS) for start in ("lease", "größe", "ключ", "front-matter")]
    together, embedder = await StaticEmbedder().embed(names), StaticEmbedder()
    alone = [(await embedder.embed([name]))[0] for name in names]
    assert np.array_equal(together, alone)


async def test_many_new_words_at_once_have_their_vectors() -> None:
    """The room for words grows while a text is being embedded."""
    fresh = StaticEmbedder()
    (long,) = await fresh.embed([LONG])
    (again,) = await fresh.embed([LONG])
    assert np.array_equal(long, again)
    assert long.any()


async def test_texts_about_different_things_have_nothing_in_common() -> None:
    """The common part of all English is subtracted.

    Without this, signs would not distinguish texts and the mean would be 0.16.
    """
    vectors = await StaticEmbedder().embed(
        [
            "flowers need water in summer",
            "the invoice was paid twice",
            "a driver for the old printer",
            "rivers carry sand to the sea",
            "she sang in the choir",
            "the parser rejects odd input",
            "taxes rise next year",
            "goats climb steep rocks",
        ]
    )
    pairs = np.triu_indices(len(vectors), 1)
    assert (vectors @ vectors.T)[pairs].mean() < 0.08
