"""An independent reading of a vault, as Obsidian reads it. Uses nothing of the product.

Rules, from Obsidian's handbook and from what the program does: a link's path is compared without case; without a suffix it names a
note, or a file of exactly that name. `./` and `../` are relative to the page, `/` and a path with folders are exact from the root, or
the end of a path. Of several files those in the page's own folder come first, then the shortest path. Markdown links are decoded, and
relative to the page first. Links in properties count; those in code, comments and HTML comments don't.
"""

from __future__ import annotations

import json
import os
import re
import unicodedata
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote

import yaml

_WIKI = re.compile(r"(!?)\[\[([^\[\]\n]+?)\]\]")
_QUOTED = re.compile(r"[\"'](!?)\[\[([^\[\]\n]+?)\]\]")
_INLINE = re.compile(
    r"(!?)\[(?:[^\[\]]|\[[^\[\]]*\])*\]\((<[^<>\n]*>|(?:[^\s()]|\([^\s()]*\))+)(?:\s+(?:\"[^\"]*\"|'[^']*'))?\s*\)"
)
_ELSEWHERE = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:|//|#")
_FENCE = re.compile(r"^[ \t>]*(?:[-*+]|\d+[.)])?[ \t]*(`{3,}|~{3,})(.*)$")
_SPAN = re.compile(r"(?<!`)(`+)(?!`)(.+?)(?<!`)\1(?!`)", re.DOTALL)
_TAG_END = r"\s#!\"$%&'()*+,.:;<=>?@^`{|}~\[\]\\\u2000-\u206f\u2e00-\u2e7f\u3000-\u303f"
_TAG = re.compile(rf"(?:(?<=\s)|^)#([^{_TAG_END}]+)", re.MULTILINE)


class Link(NamedTuple):
    """A link to a file: whether it is a wiki link, and its path as written."""

    wiki: bool
    path: str


