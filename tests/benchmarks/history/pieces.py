"""Pieces cut out of real pages and sent back.

Does each return to its place or lead to a question, and does anything else change?

All pieces are cut out first, so that the index doesn't know them. Each is then sent twice as a dry run: to its page,
and to its topmost folder.
"""

from __future__ import annotations

import random
import re
import sys
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import anyio

from knowledge.merge.document.units import cut, split_lines, units
from knowledge.merge.evidence.place.placement import sections_of
from knowledge.merge.model import section_name
from mcp_server.app.settings.settings import Settings
from tests.benchmarks.history.repository import Repository
from tests.support.hosts.writers import Refused, Writer, writing

Kind = Literal["paragraph", "item", "section"]
KINDS: tuple[Kind, ...] = ("paragraph", "item", "section")
SHORTEST, LONGEST = 60, 2_500
"""Characters of a piece."""
FEWEST_BESIDE = 2
"""Other paragraphs and items that the section of a paragraph or an item must have."""
SHORTEST_PAGE, SHORTEST_OF_ANY = 1_000, 200
"""Characters of a page that a piece is cut out of, and of one if texts are cut out anywhere."""
LONGEST_PAGE = 60_000


@dataclass(frozen=True, slots=True)
class CutPiece:
    """A piece of a page, the page without it, and the section that it was in (for a section, the one above it)."""

    kind: Kind
    path: str
    section: str
    text: str
    rest: str


@dataclass(frozen=True, slots=True)
class SentBack:
    """The answer to a piece sent to `to`: written there, a question, or nothing written."""

    piece: CutPiece
    to: Literal["page", "folder"]
    status: str
    path: str
    sections: tuple[str, ...]
    offered: tuple[tuple[str, str], ...]
    removed: tuple[str, ...]
    answer: dict[str, Any]
    page_suffices: bool
    """Whether the page alone, without a section, leads to the right place: tried with a call that names the page."""

    @property
    def written(self) -> bool:
        """Whether the call would write."""
        return bool(self.answer.get("diff"))

    @property
    def right(self) -> bool:
        """Whether all of it would be written in its old place."""
        return self.path == self.piece.path and bool(self.sections) and set(self.sections) == {self.piece.section}

    @property
    def offers_right(self) -> bool:
        """Whether its old place is the one written to, or one of the three in the answer."""
        offered = self.offered[:3]
        return (
            self.right
            or (self.piece.path, self.piece.section) in offered
            or (self.page_suffices and (self.piece.path, "") in offered)
        )


def cut_pieces(
    repository: Repository, count: int, seed: int, *, anywhere: bool = False
) -> tuple[dict[str, str], list[CutPiece]]:
    """Return all pages, those that lost a piece without it, and the pieces, a third of each kind.

    With `anywhere`, they are paragraphs and items, cut also out of short pages and out of sections with one other text.
    """
    kinds = KINDS[:2] if anywhere else KINDS
    chance = random.Random(seed)
    pages = {
        path: text
        for path in repository.pages()
        # Hidden folders are no part of a knowledge base.
        if "/" in path
        and not path.startswith(".")
        and "/." not in path
        and (text := repository.text("HEAD", path))
        and text.strip()
    }
    paths = sorted(pages)
    chance.shuffle(paths)
    found: list[CutPiece] = []
    for path in paths:
        if len(found) == count:
            break
        piece = _piece_of(path, pages[path], kinds[len(found) % len(kinds)], chance, anywhere=anywhere)
        if piece is not None:
            found.append(piece)
            pages[path] = piece.rest
    return pages, found


def may_lose_piece(text: str) -> bool:
    """Return whether a page is long enough for a piece to be cut out of it."""
    return SHORTEST_PAGE <= len(text) <= LONGEST_PAGE and len(sections_of(cut(text))) >= 4


