"""Canvases: boards of cards, stored as JSON in `.canvas` files. They are read, and follow moves of pages. Pure.

Source: JSON Canvas 1.0.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from knowledge.pages.document import parse, shortened
from knowledge.pages.paths import PageLink

SUFFIX = ".canvas"
LONGEST_CANVAS = 4 * 1024 * 1024
"""Bytes of the largest canvas that is read."""
LONGEST_NAME = 60
_STRING = re.compile(r'"(?:[^"\\]|\\.)*+"', re.DOTALL)


@dataclass(frozen=True, slots=True)
class CanvasCard:
    """One card: `content` is its Markdown, the path of its file, its address, or the label of a group."""

    kind: str
    content: str
    subpath: str = ""

    @property
    def markdown(self) -> str:
        """The card as Markdown; a file is an embed."""
        if self.kind == "file":
            return f"![[{self.content}{self.subpath}]]"
        if self.kind == "link":
            return f"<{self.content}>"
        return f"## {self.content}" if self.kind == "group" else self.content

    @property
    def name(self) -> str:
        """The card in a few words."""
        first = next(iter(self.content.strip().split("\n")), "")
        return shortened(first.lstrip("# "), LONGEST_NAME) or self.kind


@dataclass(frozen=True)
class Canvas:
    """The cards of a canvas, from top to bottom, and its arrows: from, to, label."""

    cards: tuple[CanvasCard, ...]
    arrows: tuple[tuple[str, str, str], ...]

    @cached_property
    def files(self) -> tuple[str, ...]:
        """The paths that its cards show, from the root."""
        return tuple(dict.fromkeys(card.content for card in self.cards if card.kind == "file" and card.content))

    @property
    def texts(self) -> tuple[str, ...]:
        """The Markdown of its text cards."""
        return tuple(card.content for card in self.cards if card.kind == "text")

    @cached_property
    def linking(self) -> str:
        """The text cards that have links, as one text."""
        return "\n\n".join(text for text in self.texts if "[" in text)

    @cached_property
    def links(self) -> Sequence[PageLink]:
        """The links in its text cards that may lead to pages."""
        return parse("", self.linking.encode()).page_links if self.linking else ()

    @property
    def markdown(self) -> str:
        """The canvas as Markdown: its cards, then its arrows."""
        arrows = [f"- {start} → {end}{f': {label}' if label else ''}" for start, end, label in self.arrows]
        cards = [card.markdown for card in self.cards if card.markdown.strip()]
        return "\n\n".join([*cards, *(["## Arrows\n\n" + "\n".join(arrows)] if arrows else [])])


def is_canvas(path: str) -> bool:
    """Return whether a file of that name is a canvas."""
    return path.lower().endswith(SUFFIX)


def read_canvas(raw: bytes) -> Canvas | None:
    """Return the canvas, None if the bytes are not one. An empty file is an empty canvas, as Obsidian makes it."""
    if not raw.strip():
        return Canvas((), ())
    found = _parsed(raw.decode("utf-8", "replace"))
    if found is None:
        return None
    nodes = [node for node in _objects(found, "nodes") if isinstance(node.get("id"), str)]
    nodes.sort(key=lambda node: (_number(node.get("y")), _number(node.get("x"))))
    cards = {node["id"]: _card(node) for node in nodes}
    arrows = [
        (cards[start].name, cards[end].name, shortened(_text(edge.get("label")), LONGEST_NAME))
        for edge in _objects(found, "edges")
        if (start := _text(edge.get("fromNode"))) in cards and (end := _text(edge.get("toNode"))) in cards
    ]
    return Canvas(tuple(cards.values()), tuple(arrows))


def moved_in_canvas(text: str, moves: Mapping[str, str], relink: Callable[[str], str]) -> str:
    """Return the text of a canvas with the new paths of its files, and `relink` applied to its text cards.

    Every other character stays. A text that is no canvas, or whose JSON is written so that the places can't be found, stays
    unchanged.
    """
    before = _parsed(text)
    if before is None:
        return text
    for node in _objects(before, "nodes"):
        if node.get("type") == "file" and isinstance(node.get("file"), str):
            node["file"] = moves.get(node["file"], node["file"])
        elif node.get("type") == "text" and isinstance(node.get("text"), str):
            node["text"] = relink(node["text"])
    parts, at, key, key_end = [], 0, "", 0
    for found in _STRING.finditer(text):
        is_value = text[key_end : found.start()].strip() == ":"
        if is_value and key in ('"file"', '"text"'):
            value = json.loads(found[0], strict=False)
            new = moves.get(value, value) if key == '"file"' else relink(value)
            if new != value:
                parts += [text[at : found.start()], json.dumps(new, ensure_ascii=False)]
                at = found.end()
        key, key_end = ("" if is_value else found[0]), found.end()
    after = "".join([*parts, text[at:]])
    return after if parts and _parsed(after) == before else text


def _parsed(text: str) -> dict[str, Any] | None:
    try:
        found = json.loads(text, strict=False)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) and isinstance(found.get("nodes", []), list) else None


def _objects(found: Mapping[str, Any], name: str) -> list[dict[str, Any]]:
    listed = found.get(name)
    return [item for item in listed if isinstance(item, dict)] if isinstance(listed, list) else []


def _card(node: Mapping[str, Any]) -> CanvasCard:
    kind = _text(node.get("type"))
    content = {"text": "text", "file": "file", "link": "url", "group": "label"}.get(kind, "")
    subpath = _text(node.get("subpath")) if kind == "file" else ""
    return CanvasCard(kind, _text(node.get(content)), subpath if subpath.startswith("#") else "")


def _text(value: object) -> str:
    # A lone surrogate can't be stored or sent.
    return value.encode("utf-8", "replace").decode() if isinstance(value, str) else ""


def _number(value: object) -> float:
    return float(value) if isinstance(value, (int, float)) and abs(value) < 1e15 else 0.0
