"""A transformer from files on this machine, through onnxruntime itself. The model is a table of word vectors."""

from __future__ import annotations

import json
from pathlib import Path

import anyio
import numpy as np
import pytest

from knowledge.errors import EmbedderUnavailable
from knowledge.index.embed.identity import NO_PREFIXES, Prefixes
from knowledge.index.embed.onnx.embedder import BATCH_TOKENS, Encoded, open_model
from knowledge.index.embed.onnx.model_files import LONGEST_TOKENS, UnusableModel, digest_of, family_of, find_model
from knowledge.index.embed.transformer import TransformerEmbedder, batches_of
from tests.support.index.tiny_transformer import vectors_of, words_of, write_transformer

WORDS = words_of("apple berry cherry query passage :")
TABLE = vectors_of(WORDS, 32)


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return write_transformer(tmp_path / "tiny", WORDS)


def embedder(path: Path, *, asking: bool = False, prefix: str = "", expected: int = 0) -> TransformerEmbedder[Encoded]:
    return TransformerEmbedder(
        open_model(path, threads=2), name="onnx:tiny", asking=asking, prefix=prefix, expected=expected
    )


def unit(*words: str) -> np.ndarray[tuple[int], np.dtype[np.float32]]:
    summed = TABLE[[WORDS.index(word) for word in words]].sum(axis=0)
    found: np.ndarray[tuple[int], np.dtype[np.float32]] = summed / np.linalg.norm(summed)
    return found


@pytest.mark.parametrize("asking", [False, True])
async def test_texts_get_vectors_of_length_one_whatever_batch_they_are_in(model: Path, *, asking: bool) -> None:
    embed = embedder(model, asking=asking)
    texts = ["apple berry", " ", "cherry", *["apple " * n for n in range(1, 90)]]
    found = await embed.embed(texts)
    assert found.shape == (len(texts), 32)
    assert found.dtype == np.float32
    assert np.allclose(found[0], unit("apple", "berry"), atol=1e-5)
    assert not found[1].any(), "a blank text has no vector"
    assert np.allclose(found[2], unit("cherry"), atol=1e-5)
    assert np.allclose(found[3:], unit("apple"), atol=1e-5), "padding does not count"
    assert embed.dimensions == 32
    assert (await embed.embed([])).shape == (0, 32)
    assert (await embedder(model, asking=asking).embed([""])).shape == (1, 32), "its length is learned with a probe"


async def test_questions_are_answered_while_passages_are_embedded(model: Path) -> None:
    shared = open_model(model, threads=1)
    passages = TransformerEmbedder(shared, name="n", asking=False)
    questions = TransformerEmbedder(shared, name="n", asking=True)
    answered = 0
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(passages.embed, ["apple berry " * 200] * 2_000)
        while answered < 5:
            (found,) = await questions.embed(["cherry"])
            assert np.allclose(found, unit("cherry"), atol=1e-5)
            answered += 1
        tasks.cancel_scope.cancel()  # the caller waits for one batch and not for all


async def test_a_long_text_is_cut_to_what_the_model_accepts(tmp_path: Path) -> None:
    path = write_transformer(tmp_path / "short", WORDS, sentence_bert_config={"max_seq_length": 2})
    (found,) = await embedder(path).embed(["apple apple cherry"])
    assert np.allclose(found, unit("apple"), atol=1e-5)
    assert find_model(write_transformer(tmp_path / "long", WORDS)).max_tokens == LONGEST_TOKENS


@pytest.mark.parametrize(
    ("mode", "expected"), [("cls_token", ["apple"]), ("lasttoken", ["berry"]), ("mean_tokens", ["apple", "berry"])]
)
async def test_pooling_is_read_from_the_models_files(tmp_path: Path, mode: str, expected: list[str]) -> None:
    path = write_transformer(
        tmp_path / "m", WORDS, modules=[{"type": "sentence_transformers.models.Pooling", "path": "2_Other"}]
    )
    (path / "2_Other").mkdir()
    (path / "2_Other" / "config.json").write_text(
        json.dumps({f"pooling_mode_{mode}": True, "pooling_mode_max_tokens": False})
    )
    (found, _) = await embedder(path).embed(["apple berry", "apple berry cherry"])
    assert np.allclose(found, unit(*expected), atol=1e-5)