def _piece_of(path: str, text: str, kind: Kind, chance: random.Random, *, anywhere: bool) -> CutPiece | None:
    page = cut(text)
    sections = sections_of(page)
    if not (SHORTEST_OF_ANY <= len(text) <= LONGEST_PAGE if anywhere else may_lose_piece(text)):
        return None
    lines = split_lines(text)
    candidates: list[tuple[int, int, str]] = []
    if kind == "section":
        for section in sections[1:]:
            if section.heading is None or section.level < 2 or len(section.path) < 2:
                continue
            start = page.pieces[section.heading].line - 1
            end = page.pieces[section.last].line - 1 if section.last < len(page.pieces) else len(lines)
            candidates.append((start, end, section_name(section.path[:-1])))
    else:
        found = units(page)
        fewest = 1 if anywhere else FEWEST_BESIDE
        siblings = Counter(unit.section for unit in found if unit.kind in ("paragraph", "item"))
        for unit in found:
            if unit.kind == kind and siblings[unit.section] > fewest and len(unit.text.split()) >= 8 and unit.section:
                start = unit.line - 1
                candidates.append(
                    (start, start + len(split_lines(unit.text.rstrip("\r\n"))), section_name(unit.section))
                )
    chance.shuffle(candidates)
    for start, end, name in candidates:
        piece = "".join(lines[start:end])
        if SHORTEST <= len(piece.strip()) <= LONGEST and "![" not in piece and "<" not in piece:
            rest = "".join(lines[:start] + lines[end:])
            return CutPiece(kind, path, name, piece.strip("\r\n") + "\n", rest)
    return None


@asynccontextmanager
async def served(pages: dict[str, str], folder: Path) -> AsyncIterator[Writer]:
    """Serve the indexed pages to a host that may write."""
    for path, text in pages.items():
        target = folder / "kb" / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(text.encode("utf-8"))
    settings = Settings(kb=folder / "kb", state_dir=folder / "state", open_browser=False)
    command = [
        sys.executable,
        "-m",
        "mcp_server",
        "index",
        "--kb",
        str(settings.kb),
        "--state-dir",
        str(settings.state_dir),
    ]
    await anyio.run_process(command)
    async with writing(settings) as writer:
        yield writer


async def send_back(writer: Writer, pieces: Sequence[CutPiece]) -> AsyncIterator[SentBack]:
    """Send each piece to its page and to its topmost folder, without a base and without a section."""
    for piece in pieces:
        page_suffices = False
        for to, path in (("page", piece.path), ("folder", piece.path.split("/")[0])):
            try:
                answer = await writer.call("kb_merge", path=path, content=piece.text, dry_run=True)
            except Refused as refusal:
                answer = {"status": "refused", "why": str(refusal)}
            added, gone = _changed_words(answer.get("diff") or "")
            written = [one for one in answer.get("blocks") or () if one["verdict"] in ("integrate", "update")]
            sent = SentBack(
                piece,
                "page" if to == "page" else "folder",
                answer["status"],
                answer.get("path") or "",
                tuple(_section_of(one, piece) for one in written),
                tuple((one["path"], one["section"] or "") for one in answer.get("places") or ()),
                tuple((gone - added).elements()),
                answer,
                page_suffices,
            )
            page_suffices = to == "page" and sent.right
            yield sent


def _section_of(block: dict[str, Any], piece: CutPiece) -> str:
    section = str(block["section"] or "")
    # A written section is named itself; its former place is the section above.
    if piece.kind == "section":
        parts = section.split(" > ")
        first = next(one for one in cut(piece.text).pieces if one.kind != "blank")
        if (name := first.section[-1]) in parts:
            return " > ".join(parts[: parts.index(name)])
    return section


def _changed_words(diff: str) -> tuple[Counter[str], Counter[str]]:
    sides: tuple[Counter[str], Counter[str]] = (Counter(), Counter())
    for line in diff.splitlines():
        if line[:1] in "+-" and not line.startswith(("+++", "---")):
            sides[line[0] == "-"].update(re.findall(r"\w+", line[1:]))
    return sides


def table(name: str, answers: Sequence[SentBack]) -> str:
    """Return a row for each target and kind."""
    rows = []
    for to in ("page", "folder"):
        for kind in (*KINDS, "all"):
            of = [one for one in answers if one.to == to and kind in (one.piece.kind, "all")]
            written = [one for one in of if one.written]
            right = sum(one.right for one in written)
            offered = sum(one.offers_right for one in of)
            words = sum(bool(one.removed) for one in of)
            cells = (
                len(of),
                len(written),
                f"{100 * right / max(1, len(written)):.0f} %",
                f"{100 * offered / max(1, len(of)):.0f} %",
                words,
            )
            rows.append(f"| {name} | {to} | {kind} | {' | '.join(map(str, cells))} |")
    return "\n".join(rows)


HEAD = (
    "| repository | sent to | piece | sent | written | of these in the right place | "
    "right place written or offered | words removed |\n"
    "|---|---|---|---:|---:|---:|---:|---:|"
)