class Vault:
    """The files of a vault, by name."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.files = sorted(_files(root))
        self._named: dict[str, list[str]] = {}
        for file in self.files:
            self._named.setdefault(_folded(file.rpartition("/")[2]), []).append(file)

    def text(self, file: str) -> str | None:
        """Return the text of a file, None if it is not UTF-8."""
        try:
            return (self.root / file).read_bytes().decode()
        except UnicodeDecodeError:
            return None

    def target(self, link: Link, page: str) -> str | None:
        """Return the file that a link of `page` leads to."""
        return self._wiki(link.path, page) if link.wiki else self._inline(unquote(link.path), page)

    def targets(self) -> dict[str, list[str | None]]:
        """Return where each link of every page and each file of every canvas leads, in their order."""
        found: dict[str, list[str | None]] = {}
        for file in self.files:
            if file.lower().endswith(".md") and (text := self.text(file)) is not None:
                found[file] = [self.target(link, file) for link in links(text) if link.path]
            elif file.lower().endswith(".canvas"):
                found[file] = [shown if shown in self.files else None for shown in shown_files(self.root / file)]
        return found

    def _wiki(self, path: str, page: str) -> str | None:
        wanted, here = _folded(path.replace("\u00a0", " ").strip()), page.rpartition("/")[0]
        exact = wanted.startswith(("./", "../", "/"))
        if wanted.startswith("/"):
            wanted = wanted[1:]
        elif exact:
            wanted = _folded(os.path.normpath(os.path.join(here, path)))  # noqa: PTH118 - a path of the vault, not a file
        for one in (f"{wanted}.md", wanted):
            same = self._named.get(one.rpartition("/")[2], [])
            found = [file for file in same if _folded(file) == one or (not exact and _folded(file).endswith(f"/{one}"))]
            rooted = [file for file in found if "/" in one and _folded(file) == one]
            if found:
                return min(rooted or found, key=lambda file: (file.rpartition("/")[0] != here, len(file), file))
        return None

    def _inline(self, path: str, page: str) -> str | None:
        if not path.startswith("/"):
            beside = _folded(os.path.normpath(os.path.join(page.rpartition("/")[0], path)))  # noqa: PTH118
            for one in (f"{beside}.md", beside):
                found = [file for file in self._named.get(one.rpartition("/")[2], []) if _folded(file) == one]
                if found:
                    return found[0]
        return self._wiki(path, page)


def links(text: str) -> Iterator[Link]:
    """Yield the links of a page to files, those in its properties first."""
    front, body = parts_of(text)
    for found in _QUOTED.finditer(front):
        yield Link(wiki=True, path=_path(found[2]))
    spans = []
    for found in _WIKI.finditer(body):
        if not body.endswith("\\", 0, found.start()):
            spans.append(found.span())
            yield Link(wiki=True, path=_path(found[2]))
    for found in _INLINE.finditer(body):
        inside = any(start <= found.start() < end for start, end in spans)
        target = found[2].removeprefix("<").removesuffix(">")
        if not inside and not body.endswith("\\", 0, found.start()) and not _ELSEWHERE.match(target):
            yield Link(wiki=False, path=target.partition("#")[0].partition("?")[0])


def tags(text: str) -> set[str]:
    """Return the tags of a page, in its properties and in its text, in lower case."""
    front, body = parts_of(text)
    try:
        properties = yaml.safe_load(front) if front else {}
    except yaml.YAMLError:
        properties = {}
    found: set[str] = set()
    for key in ("tags", "tag"):
        value = properties.get(key) if isinstance(properties, dict) else None
        listed = re.split(r"[,\s]+", value) if isinstance(value, str) else value if isinstance(value, list) else []
        found |= {str(one).strip().lstrip("#") for one in listed if isinstance(one, (str, int))}
    body = re.sub(r"\]\([^)\n]*\)", "]", _WIKI.sub("x", body))
    body = re.sub(r"(?m)^#{1,6} ", " ", body)
    found |= {tag for match in _TAG.finditer(body) if (tag := match[1].strip("/")) and not re.fullmatch(r"[\d/]+", tag)}
    return {tag.lower() for tag in found if tag}


def parts_of(text: str) -> tuple[str, str]:
    """Return the properties, and the body without code and comments."""
    text, front = text.replace("\r\n", "\n").lstrip("\ufeff"), ""
    if text.startswith("---\n") and (end := re.search(r"^---[ \t]*$", text[4:], re.MULTILINE)):
        front, text = text[4 : 4 + end.start()], text[4 + end.end() :]
    kept: list[str] = []
    fence = ""
    for line in text.split("\n"):
        mark = _FENCE.match(line)
        if fence:
            if mark and mark[1][0] == fence[0] and len(mark[1]) >= len(fence) and not mark[2].strip():
                fence = ""
            kept.append("")
        elif mark and not (mark[1][0] == "`" and "`" in mark[2]):
            fence = mark[1]
            kept.append("")
        else:
            kept.append(line)
    body = "\n".join(kept)
    for comment in (r"%%.*?%%", r"<!--.*?-->"):
        body = re.sub(comment, lambda found: re.sub(r"[^\n]", " ", found[0]), body, flags=re.DOTALL)
    paragraphs = re.split(r"(\n[ \t]*\n)", body)
    return front, "".join(_SPAN.sub(lambda found: " " * len(found[0]), paragraph) for paragraph in paragraphs)


def shown_files(canvas: Path) -> list[str]:
    """Return the files that a canvas shows."""
    try:
        nodes = json.loads(canvas.read_bytes())["nodes"]
    except (ValueError, KeyError):
        return []
    return [node["file"] for node in nodes if node.get("type") == "file"]


def _files(root: Path) -> Iterator[str]:
    for above, folders, names in os.walk(root):
        folders[:] = [name for name in folders if not name.startswith(".") and name != "node_modules"]
        for name in names:
            if not name.startswith("."):
                yield (Path(above) / name).relative_to(root).as_posix()


def _folded(path: str) -> str:
    return unicodedata.normalize("NFC", path).lower()


def _path(target: str) -> str:
    return target.partition("|")[0].rstrip("\\").partition("#")[0].strip()
