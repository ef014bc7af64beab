"""Measures merging on real documentation repositories, given as bare Git directories that you fetched yourself.

    python -m tests.benchmarks.history merges REPOSITORY.git... [--most 500] [--write FOLDER]

`--write` puts everything that should be read by eye into a folder. Nothing of a repository is kept in ours.
"""

from __future__ import annotations

import argparse
import difflib
import itertools
import json
import tempfile
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import anyio

from knowledge.merge.evidence.place.parent_signs import ParentSigns
from knowledge.merge.evidence.place.place_signs import PlaceSigns
from tests.benchmarks.history import edits, facts, judged, merges, pieces, place_fit
from tests.benchmarks.history.repository import Repository

SHOWN = 10
"""Edits written differently from what was sent, by name."""


def measure_merges(given: argparse.Namespace) -> None:
    """Print a table of the merges of each repository."""
    print(merges.HEAD)
    for git_dir in given.repositories:
        with Repository(git_dir) as repository:
            found = merges.score(itertools.islice(repository.merges(), given.most))
        print(found.row(git_dir.parent.name), flush=True)
        if given.write:
            folder = given.write / git_dir.parent.name
            folder.mkdir(parents=True, exist_ok=True)
            for number, (one, ours) in enumerate(found.differs):
                diff = difflib.unified_diff(
                    one.result.splitlines(), ours.splitlines(), "people", "ours", lineterm="", n=2
                )
                sides = [
                    "\n".join(
                        difflib.unified_diff(one.base.splitlines(), side.splitlines(), "base", name, lineterm="", n=1)
                    )
                    for side, name in ((one.ours, "ours"), (one.theirs, "theirs"))
                ]
                text = "\n".join([f"{one.commit} {one.path}", *diff, "", *sides])
                (folder / f"{number:03}.diff").write_text(text, encoding="utf-8")


def measure_pieces(given: argparse.Namespace) -> None:
    """Print where pieces of each repository's pages were put."""
    anyio.run(_pieces, given)


async def _pieces(given: argparse.Namespace) -> None:
    print(pieces.HEAD)
    for git_dir in given.repositories:
        with Repository(git_dir) as repository, tempfile.TemporaryDirectory() as folder:
            pages, found = pieces.cut_pieces(repository, given.count, given.seed)
            async with pieces.served(pages, Path(folder)) as writer:
                answers = [one async for one in pieces.send_back(writer, found)]
        print(pieces.table(git_dir.parent.name, answers), flush=True)
        if given.write:
            given.write.mkdir(parents=True, exist_ok=True)
            told = [
                {"piece": asdict(one.piece) | {"rest": ""}, "to": one.to, "right": one.right, "answer": one.answer}
                for one in answers
            ]
            (given.write / f"{git_dir.parent.name}.json").write_text(json.dumps(told, indent=1), encoding="utf-8")


def fit_places(given: argparse.Namespace) -> None:
    """Fit the trees that score the sections of a directory, and print what they do for repositories left out of the fit."""
    anyio.run(_places, given)


async def _places(given: argparse.Namespace) -> None:
    texts: dict[str, Sequence[place_fit.SentText]] = {}
    sent, names = (
        (place_fit.sent_sections, ParentSigns._fields) if given.sections else (place_fit.sent_texts, PlaceSigns._fields)
    )
    for git_dir in given.repositories:
        with Repository(git_dir) as repository, tempfile.TemporaryDirectory() as folder:
            pages, found = pieces.cut_pieces(repository, given.count, given.seed, anywhere=given.anywhere)
            async with pieces.served(pages, Path(folder)) as writer:
                texts[git_dir.parent.name] = await sent(writer, pages, found)
    print(place_fit.left_out(texts))
    if given.write:
        trees = place_fit.fitted([one for of in texts.values() for one in of])
        place_fit.write_trees(trees, given.write, names)


def measure_edits(given: argparse.Namespace) -> None:
    """Print how many real edits are written byte for byte."""
    print(edits.HEAD)
    for git_dir in given.repositories:
        with Repository(git_dir) as repository:
            found = anyio.run(edits.score, repository.edits(), given.most)
        print(found.row(git_dir.parent.name), flush=True)
        for edit, why in found.others[:SHOWN]:
            print(f"  {edit.commit[:10]} {edit.path}: {why}")


