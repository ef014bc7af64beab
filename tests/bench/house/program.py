"""`python -m tests.bench house`: print the figures of the code's layout, and write them as JSON."""

from __future__ import annotations

import argparse
import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import anyio

from tests.bench.house import figures
from tests.bench.house.imports import Import, against_the_layers, circles, imports, statements
from tests.bench.house.source import LAYERS, Source, read

ROOT = Path(__file__).parents[3]


def add(programs: Any) -> None:
    """Add the program and its options to those of `python -m tests.bench`."""
    parser = programs.add_parser("house", help="measure how the code is laid out", description=__doc__)
    parser.add_argument("--root", type=Path, default=ROOT, help="the folder of the packages (default: this project)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write all figures and lists to FILE")
    parser.add_argument("--no-walks", action="store_true", help="read the code only, run nothing")
    parser.set_defaults(run=run)


def run(given: argparse.Namespace) -> int:
    """Measure, print and return 0."""
    found = measure(given.root)
    if not given.no_walks:
        found["walks"] = traced()
    if given.json:
        given.json.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    print("\n".join(report(found)))
    return 0


def measure(root: Path) -> dict[str, Any]:
    """Return the figures that are read from the code."""
    product, tests = read(root, LAYERS), read(root, ["tests"])
    classes = list(figures.top_level_classes(product))
    top, every = figures.used_once(product)
    return {
        "rooms": [_room(room) for room in figures.rooms(product)],
        "product": _room(figures.room("product", product)),
        "tests": _room(figures.room("tests", tests)),
        "test_rooms": [_room(room) for room in figures.rooms(tests)],
        "beside_folders": figures.beside_folders(product),
        "functions": {
            "whole": figures.spread(figures.whole_lengths(product)),
            "body": figures.spread(figures.body_lengths(product)),
            "whole_in_tests": figures.spread(figures.whole_lengths(tests)),
            "used_once_top": top,
            "used_once": every,
        },
        "classes": {
            "count": len(classes),
            "public": sum(not name.startswith("_") for name in classes),
            "shared": figures.shared_names(product),
        },
        "gerunds": figures.gerunds(product),
        "imports": _imports(product),
    }


def _room(room: figures.Room) -> dict[str, Any]:
    return {**asdict(room), "comment_share": room.comment_share}


def _imports(product: Sequence[Source]) -> dict[str, Any]:
    written = Counter(place for source in product for _, place in statements(source))
    found = imports(product)
    return {
        "statements": {place: written[place] for place in ("module", "local", "types")},
        "ours": dict(Counter(one.place for one in found)),
        "circles": circles(found),
        "circles_at_start": circles(found, where=lambda one: one.place == "module"),
        "circles_without_types": circles(found, where=lambda one: one.place != "types"),
        "against_layers": [_written(one) for one in against_the_layers(found)],
        "edges": [[one.source, one.target, one.place, one.line] for one in found],
    }


def _written(one: Import) -> str:
    return f"{one.source}:{one.line} imports {one.target} ({one.place})"


def traced() -> list[dict[str, Any]]:
    """Return the figures of the walks, each with its route from file to file."""
    from tests.bench.house.walks import walks  # it imports the whole server

    return [
        {"name": walk.name, **walk.figures, "route": walk.trace.route, "text_route": walk.trace.text_route}
        for walk in anyio.run(walks)
    ]


def report(found: Mapping[str, Any]) -> list[str]:
    """Return the lines that are printed."""
    classes, functions, written = found["classes"], found["functions"], found["imports"]
    shared = classes["shared"]
    public = sum(not name.startswith("_") for name in shared)
    lines = ["Rooms"]
    lines += _table([*found["rooms"], found["product"], *found["test_rooms"], found["tests"]])
    lines += ["", "Files beside folders"]
    lines += [f"  {folder}: {count}" for folder, count in found["beside_folders"].items()]
    lines += ["", "Functions"]
    lines += [
        f"  {title}: {functions[key]['count']:,}, median {functions[key]['median']:g}, p90 {functions[key]['p90']:g}"
        for key, title in (
            ("whole", "whole, lines"),
            ("body", "body, lines of code"),
            ("whole_in_tests", "whole, lines, in tests"),
        )
    ]
    lines += [
        (
            f"  definitions used once (estimated): {functions['used_once_top']:,} at the top of a file, "
            f"{functions['used_once']:,} with methods"
        ),
        "",
        "Names",
        f"  top-level classes: {classes['count']:,} ({classes['public']:,} public)",
        f"  class names used more than once: {len(shared)} ({public} public)",
        f"    {', '.join(f'{name} {times}' for name, times in shared.items())}",
        f"  files named by a gerund: {len(found['gerunds'])}",
        *(f"    {path}" for path in found["gerunds"]),
        "",
        "Imports",
        (
            f"  statements: {written['statements']['module']:,} at the top of a file, {written['statements']['local']} in functions, "
            f"{written['statements']['types']} for types only"
        ),
        *_circles("circles, counting local and type-only imports", written["circles"], listed=True),
        *_circles("circles without type-only imports", written["circles_without_types"], listed=False),
        *_circles("circles at start-up (module level only)", written["circles_at_start"], listed=True),
        f"  against the layers: {len(written['against_layers'])}",
        *(f"    {one}" for one in written["against_layers"]),
    ]
    if "walks" in found:
        lines += ["", "Walks"]
        lines += [line for walk in found["walks"] for line in _walk(walk)]
    return lines


def _table(rooms: Iterable[Mapping[str, Any]]) -> list[str]:
    head = f"  {'room':<26}{'files':>7}{'code':>8}{'comments':>10}{'beside':>8}{'share':>7}{'docstrings':>12}{'under 60':>10}"
    return [
        head,
        *(
            f"  {one['name']:<26}{one['files']:>7}{one['code']:>8,}{one['comments']:>10}{one['beside']:>8}"
            f"{one['comment_share']:>6}%{one['docstrings']:>12,}{one['small']:>10}"
            for one in rooms
        ),
    ]


def _circles(title: str, found: Sequence[Sequence[str]], *, listed: bool) -> list[str]:
    sizes = ", ".join(str(len(circle)) for circle in found)
    lines = [f"  {title}: {len(found)}" + (f" ({sizes} files)" if found else "")]
    for number, circle in enumerate(found if listed else (), 1):
        lines += [f"    {number}. {len(circle)} files", *(f"      {path}" for path in circle)]
    return lines


def _walk(walk: Mapping[str, Any]) -> list[str]:
    return [
        f"  {walk['name']}",
        f"    handed the text: {walk['text_files']} files, {walk['text_changes']} changes of file",
        f"    entered at all: {walk['files']} files, {walk['changes']} changes of file, {walk['functions']} functions",
        (
            f"    page opened to read: {walk['page_opened']}; SQL on the state: {walk['sql_reads']} reads, "
            f"{walk['sql_writes']} writes; trust record read: {walk['trust_reads']}"
        ),
    ]
