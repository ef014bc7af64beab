"""The weights of the static embedder are mapped: what a safetensors file says, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from knowledge.index.embed.static import mapped_table

NUMBERS = np.arange(12, dtype="<f2").reshape(3, 4)


def _written(file: Path, **tables: Any) -> Path:
    header = json.dumps({"__metadata__": {"made": "here"}, **tables}).encode()
    file.write_bytes(len(header).to_bytes(8, "little") + header + NUMBERS.tobytes())
    return file


def _table(dtype: str = "F16", rows: int = 3) -> dict[str, Any]:
    return {"dtype": dtype, "shape": [rows, 4], "data_offsets": [0, 8 * rows]}


def test_the_table_of_a_file_is_mapped_and_not_copied(tmp_path: Path) -> None:
    table = mapped_table(_written(tmp_path / "weights.safetensors", embedding=_table()))
    assert np.array_equal(table, NUMBERS)
    assert isinstance(table.base, np.memmap)


@pytest.mark.parametrize(
    "tables",
    [{}, {"one": _table(), "two": _table()}, {"one": _table("F32")}, {"one": _table(rows=4)}],
    ids=["no table", "two tables", "other numbers", "cut short"],
)
def test_a_file_with_something_else_is_refused(tmp_path: Path, tables: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"tables|mmap"):
        mapped_table(_written(tmp_path / "weights.safetensors", **tables))


def test_a_damaged_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "weights.safetensors").write_bytes(b"\xff" * 1_000)
    with pytest.raises(ValueError, match=r"."):
        mapped_table(tmp_path / "weights.safetensors")
