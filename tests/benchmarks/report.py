"""The measurements as a page of the handbook: the promise beside the number."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

COMMAND = "python -m tests.benchmarks --write-doc"
Results = Mapping[str, Any]
"""`machine`, `sizes` (results by requested number of chunks), and what is measured once: `start_up`, `map`."""


@dataclass(frozen=True, slots=True)
class Line:
    """One promise. `limit` is its bound; an upper one, or a lower one if `least`."""

    what: str
    value: float
    limit: float
    unit: str
    least: bool = False

    @property
    def met(self) -> bool:
        """Whether the number keeps the promise."""
        return self.value >= self.limit if self.least else self.value <= self.limit

    def row(self) -> str:
        """Return the line of the table."""
        bound = f"{'at least' if self.least else 'at most'} {self.limit:,g}{self.unit}"
        return f"| {self.what} | {bound} | {_number(self.value)}{self.unit} | {'yes' if self.met else '**no**'} |"


def promises(results: Results) -> list[Line]:
    """Return the promises with their measurements; those that depend on size are judged at the largest."""
    largest = max(results["sizes"], key=int)
    at = results["sizes"][largest]
    size = f" at {int(largest):,} chunks"
    start, search, fresh = results["start_up"], at["search"], at["freshness"]
    return [
        Line(
            "Process start to the first `tools/list` answer, against a bare SDK server",
            start["seconds_ratio"],
            1.25,
            " times",
        ),
        Line("Peak memory before the first search, against the same", start["peak_ratio"], 1.4, " times"),
        Line(
            "`kb_map` with 20 children: server CPU above a bare tool with the same result",
            results["map"]["above_ms"],
            0.5,
            " ms",
        ),
        Line(f"`kb_search` over stdio{size}, p50 above a no-op call", search["p50_above_ms"], 10, " ms"),
        Line(f"`kb_search` over stdio{size}, p95 above a no-op call", search["p95_above_ms"], 20, " ms"),
        Line(
            f"Router, reading ledger, scent and typo expansion together in one search{size}, p50",
            results["additions"]["together_p50_ms"],
            1.5,
            " ms",
        ),
        Line(f"First search after start{size}", search["first_s"], 1.5, " s"),
        Line(f"Indexing, end to end{size}", at["indexing"]["chunks_per_s"], 2_500, " chunks/s", least=True),
        Line(f"Saved file to searchable{size}, p50", fresh["p50_ms"], 200, " ms"),
        Line(f"Work for one changed file{size}", fresh["cpu_ms"], 40, " ms"),
    ]


BEGIN, END = "<!-- speed: written by the command below, not by hand -->", "<!-- /speed -->"


def page(results: Results, before: str) -> str:
    """Return the page `before` with this program's results between its marks; the other sections are kept."""
    head, begin, rest = before.partition(BEGIN)
    _, end, tail = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"the page has lost its marks {BEGIN} and {END}")
    return head + BEGIN + "\n" + "\n".join(_lines(results)) + "\n" + END + tail


def _lines(results: Results) -> Iterator[str]:
    machine = results["machine"]
    yield (
        f"Written by `{COMMAND}`, not by hand. Measured on {machine['cores']} cores ({machine['platform']}, "
        f"Python {machine['python']}), {results['date']}. The knowledge bases are made by a seeded generator "
        "(`tests/benchmarks/corpus.py`) from the shapes of real Markdown. Both sides of a ratio are measured in one "
        f"run, taking turns. The machine's load was {machine['load']} when it began: other work on the "
        "machine makes all times longer, and ratios less so."
    )
    yield ""
    yield "## Promises"
    yield ""
    yield "| promise | bound | measured | kept |"
    yield "| --- | --- | --- | --- |"
    yield from (line.row() for line in promises(results))
    yield ""
    yield from _by_size(results)
    yield from _quality(results)
    yield from _how()


def _by_size(results: Results) -> Iterator[str]:
    sizes = sorted(results["sizes"], key=int)
    yield "## By size"
    yield ""
    yield "| chunks asked for | " + " | ".join(f"{int(size):,}" for size in sizes) + " |"
    yield "| --- |" + " ---: |" * len(sizes)
    rows: Sequence[tuple[str, str, str]] = (
        ("pages", "indexing", "documents"),
        ("chunks", "indexing", "chunks"),
        ("indexing, seconds", "indexing", "seconds"),
        ("indexing, chunks a second", "indexing", "chunks_per_s"),
        ("a no-op call of the bare server p50, ms", "search", "noop_p50_ms"),
        ("search p50 above a no-op, ms", "search", "p50_above_ms"),
        ("search p95 above a no-op, ms", "search", "p95_above_ms"),
        ("first search after start, s", "search", "first_s"),
        ("memory after the searches, MB", "search", "memory_after_mb"),
        ("saved to searchable p50, ms", "freshness", "p50_ms"),
        ("saved to searchable p95, ms", "freshness", "p95_ms"),
        ("search right after a change, above one without, ms", "freshness", "search_ms"),
        ("work for one changed file, ms", "freshness", "cpu_ms"),
    )
    for label, part, field in rows:
        values = (_number(results["sizes"][size][part][field]) for size in sizes)
        yield f"| {label} | " + " | ".join(values) + " |"
    start, map_ = results["start_up"], results["map"]
    yield ""
    yield (
        f"Start: {start['seconds']:.2f} s against {start['bare_seconds']:.2f} s; peak memory {start['peak_mb']:.0f} MB "
        f"against {start['bare_peak_mb']:.0f} MB. `kb_map` with {map_['children']} children: {map_['cpu_ms']:.2f} ms of "
        f"CPU a call against {map_['bare_cpu_ms']:.2f} ms."
    )
    yield ""


def _quality(results: Results) -> Iterator[str]:
    """The generator knows which page each of its questions is about: share found first, and among the first five pages."""
    sizes = sorted(results["sizes"], key=int)
    yield "## Found"
    yield ""
    yield "The share of labelled questions whose page came first, and came among the first five."
    yield ""
    yield "| question | " + " | ".join(f"first, {int(s):,} | in five, {int(s):,}" for s in sizes) + " |"
    yield "| --- |" + " ---: |" * (2 * len(sizes))
    for kind in results["sizes"][sizes[0]]["search"]["found_first"]:
        cells = (
            f"{results['sizes'][s]['search'][part].get(kind, 0):.0%}"
            for s in sizes
            for part in ("found_first", "found_in_five")
        )
        yield f"| {kind} | " + " | ".join(cells) + " |"
    yield ""


def _how() -> Iterator[str]:
    yield "## How"
    yield ""
    yield "- *Start*: from spawning the process to the answer of `tools/list` over pipes, medians of interleaved starts, on the"
    yield "  largest knowledge base, already indexed. The bare server is the SDK's, with three tools of the same shape."
    yield "- *Peak memory*: the kernel's high-water mark some seconds after that answer, when background work has settled."
    yield "- *Map*: user and system time of the server process over 1,000 calls, taking turns with the bare tool."
    yield "- *Search*: the time that the SDK's client waits, minus the median of a no-op call made before each question."
    yield "  The no-op itself shows how fast the machine is."
    yield "- *Saved to searchable*: a page is saved, and `kb_search` is repeated until it finds the new word."
    yield "- *Search right after a change*: half a second after a save, minus the same wait where nothing was saved, medians of 25."
    yield "- *Work*: the server's CPU for one such change without any calls, minus what it uses when idle."


def _number(value: float) -> str:
    if isinstance(value, int) or value >= 100:
        return f"{value:,.0f}"
    return f"{value:.2f}"
