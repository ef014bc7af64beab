"""How long a search takes in other scripts: python -m tests.benchmarks.scripts [--chunks N] [--write-doc].

The same made-up pages and questions (`corpus.py`) four times, with other letters. Their searches take turns, so that the ratio to the
first says what the letters cost. The language of the pages is unknown in all four, which leaves out stemming.
"""

from __future__ import annotations

import argparse
import re
import string
import tempfile
import time
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from statistics import median

import anyio

from tests.benchmarks.corpus import write
from tests.benchmarks.handbook import write_section
from tests.benchmarks.served import Served, served

QUESTIONS, WARM = 120, 20
CHUNKS = 1_000
_FRONT_MATTER = re.compile(r"\A\ufeff?---\r?\n.*?^---\r?\n", re.DOTALL | re.MULTILINE)
_GAP = re.compile(r"(?<=[\u4e00-\u9fff]) (?=[\u4e00-\u9fff])")
_CYRILLIC = "абцдефгхийклмнопярстувшжыз"
_HAN = "山川田人口手目耳足木火土金水日月大小上下中天地石竹米"

SCRIPTS: Mapping[str, Callable[[str], str]] = {
    "ASCII": lambda text: text,
    "with accents, as in French": lambda text: text.translate(str.maketrans("oO", "éÉ")),
    "Cyrillic": lambda text: text.lower().translate(str.maketrans(string.ascii_lowercase, _CYRILLIC)),
    "Chinese characters without spaces": lambda text: _GAP.sub(
        "", text.lower().translate(str.maketrans(string.ascii_lowercase, _HAN))
    ),
}


def rewrite(kb: Path, letters: Callable[[str], str]) -> None:
    """Write each page below `kb` again with other letters; its front matter stays."""
    for page in kb.rglob("*.md"):
        text = page.read_text(encoding="utf-8")
        front = _FRONT_MATTER.match(text)
        body = front.end() if front else 0
        page.write_text(text[:body] + letters(text[body:]), encoding="utf-8")


async def measure(folder: Path, chunks: int) -> Mapping[str, float]:
    """Return the median search in each script, in milliseconds, by the SDK's client in this process."""
    async with AsyncExitStack() as open_bases:
        bases: dict[str, Served] = {}
        for number, (script, letters) in enumerate(SCRIPTS.items()):
            kb = folder / f"kb{number}"
            queries = write(kb, chunks).queries[:QUESTIONS]
            rewrite(kb, letters)
            bases[script] = await open_bases.enter_async_context(served(kb, folder / f"state{number}"))
        waits: dict[str, list[float]] = {script: [] for script in bases}
        for place, query in enumerate(queries):
            for script, base in bases.items():
                began = time.perf_counter()
                await base.client.call_tool("kb_search", {"query": SCRIPTS[script](query.text)})
                if place >= WARM:
                    waits[script].append((time.perf_counter() - began) * 1000)
        return {script: median(times) for script, times in waits.items()}


def table(found: Mapping[str, float]) -> list[str]:
    """Return the lines of the handbook's section."""
    first = next(iter(found.values()))
    return [
        "## Search in other scripts",
        "",
        "`python -m tests.benchmarks.scripts --write-doc`: the same made-up pages (about 1,000 passages) and questions with other",
        "letters. Their searches take turns, in one process with their client; the ratio to the first is what counts.",
        "",
        "| letters | search, p50, ms | ratio |",
        "| --- | ---: | ---: |",
        *(f"| {script} | {wait:.2f} | {wait / first:.2f} |" for script, wait in found.items()),
    ]


def main() -> None:
    """Measure, print, and write the section if asked to."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.scripts", description=__doc__)
    parser.add_argument("--chunks", type=int, default=CHUNKS)
    parser.add_argument("--write-doc", action="store_true", help="write the section of the handbook")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        lines = table(anyio.run(measure, Path(folder), args.chunks))
    print("\n".join(lines))
    if args.write_doc:
        write_section("scripts", lines)


if __name__ == "__main__":
    main()
