"""`search QUESTION`: search as `kb_search` does, in a terminal."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

import anyio
from rich.markup import escape
from rich.padding import Padding

from knowledge.search.answers import SearchAnswer
from mcp_server.app.settings.settings import Settings
from mcp_server.cli.search.freshness import add_freshness, fresh_base, index_fields, patience
from mcp_server.cli.terminal.commands import as_commands
from mcp_server.cli.terminal.console import stdout_console, tidy
from mcp_server.cli.terminal.options import WronglyAsked, integer
from mcp_server.cli.terminal.output import print_json
from mcp_server.presenters.index_state import IndexState


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add this verb's arguments."""
    parser.add_argument("query", nargs="+", metavar="QUESTION", help="the question or key words")
    parser.add_argument("--path", default="", help="only in this directory or page")
    parser.add_argument("--limit", type=integer(1, 50), metavar="N", help="maximum number of hits (default: up to 8)")
    parser.add_argument(
        "--mode",
        choices=("auto", "navigation", "discovery"),
        default="auto",
        help="navigation: pages and folders first; discovery: passages (default: auto)",
    )
    parser.add_argument("--explain", action="store_true", help="say why the first hits rank where they do")
    add_freshness(parser)


def run(args: argparse.Namespace, settings: Settings) -> int:
    """Print the hits, best first; exit code 1 if there are none."""
    if not " ".join(args.query).strip():
        raise WronglyAsked("the question is empty: enter what to look for")
    answer, state = anyio.run(_search, args, settings)
    if settings.json:
        told = {name: value for name, value in asdict(answer).items() if value is not None or name != "explanation"}
        print_json(told | {"scent": _verdict(answer, state)} | index_fields(state))
    else:
        _show(answer, _verdict(answer, state))
    return 0 if answer.hits else 1


async def _search(args: argparse.Namespace, settings: Settings) -> tuple[SearchAnswer, IndexState]:
    async with fresh_base(settings, wait_s=patience(args), by_words=True) as (base, state):
        answer = await base.finder.search(
            " ".join(args.query), path=args.path, mode=args.mode, limit=args.limit, explain=args.explain
        )
        return answer, state


def _verdict(answer: SearchAnswer, state: IndexState) -> dict[str, str]:
    """Return the scent. While the index lacks pages there is none: those pages may say more, or the opposite."""
    if state.complete and not state.pages:
        return {
            "level": "lost",
            "reason": "the folder holds no Markdown page",
            "next": "choose another folder with --kb",
        }
    if state.complete:
        return asdict(answer.scent)
    found = "the best page may be missing" if answer.hits else "nothing matches in the pages that are indexed"
    return {"level": "unknown", "reason": f"{found}; {state.lacks}", "next": state.finish}


def _reasons(explained: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Yield the lines that explain a hit; none if it is not explained."""
    for one in explained:
        yield f"rank score {one['rank_score']:.3f} = {_sum(one['parts'])}"
        for word in one.get("words", ()):
            form = f" (found as {word['found']})" if "found" in word else ""
            added = {part: value for part, value in word.items() if part not in ("word", "found")}
            yield f"  {word['word']}{form}: {_sum(added) or 'in the passage'}"
        for word in one.get("learnt", ()):
            yield f"  shared word {word['word']}: {word.get('added', 0.0):.3f}, from {', '.join(word.get('learnt_from', ()))}"
        if one.get("pairs"):
            yield f"  neighbours: {', '.join(one['pairs'])}"
        if "cosine" in one:
            yield f"  meaning: cosine {one['cosine']:.3f}"
        yield one["text"]
        yield ""


def _sum(parts: Mapping[str, float]) -> str:
    return " + ".join(f"{name} {value:.3f}" for name, value in parts.items())


def _reading(explained: Mapping[str, Any]) -> Iterator[str]:
    """Yield the lines that say how the question was interpreted and searched."""
    if note := explained.get("note"):
        yield note
    if question := explained.get("question"):
        words, languages = (", ".join(question.get(name, ())) or "none" for name in ("words", "languages"))
        yield f"searched words: {words}; languages: {languages}"
        for word, near in question.get("corrections", {}).items():
            yield f"{word} may be a misspelt {' or '.join(near)}"
        if completions := question.get("completions"):
            yield f"the last word may be the beginning of {', '.join(completions)}"
        yield f"{'; '.join(question['engines'])}; filters: {question['filters']}; weights: {question['weights']}"


def _show(answer: SearchAnswer, verdict: Mapping[str, str]) -> None:
    console = stdout_console()
    if answer.route.mode == "navigation":
        for page in answer.pages:
            name = (
                f"[bold blue]{escape(page.path)}/[/]" if page.kind == "directory" else f"[bold]{escape(page.path)}[/]"
            )
            console.print(f"{name}  [dim]{escape(page.line)}[/]")
        console.print()
    explained: Any = answer.explanation or {}
    for number, hit in enumerate(answer.hits):
        where = escape(hit.path) + (f" [dim]>[/] {escape(hit.section)}" if hit.section else "")
        console.print(f"[bold]{where}[/] [dim]:{hit.line_start}  {hit.score:.2f}[/]")
        console.print(Padding(escape(tidy(hit.snippet, 320)), (0, 0, 1, 2)))
        for line in _reasons(explained.get("hits", [])[number : number + 1]):
            console.print(Padding(f"[dim]{escape(tidy(line, 400))}[/]", (0, 0, 0, 2)))
    for line in _reading(explained):
        console.print(f"[dim]{escape(tidy(line, 400))}[/]")
    then = escape(as_commands(verdict["next"]))
    # The terminal wraps the line itself, so that the command can be copied.
    console.print(f"[dim]{verdict['level']}: {escape(verdict['reason'])}. Next: {then}[/]", soft_wrap=True)
    if answer.note:
        console.print(f"[yellow]{escape(answer.note)}[/]")
