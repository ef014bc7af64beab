"""`eval`: measure search quality with a set of judged queries, or with the pages that were read after recorded questions."""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import anyio
from rich.markup import escape
from rich.table import Table

from agents.engine.work.markdown import counted
from knowledge.evaluate.compare import RunComparison, compare, measured_from
from knowledge.evaluate.queries import LabelledQuery, read_queries
from knowledge.evaluate.run import Measured, SearchUnderTest, Summary, summarise, unresolved
from knowledge.evaluate.run import run as measure
from knowledge.evaluate.trec import read_trec
from knowledge.search.answers import PageReading, SearchAnswer
from mcp_server.app.knowledge_base import KnowledgeBase, open_base
from mcp_server.app.settings.settings import Settings
from mcp_server.cli.search import eval_use
from mcp_server.cli.search.index_update import indexing_bars, update_to_measure
from mcp_server.cli.terminal.commands import as_commands
from mcp_server.cli.terminal.console import plain_table, progress_bars, stdout_console
from mcp_server.cli.terminal.options import WronglyAsked, fraction, integer
from mcp_server.cli.terminal.output import print_json, say

MOST_SHOWN = 10
_SHARES = {
    "nDCG@10": "ndcg",
    "recall@20": "recall",
    "MRR": "reciprocal_rank",
    "answer in a shown passage": "in_hits",
    "answer in a snippet": "in_snippets",
    "answer reached by reading on": "reached",
}


@dataclass(frozen=True, slots=True)
class EvaluationReport:
    """A finished run: its summary, every query, and the judgements that do not fit this knowledge base."""

    summary: Summary
    queries: Sequence[Measured]
    unresolved: Sequence[str]
    seconds: float


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add this verb's arguments."""
    parser.add_argument(
        "queries",
        type=Path,
        nargs="?",
        metavar="QUERIES",
        help="the query set: .jsonl, .yaml, or TREC and BEIR queries",
    )
    parser.add_argument("--qrels", type=Path, metavar="FILE", help="the judgements, if QUERIES has none (TREC or BEIR)")
    parser.add_argument(
        "--limit", type=integer(1, 50), default=8, metavar="N", help="hits shown to the reader (default: 8)"
    )
    parser.add_argument("--compare", type=Path, metavar="FILE", help="an earlier run, as printed with --json")
    parser.add_argument("--details", action="store_true", help="a line for each query")
    parser.add_argument("--at-least", type=fraction, metavar="NDCG", help="exit code 1 if nDCG@10 is lower")
    eval_use.arguments(parser)


def run(args: argparse.Namespace, settings: Settings) -> int:
    """Print the measures; exit code 1 if they are below `--at-least`, or a judged place does not exist."""
    if eval_use.wanted(args):
        return eval_use.run(args, settings)
    if args.queries is None:
        raise WronglyAsked("name a query set (QUERIES), or use --from-use")
    queries = _queries(args.queries, args.qrels)
    earlier = _earlier(args.compare) if args.compare else None
    report = anyio.run(_evaluate, queries, args.limit, settings)
    comparison = compare(earlier, report.queries) if earlier is not None else None
    if settings.json:
        print_json(_as_json(report, comparison, args))
    else:
        _show(report, comparison, details=args.details)
    for sentence in report.unresolved[:MOST_SHOWN]:
        say(f"knowledge-forge: {args.queries}: {as_commands(sentence)}")
    if len(report.unresolved) > MOST_SHOWN:
        say(
            f"knowledge-forge: and {len(report.unresolved) - MOST_SHOWN} more judged places do not fit (--json lists them)"
        )
    too_low = args.at_least is not None and report.summary.ndcg.mean < args.at_least
    if too_low:
        say(f"knowledge-forge: nDCG@10 is {report.summary.ndcg.mean:.3f}, less than {args.at_least}")
    return 1 if too_low or report.unresolved else 0


def _queries(file: Path, qrels: Path | None) -> list[LabelledQuery]:
    if qrels is None:
        return read_queries(_text(file), str(file))
    return read_trec(_text(file), str(file), _text(qrels), str(qrels))


