"""Reads the file of the official memory server: one line of JSON for each entity and for each relation.

Source: github.com/modelcontextprotocol/servers, src/memory. Entities have `name`, `entityType` and `observations`; relations have
`from`, `to` and `relationType`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from knowledge.pages.vault import LARGEST_BYTES
from mcp_server.imports.model import BadSource, Incoming, IncomingPage, LostLink, SkippedItem
from mcp_server.imports.names.page_names import FreePaths, usable_name
from mcp_server.imports.readers.written_page import link_to, list_item, one_line, page_text

KIND = "memory-jsonl"
LARGEST_MEMORY = 8 * LARGEST_BYTES


@dataclass(slots=True)
class _Entity:
    """An entity with everything that the file says about it; the same line twice counts once."""

    kind: str
    observations: dict[str, None] = field(default_factory=dict)
    relations: dict[tuple[str, str], None] = field(default_factory=dict)


def read_memory(place: Path, name: str) -> Incoming:
    """Return one page for each entity: its observations as a list, and its relations as links.

    Raises:
        BadSource: the file has no entity.
    """
    skipped: list[SkippedItem] = []
    entities = _entities(_lines(place), skipped)
    if not entities:
        raise BadSource(f"{place} has no line with an entity; it is not a file of the memory server")
    free = FreePaths()
    paths = {entity: free.free(f"{usable_name(entity)}.md", f"{one_line(entity)}.md") for entity in entities}
    lost: list[LostLink] = []
    pages = [_page(name, entity, found, paths, lost) for entity, found in entities.items()]
    return Incoming(KIND, name, pages, (), skipped, lost=lost, renamed=free.renamed)


def _lines(place: Path) -> Sequence[str]:
    try:
        if place.stat().st_size > LARGEST_MEMORY:
            raise BadSource(f"{place} has more than {LARGEST_MEMORY >> 20} MiB")
        return place.read_text(encoding="utf-8-sig").split("\n")
    except OSError as error:
        raise BadSource(f"{place} can't be read: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise BadSource(f"{place} is not UTF-8 text") from error


def _entities(lines: Sequence[str], skipped: list[SkippedItem]) -> Mapping[str, _Entity]:
    entities: dict[str, _Entity] = {}
    relations: list[tuple[int, Mapping[str, Any]]] = []
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            value = json.loads(line)
        except (ValueError, RecursionError):
            value = None
        if not isinstance(value, dict) or value.get("type") not in ("entity", "relation"):
            skipped.append(SkippedItem(f"line {number}", "it is neither an entity nor a relation"))
        elif value["type"] == "relation":
            relations.append((number, value))
        elif not isinstance(value.get("name"), str) or not one_line(value["name"]):
            skipped.append(SkippedItem(f"line {number}", "the entity has no name"))
        else:
            entity = entities.setdefault(value["name"], _Entity(str(value.get("entityType") or "")))
            told = value.get("observations")
            entity.observations.update(dict.fromkeys(str(one) for one in told if one) if isinstance(told, list) else {})
    for number, value in relations:
        source = entities.get(str(value.get("from")))
        if source is None:
            skipped.append(
                SkippedItem(f"line {number}", f"the relation begins at {value.get('from')!r}, which is no entity")
            )
        else:
            source.relations[str(value.get("relationType") or "relates to"), str(value.get("to"))] = None
    return entities


def _page(name: str, entity: str, found: _Entity, paths: Mapping[str, str], lost: list[LostLink]) -> IncomingPage:
    origin = f"{KIND}:{name}/{one_line(entity)}"
    relations = []
    for relation, target in found.relations:
        if target in paths:
            relations.append(list_item(f"{one_line(relation)} {link_to(paths[target], target, beside=True)}"))
        else:
            relations.append(list_item(f"{one_line(relation)} {one_line(target)}"))
            lost.append(LostLink(paths[entity], one_line(target)))
    parts = [
        "\n".join(list_item(one) for one in found.observations),
        "## Relations\n\n" + "\n".join(relations) if relations else "",
    ]
    front = {"title": one_line(entity), "kind": one_line(found.kind).lower(), "source": origin}
    return IncomingPage(origin, paths[entity], page_text(front, entity, parts))
