"""`eval --from-use`: measure search with the pages that were used after a question, and find ranking weights that fit them."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import anyio
import numpy as np
from rich.markup import escape

from agents.engine.work.markdown import counted
from knowledge.errors import KnowledgeError, NoSuchPath
from knowledge.evaluate.metrics import Interval, ndcg
from knowledge.evaluate.use.fit import FOLDS, FittedWeights, candidates, fit, too_few
from knowledge.evaluate.use.labels import UseLabel, labels
from knowledge.evaluate.use.measure import (
    DEPTH,
    DEPTH_NDCG,
    MeasuredLabel,
    UseSummary,
    measured,
    places,
    summary,
)
from knowledge.pages.vault import Vault
from knowledge.search.finder import Finder
from knowledge.search.ranking.weights import RankingWeights
from knowledge.search.use.events import UseCounts
from knowledge.search.use.store import UseStore
from knowledge.search.use.stored_weights import WeightsRecord, reset, store, stored_record
from mcp_server.app.knowledge_base import KnowledgeBase, open_base, state_folder, utc_now
from mcp_server.app.settings.settings import Settings
from mcp_server.cli.search.index_update import indexing_bars, update_to_measure
from mcp_server.cli.terminal import keyboard
from mcp_server.cli.terminal.console import plain_table, progress_bars, stdout_console
from mcp_server.cli.terminal.options import WronglyAsked
from mcp_server.cli.terminal.output import print_json, say
from mcp_server.gate.host_registration import os_user

MOST_MEASURED = 500
"""The most labels that are measured, the latest ones: each takes about 5 ms."""
MOST_FITTED = 500
"""The most labels that weights are fitted to, the latest ones: each is searched for with every candidate."""
MOST_SHOWN = 10
ALL_KEPT = timedelta(days=9_999)
"""How far back events are read if recording is off: far enough for everything still in the file."""
NOT_APPLIED = 1


class NotAPerson(KnowledgeError):
    """Weights change only at a terminal, where a person can see what changes."""


class EngineRanks(KnowledgeError):
    """The search server of these settings ranks by itself, so the weights do not apply."""


@dataclass(frozen=True, slots=True)
class UseReport:
    """The results of measuring by use.

    `gone` counts questions whose pages no longer exist, `left_out` those beyond `MOST_MEASURED`.
    """

    counts: UseCounts
    found: Sequence[MeasuredLabel]
    gone: int
    left_out: int
    weights: RankingWeights
    fitted: FittedWeights | None


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `--from-use`."""
    parser.add_argument(
        "--from-use",
        action="store_true",
        help="instead of QUERIES: the questions of hosts, and the pages used after them",
    )
    parser.add_argument("--fit", action="store_true", help="with --from-use: try other ranking weights")
    parser.add_argument("--apply", action="store_true", help="with --fit: store them, after you agree at the terminal")
    parser.add_argument("--reset", action="store_true", help="with --from-use: return to the default ranking weights")
    parser.add_argument("--forget", action="store_true", help="with --from-use: delete the recorded questions")


def wanted(args: argparse.Namespace) -> bool:
    """Return whether the command measures by use.

    Raises:
        WronglyAsked: its options do not go together.
    """
    own = [name for name in ("fit", "apply", "reset", "forget") if getattr(args, name)]
    if not args.from_use:
        if own:
            raise WronglyAsked(f"--{own[0]} needs --from-use")
        return False
    if args.queries is not None:
        raise WronglyAsked("give either QUERIES or --from-use")
    if other := [name for name in ("qrels", "compare", "at_least") if getattr(args, name) is not None]:
        raise WronglyAsked(
            f"--{other[0].replace('_', '-')} applies to a query set, so it can't be used with --from-use"
        )
    if args.apply and not args.fit:
        raise WronglyAsked("--apply stores what --fit finds: use --from-use --fit --apply")
    if len({*own} - {"apply"}) > 1:
        raise WronglyAsked(f"--{own[0]} and --{own[-1]} can't be used together")
    return True