async def test_the_highest_number_of_all_tokens_counts_with_max_pooling(tmp_path: Path) -> None:
    path = write_transformer(tmp_path / "m", WORDS)
    (path / "1_Pooling").mkdir()
    (path / "1_Pooling" / "config.json").write_text('{"pooling_mode": "max"}')
    (found, _) = await embedder(path).embed(["apple berry", "apple berry cherry"])
    highest = np.maximum(TABLE[WORDS.index("apple")], TABLE[WORDS.index("berry")])
    assert np.allclose(found, highest / np.linalg.norm(highest), atol=1e-5)


def test_prefixes_come_from_the_files_or_from_what_is_known_of_the_family(tmp_path: Path) -> None:
    stated = write_transformer(
        tmp_path / "m", WORDS, config_sentence_transformers={"prompts": {"query": "q: ", "document": "d: "}}
    )
    assert find_model(stated).prefixes == Prefixes("q: ", "d: ")
    assert find_model(stated).assumed == ("pooling",)
    family = find_model(write_transformer(tmp_path / "multilingual-e5-small", WORDS))
    assert family.prefixes == Prefixes("query: ", "passage: ")
    assert family.assumed == ("pooling", "prefixes")
    assert find_model(write_transformer(tmp_path / "bge-small-en-v1.5", WORDS)).pooling == "cls"
    assert find_model(write_transformer(tmp_path / "plain", WORDS)).prefixes == Prefixes()


def test_a_downloaded_repository_is_read_as_its_publisher_laid_it_out(tmp_path: Path) -> None:
    folder = tmp_path / "models--intfloat--multilingual-e5-small" / "snapshots" / "fd1525a9fd15"
    write_transformer(folder, WORDS)
    write_transformer(folder / "onnx", WORDS)
    (folder / "model.onnx").unlink()
    (folder / "1_Pooling").mkdir()
    (folder / "1_Pooling" / "config.json").write_text('{"pooling_mode_mean_tokens": true}')
    for path in (folder, folder / "onnx" / "model.onnx"):
        found = find_model(path)
        assert (found.name, found.pooling) == ("multilingual-e5-small", "mean")
        assert found.prefixes == Prefixes("query: ", "passage: ")
        assert found.assumed == ("prefixes",)


@pytest.mark.parametrize(
    ("name", "pooling", "prefixes"),
    [
        ("multilingual-e5-large-instruct", "mean", None),
        ("snowflake-arctic-embed-m-v2.0", "cls", Prefixes("query: ")),
        ("gte-multilingual-base", "cls", NO_PREFIXES),
        ("bge-m3", "cls", NO_PREFIXES),
        ("nomic-embed-text-v1.5", "mean", Prefixes("search_query: ", "search_document: ")),
    ],
)
def test_families_are_known_by_name(name: str, pooling: str, prefixes: Prefixes | None) -> None:
    family = family_of(name)
    assert family is not None
    assert family.pooling == pooling
    assert family.prefixes == prefixes if prefixes else family.prefixes.question.startswith("Instruct: ")
    assert family_of("all-MiniLM-L6-v2") is None


def test_licence_and_languages_come_from_the_model_card(model: Path) -> None:
    assert find_model(model).licence == ""
    (model / "README.md").write_text("---\nlanguage:\n- en\n- de\nlicense: apache-2.0\ntags: [x]\n---\n# Tiny\n")
    assert (find_model(model).licence, find_model(model).languages) == ("apache-2.0", ("en", "de"))
    (model / "README.md").write_text("---\nlanguage: en\nlicense: \x1b[2Jevil\n---\n")
    assert (find_model(model).licence, find_model(model).languages) == ("", ("en",))


