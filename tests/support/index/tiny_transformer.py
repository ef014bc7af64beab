"""A transformer's files with a model of a few kilobytes: a table of word vectors. Nothing is downloaded."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers

FLOAT, INT64 = 1, 7
PADDING, UNKNOWN = "[PAD]", "[UNK]"


def field(number: int, value: int | bytes | str) -> bytes:
    """Return one field of a protocol buffer. Source: protobuf.dev, Encoding."""
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    raw = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(raw)) + raw


def varint(value: int) -> bytes:
    low, rest = value & 127, value >> 7
    return bytes([low | 128]) + varint(rest) if rest else bytes([low])


def tensor_type(name: str, kind: int, sizes: Sequence[int | str]) -> bytes:
    shape = b"".join(field(1, field(1, size) if isinstance(size, int) else field(2, size)) for size in sizes)
    return field(1, name) + field(2, field(1, field(1, kind) + field(2, shape)))


def onnx_of(table: np.ndarray[tuple[int, int], np.dtype[np.float32]]) -> bytes:
    """Return a model that looks up a row of `table` for each token. Source: onnx.proto3."""
    node = field(1, "table") + field(1, "input_ids") + field(2, "last_hidden_state") + field(4, "Gather")
    weights = field(1, table.shape[0]) + field(1, table.shape[1]) + field(2, FLOAT) + field(8, "table")
    graph = field(1, node) + field(2, "g") + field(5, weights + field(9, table.astype("<f4").tobytes()))
    for name in ("input_ids", "attention_mask"):
        graph += field(11, tensor_type(name, INT64, ["texts", "tokens"]))
    graph += field(12, tensor_type("last_hidden_state", FLOAT, ["texts", "tokens", table.shape[1]]))
    return field(1, 8) + field(7, graph) + field(8, field(2, 13))


def words_of(*texts: str) -> list[str]:
    """Return the distinct words of the texts, after padding and the unknown word."""
    found = re.findall(r"\w+|[^\w\s]+", " ".join(texts).casefold())
    return [PADDING, UNKNOWN, *dict.fromkeys(found)]


def vectors_of(
    words: Sequence[str], dimensions: int, *, kind: str = "a"
) -> np.ndarray[tuple[int, int], np.dtype[np.float32]]:
    """Return a vector for each word, always the same one; another `kind` is another model."""

    def vector(word: str) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
        seed = int.from_bytes(hashlib.sha256(f"{kind} {word}".encode()).digest()[:8])
        found: np.ndarray[tuple[int], np.dtype[np.float64]] = np.random.default_rng(seed).standard_normal(dimensions)
        return found

    return np.stack([vector(word) for word in words]).astype(np.float32)


def write_transformer(
    folder: Path, words: Sequence[str], *, dimensions: int = 32, kind: str = "a", **texts: object
) -> Path:
    """Write the model's files, with the further JSON files `texts` (`modules` becomes `modules.json`), and return the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer = Tokenizer(models.WordLevel({word: n for n, word in enumerate(words)}, unk_token=UNKNOWN))
    tokenizer.normalizer = normalizers.Lowercase()
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.save(str(folder / "tokenizer.json"))
    files: dict[str, object] = {
        "config": {"pad_token_id": 0},
        "tokenizer_config": {"model_max_length": 64, "pad_token": PADDING},
        "special_tokens_map": {"pad_token": PADDING, "unk_token": UNKNOWN},
        **texts,
    }
    for name, content in files.items():
        (folder / f"{name}.json").write_text(json.dumps(content), encoding="utf-8")
    (folder / "model.onnx").write_bytes(onnx_of(vectors_of(words, dimensions, kind=kind)))
    return folder