def run(args: argparse.Namespace, settings: Settings) -> int:
    """Print the measures, or carry out the options; exit code 1 if weights were requested to be stored but were not."""
    if args.forget:
        return anyio.run(_forget, settings)
    if args.reset or args.apply:
        # Checked before the work: fitting takes a minute.
        _require_person()
    if args.reset:
        return _reset(settings)
    report = anyio.run(_measure, args.fit, settings)
    applied = False
    if not settings.json:
        _show(report, settings, details=args.details)
    if args.apply and report.fitted is not None and not report.fitted.refused:
        applied = anyio.run(_applied, report.fitted, settings)
    if settings.json:
        print_json(_as_json(report, settings, applied=applied))
    return NOT_APPLIED if args.apply and not applied else 0


async def _measure(fitting: bool, settings: Settings) -> UseReport:  # noqa: FBT001 - a flag of the command line, handed on
    with indexing_bars(shown=not settings.json) as (on_indexed, _):
        async with open_base(settings, on_progress=on_indexed) as base:
            record = stored_record(base.state_dir)
            weights = RankingWeights() if record is None else record.weights
            since = utc_now() - (settings.questions_kept or ALL_KEPT)
            use = await anyio.to_thread.run_sync(UseStore.open, base.state_dir)
            try:
                counts, (questions, uses) = await use.counts(since), await use.events(since)
            finally:
                use.close()
            every = labels(questions, uses)
            if not every:
                return UseReport(counts, (), 0, 0, weights, None)
            await update_to_measure(base, on_indexed)
            existing = [label for one in every if (label := await _existing(base, one)) is not None]
            latest = existing[:MOST_MEASURED]
            with progress_bars("asking", shown=not settings.json) as (draw,):
                found = await _measured(base.finder, latest, lambda done: draw(done, len(latest)))
            fitted = await _fitted(base, [one.label for one in found], weights, settings) if fitting else None
    gone = len(every) - len(existing) + len(latest) - len(found)
    return UseReport(counts, found, gone, len(existing) - len(latest), weights, fitted)


async def _existing(base: KnowledgeBase, label: UseLabel) -> UseLabel | None:
    """Return the label without pages that no longer exist, None if no page is left."""
    return _with_pages(label, {path for path in label.grades if await base.index.document(path) is not None})


def _with_pages(label: UseLabel, pages: set[str]) -> UseLabel | None:
    if not pages:
        return None
    grades = {path: grade for path, grade in label.grades.items() if path in pages}
    return replace(label, grades=grades, ranks={path: label.ranks[path] for path in grades})


async def _ranked(finder: Finder, label: UseLabel, weights: RankingWeights | None = None) -> list[str]:
    asked = label.asked_for
    return await finder.ranked_pages(asked.query, path=asked.path, filters=asked.filters, most=DEPTH, weights=weights)


async def _measured(
    finder: Finder, found: Sequence[UseLabel], on_progress: Callable[[int], None]
) -> list[MeasuredLabel]:
    done = []
    for number, label in enumerate(found, 1):
        try:
            done.append(measured(label, await _ranked(finder, label)))
        except NoSuchPath:
            continue  # the searched directory was removed since
        finally:
            on_progress(number)
    return done


async def _fitted(
    base: KnowledgeBase, found: Sequence[UseLabel], used: RankingWeights, settings: Settings
) -> FittedWeights:
    """Search for each label with every candidate, and return the weights that fit best.

    Raises:
        EngineRanks: the weights do not apply with these settings.
    """
    if not (await base.engines()).ours:
        raise EngineRanks("the search server of these settings ranks by itself, so ranking weights have no effect")
    # A page of an untrusted source can ask to be read: its uses are shown but decide nothing.
    trusted = [_with_pages(label, set(label.grades) - label.untrusted) for label in found]
    chosen = [label for label in trusted if label is not None][:MOST_FITTED]
    tried = candidates(used)
    if too_few(chosen):
        return fit(chosen, tried[:1], np.zeros((len(chosen), 1)))
    quality = np.zeros((len(chosen), len(tried)))
    with progress_bars("trying weights", shown=not settings.json) as (draw,):
        for column, candidate in enumerate(tried):
            for row, label in enumerate(chosen):
                quality[row, column] = ndcg(await _ranked(base.finder, label, candidate), label.grades, DEPTH_NDCG)
            draw(column + 1, len(tried))
    return fit(chosen, tried, quality)