def _text(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise WronglyAsked(f"{file} is not valid UTF-8, so it is not a query set") from None
    except OSError as error:
        raise WronglyAsked(f"{file} cannot be read: {error.strerror or error}") from error


def _earlier(file: Path) -> list[Measured]:
    try:
        printed = json.loads(_text(file))
        return measured_from(printed["queries"])
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        # Only our own sentences: subclasses, such as JSON's, and the other errors speak of Python.
        why = str(error) if type(error) is ValueError else "it is not what `eval --json` prints"
        raise WronglyAsked(f"{file} cannot be compared with: {why}; measure it again with --json") from error


async def _evaluate(queries: Sequence[LabelledQuery], limit: int, settings: Settings) -> EvaluationReport:
    with indexing_bars(shown=not settings.json) as (on_indexed, _):
        async with open_base(settings, on_progress=on_indexed) as base:
            await update_to_measure(base, on_indexed)
            subject = _subject(base)
            wrong = await unresolved(queries, subject)
            with progress_bars("asking", shown=not settings.json) as (draw,):
                began = time.perf_counter()
                measured = await measure(
                    queries, subject, limit=limit, on_progress=lambda done: draw(done, len(queries))
                )
    return EvaluationReport(summarise(measured), measured, wrong, time.perf_counter() - began)


def _subject(base: KnowledgeBase) -> SearchUnderTest:
    async def search(query: LabelledQuery, limit: int, cursor: str | None) -> SearchAnswer:
        return await base.finder.search(
            query.query,
            path=query.path,
            mode=query.mode,
            limit=limit,
            cursor=cursor,
            filters=replace(query.filters, path=""),
        )

    async def read(path: str, section: str | None, offset: int) -> PageReading:
        return await base.tiers.read(path, section=section, offset=offset)

    async def text(path: str) -> str:
        # Judgements may leave out the suffix, so the path is resolved as `read` does it.
        return await base.tiers.full_text((await base.tiers.read(path)).path)

    return SearchUnderTest(search, read, text, time.perf_counter)


def _as_json(report: EvaluationReport, comparison: RunComparison | None, args: argparse.Namespace) -> dict[str, Any]:
    return {
        "set": str(args.queries),
        "limit": args.limit,
        "seconds": round(report.seconds, 3),
        "summary": asdict(report.summary),
        "unresolved": list(report.unresolved),
        "queries": [asdict(one) for one in report.queries],
        "comparison": asdict(comparison) if comparison else None,
    }


def _show(report: EvaluationReport, comparison: RunComparison | None, *, details: bool) -> None:
    console = stdout_console()
    console.print(_measures(report.summary))
    console.print(_scents(report.summary))
    if details:
        _show_details(report.queries)
    if comparison is not None:
        _show_comparison(comparison)
    routes = ", ".join(f"{count} {mode}" for mode, count in report.summary.routes.items())
    console.print(f"[dim]routes: {routes}. {counted(report.summary.queries, 'question')} in {report.seconds:.1f} s[/]")


def _measures(summary: Summary) -> Table:
    table = plain_table(f"{counted(summary.answerable, 'question')} with an answer", "mean", "95 % interval")
    for name, field in _SHARES.items():
        found = getattr(summary, field)
        table.add_row(name, f"{found.mean:.3f}", f"{found.low:.3f} to {found.high:.3f}")
    table.add_row(
        "tokens until the answer",
        f"{summary.tokens_mean:.0f}",
        f"p50 {summary.tokens_p50:.0f}, p95 {summary.tokens_p95:.0f}",
    )
    table.add_row("latency", "", f"p50 {summary.latency_p50_ms:.1f} ms, p95 {summary.latency_p95_ms:.1f} ms")
    return table


def _scents(summary: Summary) -> Table:
    table = plain_table("\nscent", "answer\nshown", "answer\nnot shown", "no answer\nhere")
    for level, counts in summary.scents.items():
        table.add_row(level, *map(str, counts))
    right, doubted = summary.sufficient_right, summary.none_doubted
    table.add_row("")
    table.add_row("rated sufficient, and the answer was shown", "" if right is None else f"{right:.0%}")
    table.add_row("unanswerable, and rated partial or lost", "" if doubted is None else f"{doubted:.0%}")
    return table


def _show_details(queries: Sequence[Measured]) -> None:
    """Print a line per query, the worst first, and below it the places that were found before the first one with the answer."""
    console = stdout_console()
    console.print("\n[bold]nDCG  recall  RR    answer   tokens      ms  scent       query[/]")
    for one in sorted(queries, key=lambda one: (not one.answerable, one.ndcg)):
        seen = "snippet" if one.in_snippets else "passage" if one.in_hits else "read" if one.reached else "no"
        qualities = f"{one.ndcg:4.2f}  {one.recall:4.2f}    {one.reciprocal_rank:4.2f}"
        known = f"{qualities}  {seen:<7}  {one.tokens:6}" if one.answerable else f"{'':18}none here{'':6}"
        line = f"{known}  {one.latency_ms:6.1f}  {one.scent:<10}  {one.id}: {one.query}"
        console.print(escape(line), soft_wrap=True)
        for place in one.top[:3] if one.answerable and one.reciprocal_rank < 1 else ():
            console.print(f"[dim]{'':46}{escape(place)}[/]", soft_wrap=True)


def _show_comparison(comparison: RunComparison) -> None:
    console = stdout_console()
    table = plain_table(
        f"\n{counted(comparison.compared, 'question')} in both runs", "change", "95 % interval", "by chance"
    )
    names = {**{field: name for name, field in _SHARES.items()}, "tokens": "tokens until the answer"}
    for field, change in comparison.differences.items():
        form = "+.0f" if field == "tokens" else "+.3f"
        sure = "[bold]" if change.is_sure else ""
        interval = f"{change.low:{form}} to {change.high:{form}}"
        table.add_row(names[field], f"{sure}{change.mean:{form}}", interval, f"{change.chance:.3f}")
    console.print(table)
    for what, changes in (("better", comparison.better), ("worse", comparison.worse)):
        console.print(f"{len(changes)} {what}" + (":" if changes else ""))
        for one in changes[:MOST_SHOWN]:
            console.print(
                f"  {one.before:.2f} -> {one.after:.2f}  {escape(one.id)}: {escape(one.query)}", soft_wrap=True
            )
    if left := len(comparison.only_before) + len(comparison.only_after):
        console.print(f"[yellow]{left} queries are in one run only and were not compared[/]")
