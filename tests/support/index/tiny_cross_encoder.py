"""A cross-encoder's files with a model of a few kilobytes, which counts the words that question and passage share."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from tests.support.index.tiny_transformer import FLOAT, INT64, field, tensor_type, vectors_of, write_transformer


def _tensor(name: str, values: np.ndarray[tuple[int, ...], np.dtype[np.float32 | np.int64]]) -> bytes:
    kind, raw = (INT64, "<i8") if values.dtype == np.int64 else (FLOAT, "<f4")
    sizes = b"".join(field(1, size) for size in values.shape)
    return field(5, sizes + field(2, kind) + field(8, name) + field(9, values.astype(raw).tobytes()))


def _node(kind: str, inputs: Sequence[str], output: str, **attributes: int) -> bytes:
    given = b"".join(field(1, name) for name in inputs)
    # 20 is the kind of an attribute, 2 says that it is an integer.
    extra = b"".join(field(5, field(1, name) + field(3, value) + field(20, 2)) for name, value in attributes.items())
    return field(1, given + field(2, output) + field(4, kind) + extra)


def cross_encoder_of(table: np.ndarray[tuple[int, int], np.dtype[np.float32]]) -> bytes:
    """Return a model whose number for a pair is the product of the sums of both texts' word vectors. Source: onnx.proto3."""
    graph = b"".join(
        [
            _node("Gather", ["table", "input_ids"], "words"),
            _node("Gather", ["first", "token_type_ids"], "in_question"),
            _node("Gather", ["second", "token_type_ids"], "in_passage"),
            _node("Mul", ["words", "in_question"], "question_words"),
            _node("Mul", ["words", "in_passage"], "passage_words"),
            _node("ReduceSum", ["question_words", "axis"], "question", keepdims=0),
            _node("ReduceSum", ["passage_words", "axis"], "passage", keepdims=0),
            _node("Mul", ["question", "passage"], "product"),
            _node("ReduceSum", ["product", "axis"], "logits", keepdims=1),
            field(2, "g"),
            _tensor("table", table),
            _tensor("first", np.array([[1], [0]], np.float32)),
            _tensor("second", np.array([[0], [1]], np.float32)),
            _tensor("axis", np.array([1], np.int64)),
            *(
                field(11, tensor_type(name, INT64, ["pairs", "tokens"]))
                for name in ("input_ids", "attention_mask", "token_type_ids")
            ),
            field(12, tensor_type("logits", FLOAT, ["pairs", 1])),
        ]
    )
    return field(1, 8) + field(7, graph) + field(8, field(2, 13))


def write_cross_encoder(folder: Path, words: Sequence[str]) -> Path:
    """Write the model's files and return the folder. Padding and unknown words, the first two, count nothing."""
    write_transformer(folder, words)
    table = (vectors_of(words, 64) / 8).astype(np.float32)
    table[:2] = 0
    (folder / "model.onnx").write_bytes(cross_encoder_of(table))
    return folder