def _require_person() -> None:
    if not keyboard.is_terminal():
        raise NotAPerson("ranking weights change only by a person's command: run it at a terminal")


async def _applied(fitted: FittedWeights, settings: Settings) -> bool:
    """Store the weights if the person agrees; return whether they were stored."""
    gain = fitted.gain
    if gain is None or not await keyboard.confirms("Store these weights for this knowledge base?"):
        return False
    reason = (
        f"nDCG@10 {gain.mean:+.3f} ({gain.low:+.3f} to {gain.high:+.3f}) on {fitted.questions} questions, "
        "none of which took part in the choice"
    )
    record = WeightsRecord(fitted.best, utc_now().isoformat(timespec="seconds"), os_user(), reason)
    store(_state_dir(settings), record)
    say(
        "Stored. Running servers use them from the next search on; eval --from-use --reset returns to the default weights."
    )
    return True


def _reset(settings: Settings) -> int:
    done = reset(_state_dir(settings), at=utc_now().isoformat(timespec="seconds"), by=os_user())
    if settings.json:
        print_json({"reset": done})
    else:
        print("Search uses the default weights again." if done else "Search already uses the default weights.")
    return 0


async def _forget(settings: Settings) -> int:
    use = await anyio.to_thread.run_sync(UseStore.open, _state_dir(settings))
    try:
        counts = await use.counts(utc_now() - ALL_KEPT)
        what = f"{counted(counts.questions, 'question')} and {counted(counts.uses, 'use')} of pages"
        # Nothing brings them back. A script may delete them without being asked.
        if keyboard.is_terminal() and not await keyboard.confirms(f"Delete {what}?"):
            return NOT_APPLIED
        await use.forget()
    finally:
        use.close()
    if settings.json:
        print_json({"questions": counts.questions, "page_uses": counts.uses})
    else:
        print(f"Deleted {what}.")
    return 0


def _state_dir(settings: Settings) -> Path:
    return state_folder(Vault.open(settings.kb).root, settings)


def _as_json(report: UseReport, settings: Settings, *, applied: bool) -> dict[str, Any]:
    return {
        "recorded": settings.questions_kept is not None,
        "since": report.counts.since.isoformat(timespec="seconds") if report.counts.since else None,
        "questions": report.counts.questions,
        "page_uses": report.counts.uses,
        "labels": len(report.found),
        "gone": report.gone,
        "left_out": report.left_out,
        "places": dict(places([one.label for one in report.found])),
        "summary": asdict(summary(report.found)) if report.found else None,
        "queries": [_query_json(one) for one in _worst_first(report.found)],
        "weights": asdict(report.weights),
        "fit": asdict(report.fitted) if report.fitted else None,
        "applied": applied,
    }


def _query_json(one: MeasuredLabel) -> dict[str, Any]:
    label = one.label
    return {
        "query": label.asked_for.query,
        "path": label.asked_for.path,
        "asked": label.asked,
        "weight": round(label.weight, 3),
        "ndcg": one.ndcg,
        "recall": one.recall,
        "reciprocal_rank": one.reciprocal_rank,
        "used": label.page,
        "grades": {path: round(grade, 3) for path, grade in label.grades.items()},
        "untrusted": sorted(label.untrusted),
        "shown_at": label.ranks[label.page],
        "place_now": one.place,
        "first_now": one.first,
    }


def _worst_first(found: Sequence[MeasuredLabel]) -> list[MeasuredLabel]:
    """Return the questions, sorted by what search loses on each: first the worst result, weighted by how much its use proves."""
    return sorted(found, key=lambda one: -(1 - one.ndcg) * one.label.weight)


