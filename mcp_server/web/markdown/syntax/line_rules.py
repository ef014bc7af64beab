"""Rules inside a line: wiki links and embeds, tags, highlights, comments, mathematics. Each is linear.

Source: help.obsidian.md (Internal links, Embed files, Tags, Basic formatting syntax).
"""

from __future__ import annotations

import re
from urllib.parse import unquote

from markdown_it import MarkdownIt
from markdown_it.rules_inline import StateInline
from markdown_it.rules_inline.state_inline import Delimiter

from knowledge.pages.paths import MARKDOWN_SUFFIXES

_WIKI = re.compile(r"!?\[\[([^\[\]\n|]++)(?:\\?\|([^\[\]\n]*+))?\]\]")
_TAG = re.compile(r"#([\w/\-\u200d\ufe0f\u2600-\u27bf\U0001f000-\U0001faff]+)")
_COMMENT = re.compile(r"%%[^%]*+(?:%(?!%)[^%]*+)*+%%")
_MATH = re.compile(r"\$\$([^$]++)\$\$|\$(?![\s$])((?:[^$\\\n]|\\.|\n(?!\n))++)(?<![\s\\])\$(?!\d)")
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:|//")
_EQUALS = ord("=")


def add_line_rules(parser: MarkdownIt) -> None:
    """Add the rules to the parser."""
    ruler = parser.inline.ruler
    ruler.before("link", "wiki", _wiki)
    ruler.after("wiki", "tag", _tag)
    ruler.after("tag", "comment", _comment)
    ruler.after("comment", "math", _math)
    ruler.after("strikethrough", "highlight", _highlight)
    ruler.before("emphasis", "word_underscore", _word_underscore)
    parser.inline.ruler2.before("emphasis", "highlight", _highlighted)
    parser.inline.ruler2.push("embedded_page", _embedded_pages)


def _wiki(state: StateInline, silent: bool) -> bool:  # noqa: FBT001 - markdown-it's signature
    if not state.src.startswith(("[[", "![["), state.pos):
        return False
    found = _WIKI.match(state.src, state.pos, state.posMax)
    if not found or not found[1].strip().rstrip("\\"):
        return False
    embeds = found[0][0] == "!"
    if not silent and (embeds or not state.linkLevel):
        token = state.push("embed" if embeds else "wiki", "", 0)
        token.meta = {"target": found[1].strip().rstrip("\\").rstrip(), "label": (found[2] or "").strip()}
        token.content = found[0]
    elif not silent:
        state.push("text", "", 0).content = found[0]
    state.pos = found.end()
    return True


def _tag(state: StateInline, silent: bool) -> bool:  # noqa: FBT001 - markdown-it's signature
    if state.src[state.pos] != "#" or (state.pos and not state.src[state.pos - 1].isspace()) or state.linkLevel:
        return False
    found = _TAG.match(state.src, state.pos, state.posMax)
    name = found[1].strip("/") if found else ""
    if not found or not name or name.isdigit():
        return False
    if not silent:
        token = state.push("tag", "", 0)
        token.content, token.meta = found[0], {"name": name}
    state.pos = found.end()
    return True


def _comment(state: StateInline, silent: bool) -> bool:  # noqa: FBT001, ARG001 - markdown-it's signature
    if not state.src.startswith("%%", state.pos):
        return False
    found = _COMMENT.match(state.src, state.pos, state.posMax)
    if not found:
        return False
    state.pos = found.end()
    return True


def _math(state: StateInline, silent: bool) -> bool:  # noqa: FBT001 - markdown-it's signature
    if state.src[state.pos] != "$":
        return False
    found = _MATH.match(state.src, state.pos, state.posMax)
    if not found:
        return False
    if not silent:
        state.push("math", "code", 0).content = found[0]
    state.pos = found.end()
    return True


def _word_underscore(state: StateInline, silent: bool) -> bool:  # noqa: FBT001 - markdown-it's signature
    """Take an underscore inside a word. It is never emphasis, and as text it stays part of an e-mail address."""
    pos = state.pos
    if (
        state.src[pos] != "_"
        or not pos
        or not state.src[pos - 1].isalnum()
        or not state.src[pos + 1 : pos + 2].isalnum()
    ):
        return False
    if not silent:
        state.pending += "_"
    state.pos += 1
    return True


def _highlight(state: StateInline, silent: bool) -> bool:  # noqa: FBT001 - markdown-it's signature
    """Take the marks `==`; the ones that belong together are found later, as with emphasis."""
    if silent or not state.src.startswith("==", state.pos):
        return False
    scanned = state.scanDelims(state.pos, canSplitWord=True)
    if scanned.length != 2:
        state.push("text", "", 0).content = "=" * scanned.length
        state.pos += scanned.length
        return True
    state.push("text", "", 0).content = "=="
    state.delimiters.append(
        Delimiter(
            marker=_EQUALS,
            length=0,
            token=len(state.tokens) - 1,
            end=-1,
            open=scanned.can_open,
            close=scanned.can_close,
        )
    )
    state.pos += 2
    return True


def _highlighted(state: StateInline) -> None:
    lists = [state.delimiters, *(meta["delimiters"] for meta in state.tokens_meta if meta and "delimiters" in meta)]
    for delimiters in lists:
        for start in delimiters:
            if start.marker == _EQUALS and start.end != -1:
                for kind, nesting, mark in (("mark_open", 1, start), ("mark_close", -1, delimiters[start.end])):
                    token = state.tokens[mark.token]
                    token.type, token.tag, token.nesting, token.content = kind, "mark", nesting, ""


def _embedded_pages(state: StateInline) -> None:
    """Take `![words](page.md)` for an embedded page, as Obsidian does where it writes no wiki links."""
    for token in state.tokens:
        if token.type != "image":
            continue
        path, _, anchor = str(token.attrs.get("src", "")).partition("#")
        if path.lower().endswith(MARKDOWN_SUFFIXES) and not _SCHEME.match(path):
            target = f"{unquote(path)}#{unquote(anchor)}" if anchor else unquote(path)
            token.type, token.meta = "embed", {"target": target, "label": token.content}
