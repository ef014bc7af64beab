"""The weights of the static embedder are mapped: what a safetensors file says, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from knowledge.index.embed.static import ROWS_HELD, MappedTable

NUMBERS = np.arange(12, dtype="<f2").reshape(3, 4)


def _written(file: Path, **tables: Any) -> Path:
    header = json.dumps({"__metadata__": {"made": "here"}, **tables}).encode()
    file.write_bytes(len(header).to_bytes(8, "little") + header + NUMBERS.tobytes())
    return file


def _table(dtype: str = "F16", rows: int = 3) -> dict[str, Any]:
    return {"dtype": dtype, "shape": [rows, 4], "data_offsets": [0, 8 * rows]}


def test_rows_are_those_of_the_file_also_after_a_rest(tmp_path: Path) -> None:
    table = MappedTable(_written(tmp_path / "weights.safetensors", embedding=_table()))
    for _ in range(ROWS_HELD):  # two rows each, so that it lets go twice
        assert np.array_equal(table.rows(np.array([2, 0])), NUMBERS[[2, 0]])
        table.rest()


@pytest.mark.parametrize(
    "tables",
    [{}, {"one": _table(), "two": _table()}, {"one": _table("F32")}, {"one": _table(rows=4)}],
    ids=["no table", "two tables", "other numbers", "cut short"],
)
def test_a_file_with_something_else_is_refused(tmp_path: Path, tables: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"tables|buffer"):
        MappedTable(_written(tmp_path / "weights.safetensors", **tables))


def test_a_damaged_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "weights.safetensors").write_bytes(b"\xff" * 1_000)
    with pytest.raises(ValueError, match=r"."):
        MappedTable(tmp_path / "weights.safetensors")