def _show(report: UseReport, settings: Settings, *, details: bool) -> None:
    console = stdout_console()
    if not report.found:
        _show_nothing(report, settings)
        return
    since = f" since {report.counts.since:%Y-%m-%d}" if report.counts.since else ""
    asked = f"{counted(report.counts.questions, 'question')}{since}"
    console.print(
        f"{asked}; {counted(len(report.found), 'different question')} led to a page. Rank of that page in the answer:",
        soft_wrap=True,
    )
    shown_at = places([one.label for one in report.found])
    console.print("  " + ", ".join(f"{place}: {count}" for place, count in shown_at.items()))
    if report.gone:
        console.print(f"[dim]{report.gone} more led to pages that no longer exist[/]")
    if report.left_out:
        console.print(f"[dim]{report.left_out} older ones were not measured[/]")
    _show_averages(summary(report.found))
    worst = _worst_first(report.found)
    shown = worst if details else [one for one in worst if one.ndcg < 1][:MOST_SHOWN]
    if shown:
        console.print("\n[bold]nDCG  counts  shown at  now at  question, and the page used instead of the first hit[/]")
    for one in shown:
        at = one.label.ranks[one.label.page]
        counts = f"{one.ndcg:4.2f}  {one.label.weight:6.2f}  {at or 'not':>8}  {one.place or 'not':>6}"
        where = f" [dim]in {escape(one.label.asked_for.path)}[/]" if one.label.asked_for.path else ""
        console.print(f"{counts}  {escape(one.label.asked_for.query)}{where}", soft_wrap=True)
        mark = " (untrusted source)" if one.label.page in one.label.untrusted else ""
        instead = f" instead of {escape(one.first)}" if one.first and one.first != one.label.page else ""
        console.print(f"{'':32}[dim]{escape(one.label.page)}{mark}{instead}[/]", soft_wrap=True)
    if report.fitted is not None:
        _show_fit(report.fitted)


def _show_nothing(report: UseReport, settings: Settings) -> None:
    asked = counted(report.counts.questions, "question")
    if settings.questions_kept is None and not report.counts.questions:
        print("No questions are recorded: FORGE_QUESTIONS_KEPT is off.")
    elif not report.counts.questions:
        print("No questions yet. They are recorded while hosts search this knowledge base and read pages afterwards.")
    elif report.gone:
        print(f"{asked}. The pages used afterwards no longer exist, so there is nothing to measure.")
    else:
        print(f"{asked}. No page was used within ten minutes after a question, so there is nothing to measure.")


def _show_averages(found: UseSummary) -> None:
    below = found.below_first
    columns = [f"\n{found.labels} questions, by how strong the evidence of each use is", "mean", "95 % interval"]
    if below is not None:
        columns += [f"{below.labels} used\nbelow rank 1", "95 % interval"]
    table = plain_table(*columns)
    for name, field in (("nDCG@10", "ndcg"), ("MRR", "reciprocal_rank"), ("recall@20", "recall")):
        cells = _interval_cells(getattr(found, field))
        table.add_row(name, *cells, *(_interval_cells(getattr(below, field)) if below is not None else ()))
    stdout_console().print(table)


def _interval_cells(interval: Interval) -> tuple[str, str]:
    return f"{interval.mean:.3f}", f"{interval.low:.3f} to {interval.high:.3f}"


def _show_fit(fitted: FittedWeights) -> None:
    console, gain = stdout_console(), fitted.gain
    if gain is None:
        console.print(f"\n[yellow]The weights are not changed: {escape(fitted.refused)}.[/]")
        return
    table = plain_table("\nranking weights", "in use", "best fit")
    used, best = asdict(fitted.used), asdict(fitted.best)
    for name in used:
        table.add_row(name, f"{used[name]:g}", f"{best[name]:g}")
    console.print(table)
    console.print(
        f"{fitted.questions} questions about {fitted.pages} pages. Gain in nDCG@10 on questions left out of the choice: "
        f"{gain.mean:+.3f} (95 %: {gain.low:+.3f} to {gain.high:+.3f}); on all of them {fitted.gain_seen:+.3f}. "
        f"By chance: {fitted.chance:.3f}. "
        f"{fitted.agreeing} of {FOLDS} choices agree."
    )
    if fitted.refused:
        console.print(f"[yellow]The weights are not changed: {escape(fitted.refused)}.[/]")
    else:
        console.print("[green]The best fit is better. eval --from-use --fit --apply stores it.[/]")