def measure_facts(given: argparse.Namespace) -> None:
    """Print the outcomes of changed facts, rewordings and new facts."""
    print(facts.HEAD)
    for git_dir in given.repositories:
        with Repository(git_dir) as repository:
            changes = facts.changes_of(repository.edits(), given.most)
            found = [one for one in map(facts.answered, changes) if one is not None]
        print(facts.table(git_dir.parent.name, found), flush=True)
        if given.write:
            given.write.mkdir(parents=True, exist_ok=True)
            lines = [
                f"{one.change.kind} {one.outcome} {one.change.path}\n- {one.change.old.strip()}\n+ {one.change.new.strip()}\n"
                + "".join(f"  {verdict.reason}\n" for verdict in one.plan.verdicts)
                for one in found
            ]
            (given.write / f"{git_dir.parent.name}-facts.txt").write_text("\n".join(lines), encoding="utf-8")


def measure_judged(given: argparse.Namespace) -> None:
    """Write the questions of merges to a file; with judgements of them, print what becomes of the changes."""
    changes: list[facts.StatementChange] = []
    for git_dir in given.repositories:
        with Repository(git_dir) as repository:
            changes += judged.sample(
                repository, {"fact": given.facts, "rewording": given.rewordings, "new": given.new, "more": 0}
            )
    judgements = judged.read_judgements(given.judgements) if given.judgements else {}
    with tempfile.TemporaryDirectory() as folder:
        found = anyio.run(judged.exchanged, changes, judgements, Path(folder))
    if given.questions:
        print(f"{judged.write_questions(found, given.questions, given.seed)} questions in {given.questions}")
    print(judged.HEAD, judged.table(found), sep="\n")
    if given.write:
        told = [asdict(one) | {"outcome": one.outcome} for one in found]
        given.write.write_text(json.dumps(told, indent=1), encoding="utf-8")


def main() -> None:
    """Run the measurement that is named first."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.history", description=__doc__.splitlines()[0])
    verbs = parser.add_subparsers(required=True, metavar="MEASUREMENT")
    verb = verbs.add_parser("merges", help="real merges, against git and against people's results")
    verb.add_argument("repositories", nargs="+", type=Path, metavar="REPOSITORY.git")
    verb.add_argument("--most", type=int, default=500, help="merged pages of each repository (default 500)")
    verb.add_argument(
        "--write", type=Path, metavar="FOLDER", help="where to put clean merges that differ from people's"
    )
    verb.set_defaults(run=measure_merges)
    verb = verbs.add_parser("pieces", help="pieces cut out of pages and sent back")
    verb.add_argument("repositories", nargs="+", type=Path, metavar="REPOSITORY.git")
    verb.add_argument("--count", type=int, default=150, help="pieces of each repository (default 150)")
    verb.add_argument("--seed", type=int, default=1)
    verb.add_argument("--write", type=Path, metavar="FOLDER", help="where to put every answer")
    verb.set_defaults(run=measure_pieces)
    verb = verbs.add_parser("places", help="the trees that score the sections of a directory, fitted on such pieces")
    verb.add_argument("repositories", nargs="+", type=Path, metavar="REPOSITORY.git")
    verb.add_argument("--count", type=int, default=150, help="pieces of each repository (default 150)")
    verb.add_argument("--seed", type=int, default=1)
    verb.add_argument("--anywhere", action="store_true", help="paragraphs and items of short pages and sections, too")
    verb.add_argument(
        "--sections", action="store_true", help="pieces that begin with a heading, instead of paragraphs and items"
    )
    verb.add_argument("--write", type=Path, metavar="FILE", help="where to put the trees")
    verb.set_defaults(run=fit_places)
    for name, run, what in (
        ("edits", measure_edits, "real edits of whole pages, sent with their base"),
        ("facts", measure_facts, "changed facts, rewordings and new facts, sent as evidence"),
    ):
        verb = verbs.add_parser(name, help=what)
        verb.add_argument("repositories", nargs="+", type=Path, metavar="REPOSITORY.git")
        verb.add_argument("--most", type=int, default=150, help="of each repository (default 150)")
        verb.add_argument("--write", type=Path, metavar="FOLDER", help="where to put every answer")
        verb.set_defaults(run=run)
    verb = verbs.add_parser("judged", help="the questions of merges, answered by a host")
    verb.add_argument("repositories", nargs="+", type=Path, metavar="REPOSITORY.git")
    for kind, count in (("facts", 38), ("rewordings", 25), ("new", 25)):
        verb.add_argument(f"--{kind}", type=int, default=count, help=f"of each repository (default {count})")
    verb.add_argument(
        "--questions", type=Path, metavar="FILE", help="where to write the pairs to be judged, in random order"
    )
    verb.add_argument("--judgements", type=Path, metavar="FILE", help="the same pairs, each with its `answer`")
    verb.add_argument("--seed", type=int, default=1)
    verb.add_argument("--write", type=Path, metavar="FILE", help="where to put every answer")
    verb.set_defaults(run=measure_judged)
    given = parser.parse_args()
    given.run(given)


if __name__ == "__main__":
    main()
