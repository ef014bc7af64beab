"""fastembed itself, with a model of a few kilobytes made here: nothing is downloaded."""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from knowledge.errors import EmbedderUnavailable
from knowledge.index.embed.fastembed import FastembedModel
from knowledge.index.embed.transformer import TransformerEmbedder
from tests.external.programs import unavailable
from tests.support.index.tiny_transformer import vectors_of, write_transformer

pytestmark = pytest.mark.external

MODEL = "sentence-transformers/all-MiniLM-L6-v2"
"""A model that fastembed knows and pools by the mean, so that a table of word vectors behaves like it."""
DIMENSIONS = 384
WORDS = ("[PAD]", "[UNK]", "apple", "berry", "cherry", "query", "passage", ":")


@pytest.fixture(autouse=True)
def _installed() -> None:
    if importlib.util.find_spec("fastembed") is None:
        unavailable("fastembed")


TABLE = vectors_of(WORDS, DIMENSIONS)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder for models with the files of one, as a person would copy them there."""
    write_transformer(tmp_path / MODEL.replace("/", "--"), WORDS, dimensions=DIMENSIONS)
    return tmp_path


def embedder(folder: Path, **other: object) -> TransformerEmbedder[str]:
    arguments = {"name": "fastembed:m/1", "asking": False, **other}
    return TransformerEmbedder(FastembedModel(MODEL, folder), **arguments)  # type: ignore[arg-type]  # keyword arguments of a test


def unit(words: Sequence[str]) -> np.ndarray[tuple[int], np.dtype[np.float32]]:
    summed = TABLE[[WORDS.index(word) for word in words]].sum(axis=0)
    found: np.ndarray[tuple[int], np.dtype[np.float32]] = summed / np.linalg.norm(summed)
    return found


async def test_texts_get_vectors_of_the_model_one_long(folder: Path) -> None:
    embed = embedder(folder)
    assert embed.dimensions == 0
    found = await embed.embed(["apple berry", "", "cherry cherry"])
    assert embed.dimensions == DIMENSIONS
    assert found.dtype == np.float32
    assert np.allclose(found[0], unit(["apple", "berry"]), atol=1e-5)
    assert not found[1].any()
    assert np.allclose(found[2], unit(["cherry"]), atol=1e-5)
    assert (await embed.embed([])).shape == (0, DIMENSIONS)
    assert (await embedder(folder).embed([" "])).shape == (1, DIMENSIONS)


async def test_questions_and_passages_get_their_prefix(folder: Path) -> None:
    (question,) = await embedder(folder, asking=True, prefix="query: ").embed(["apple"])
    (passage,) = await embedder(folder, prefix="passage: ").embed(["apple"])
    assert np.allclose(question, unit(["query", ":", "apple"]), atol=1e-5)
    assert np.allclose(passage, unit(["passage", ":", "apple"]), atol=1e-5)


async def test_another_length_than_agreed_is_refused(folder: Path) -> None:
    with pytest.raises(EmbedderUnavailable, match="384 dimensions, not 256"):
        await embedder(folder, expected=256).embed(["apple"])


async def test_a_model_that_it_does_not_know_is_said_with_some_that_it_knows(tmp_path: Path) -> None:
    unknown = TransformerEmbedder(FastembedModel("nobody/nothing", tmp_path), name="n", asking=False)
    with pytest.raises(EmbedderUnavailable, match=r"nobody/nothing.*does not know that model.*BAAI/"):
        await unknown.embed(["apple"])


async def test_without_a_network_it_is_said_where_the_model_would_be(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with pytest.raises(EmbedderUnavailable, match=r"cannot be loaded .*check the network.*all-MiniLM-L6-v2"):
        await embedder(tmp_path).embed(["apple"])