@pytest.mark.parametrize(
    ("folder", "card", "across"),
    [
        ("tiny", "", False),
        ("tiny", "language: en", False),
        ("tiny", "language:\n- en\n- de", True),
        ("tiny", "language: multilingual", True),
        ("multilingual-e5-small", "", True),
        ("bge-m3", "license: mit", True),
        ("all-MiniLM-L6-v2", "license: apache-2.0", False),
    ],
)
def test_a_model_finds_across_languages_if_its_card_or_its_name_says_so(
    tmp_path: Path, folder: str, card: str, *, across: bool
) -> None:
    model = write_transformer(tmp_path / folder, WORDS)
    (model / "README.md").write_text(f"---\n{card}\n---\n", encoding="utf-8")
    assert find_model(model).multilingual is across
    declared = TransformerEmbedder(open_model(model), name="n", asking=True, multilingual=not across)
    assert declared.multilingual is not across
    assert TransformerEmbedder(open_model(model), name="n", asking=True).multilingual is across


def test_quantised_weights_are_preferred_and_a_file_can_be_named(model: Path) -> None:
    raw = (model / "model.onnx").read_bytes()
    (model / "model_quantized.onnx").write_bytes(raw)
    assert find_model(model).weights.name == "model_quantized.onnx"
    assert find_model(model / "model.onnx").weights.name == "model.onnx"
    (model / "onnx").mkdir()
    for name in ("model.onnx", "model_quantized.onnx"):
        (model / name).rename(model / "onnx" / name)
    assert find_model(model).tokenizer == model / "tokenizer.json", "publishers put the weights into a folder below"
    for name in ("model.onnx", "model_quantized.onnx"):
        (model / "onnx" / name).rename(model / "onnx" / f"odd_{name}")
    with pytest.raises(UnusableModel, match=r"several models \(odd_model.onnx, odd_model_quantized.onnx\); name one"):
        find_model(model)


def test_the_digest_changes_with_any_file_that_changes_vectors(model: Path, tmp_path: Path) -> None:
    before = digest_of(model)
    assert before == digest_of(model)
    write_transformer(model, WORDS, kind="b")
    assert digest_of(model) != before, "other weights of the same length"
    write_transformer(model, WORDS, sentence_bert_config={"max_seq_length": 9})
    assert digest_of(model) != before
    assert digest_of(tmp_path / "nothing") == "missing"


async def test_vectors_of_another_length_than_those_of_the_index_are_refused(model: Path) -> None:
    with pytest.raises(EmbedderUnavailable, match="32 dimensions, not 64"):
        await embedder(model, expected=64).embed(["apple"])


async def test_files_that_are_no_usable_model_are_refused_with_the_reason(model: Path, tmp_path: Path) -> None:
    async def reason(path: Path) -> str:
        with pytest.raises(EmbedderUnavailable) as raised:
            await embedder(path).embed(["apple"])
        assert "knowledge-forge embedder list" in raised.value.mend
        return raised.value.reason

    assert "there is no folder" in await reason(tmp_path / "nothing")
    assert "there is no file" in await reason(tmp_path / "nothing.onnx")
    (tmp_path / "empty").mkdir()
    assert "there is no .onnx file" in await reason(tmp_path / "empty")
    (model / "modules.json").write_text(json.dumps([{"type": "sentence_transformers.models.Dense"}]))
    assert "a layer of the kind Dense" in await reason(model)
    (model / "modules.json").write_text("[" * 100_000)
    assert "cannot be read as JSON" in await reason(model)
    (model / "modules.json").unlink()
    (model / "model.onnx").write_bytes(b"\x00not a model")
    assert "model.onnx cannot be loaded" in await reason(model)
    (model / "tokenizer.json").write_text("{}")
    assert "its tokenizer cannot be read" in await reason(model)
    (model / "tokenizer.json").unlink()
    assert "there is no tokenizer.json beside model.onnx" in await reason(model)


def test_batches_hold_texts_of_similar_length_and_no_more_than_their_bound() -> None:
    lengths = [3, 500, 20, 256, 255, 1, *[7] * 200]
    batches = list(batches_of(lengths, BATCH_TOKENS, 64))
    assert sorted(number for batch in batches for number in batch) == list(range(len(lengths)))
    assert batches[0] == [1], "the longest first"
    for batch in batches:
        longest = max(lengths[number] for number in batch)
        assert len(batch) <= 64
        assert len(batch) == 1 or longest * len(batch) <= BATCH_TOKENS
    assert list(batches_of([], 8, 8)) == []
