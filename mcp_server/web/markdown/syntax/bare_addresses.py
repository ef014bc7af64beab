"""Addresses in the text that become links without being marked: `https://...`, `www. ...` and e-mail addresses.

Source: GFM 6.9, Autolinks (extension). Each rule looks at its address once: a rule that copied the rest of the text at each colon
would take quadratic time.
"""

from __future__ import annotations

import re

from markdown_it import MarkdownIt
from markdown_it.rules_inline import StateInline

_REST = re.compile(r"[^\s<]*+")
_HOST = re.compile(r"[^\s/?#@:<>\"'()\[\]{}|\\^`!$&*+,;=%]++")
_LOCAL = re.compile(r"[A-Za-z0-9.+_-]++\Z")
_LONGEST_LOCAL = 64
_MAIL_HOST = re.compile(r"@[A-Za-z0-9_-]{1,63}(?:\.[A-Za-z0-9_-]{1,63}){1,10}+")
_ENTITY = re.compile(r"&[A-Za-z0-9]{1,30};\Z")
_BEFORE = frozenset(" \t\n*_~(\"'=>|[{")
"""Characters that may precede an address. GFM has the first six; the others are quotes, tables and brackets of people's notes."""


def add_bare_addresses(parser: MarkdownIt) -> None:
    """Add the rules. They run last, so that a link that is written as one stays what it is."""
    parser.inline.ruler.push("web_address", _web)
    parser.inline.ruler.push("www_address", _www)
    parser.inline.ruler.push("mail_address", _mail)


def _web(state: StateInline, silent: bool) -> bool:  # noqa: FBT001 - markdown-it calls all of these so
    # Not while a label is only measured: then the address must not swallow the bracket that closes the label.
    if silent or state.linkLevel or not state.src.startswith("://", state.pos):
        return False
    scheme = next((one for one in ("https", "http") if state.pending[-len(one) :].lower() == one), "")
    if not scheme or not _may_follow(state.pending[: -len(scheme)], state):
        return False
    end = _end(state, state.pos + 3)
    if not end:
        return False
    written = state.pending[-len(scheme) :] + state.src[state.pos : end]
    state.pending = state.pending[: -len(scheme)]
    return _push(state, written, written, end)


def _www(state: StateInline, silent: bool) -> bool:  # noqa: FBT001 - markdown-it's signature
    if (
        silent
        or state.linkLevel
        or not state.src.startswith("www.", state.pos)
        or not _may_follow(state.pending, state)
    ):
        return False
    end = _end(state, state.pos, dots=2)
    written = state.src[state.pos : end]
    return bool(end) and _push(state, written, f"http://{written}", end)


def _mail(state: StateInline, silent: bool) -> bool:  # noqa: FBT001 - markdown-it's signature
    if silent or state.linkLevel or state.src[state.pos] != "@":
        return False
    local = _LOCAL.search(state.pending, max(0, len(state.pending) - _LONGEST_LOCAL))
    found = _MAIL_HOST.match(state.src, state.pos, state.posMax)
    if not local or not found or found[0][-1] in "-_" or not _may_follow(state.pending[: local.start()], state):
        return False
    written = local[0] + found[0]
    state.pending = state.pending[: local.start()]
    return _push(state, written, f"mailto:{written}", found.end())


def _may_follow(pending: str, state: StateInline) -> bool:
    """Return whether an address may begin after this text, which no rule has taken yet."""
    if pending:
        return pending[-1] in _BEFORE
    return not state.tokens or state.tokens[-1].type != "text" or state.tokens[-1].content[-1:] in _BEFORE


def _end(state: StateInline, start: int, dots: int = 0) -> int:
    """Return the end of the address whose host begins at `start`; 0 if no host with at least `dots` dots is there."""
    host = _HOST.match(state.src, start, state.posMax)
    if not host:
        return 0
    labels = host[0].rstrip("._-").split(".")
    if not labels[-1] or len(labels) <= dots or any("_" in label for label in labels[-2:]):
        return 0
    rest = _REST.match(state.src, start, state.posMax)
    end = _without_punctuation(state.src, start, rest.end() if rest else start)
    return end if end > start else 0


def _without_punctuation(text: str, start: int, end: int) -> int:
    """Return where the address ends without the punctuation of the sentence around it."""
    opened, closed = text.count("(", start, end), text.count(")", start, end)
    while end > start:
        last = text[end - 1]
        if last == ")" and closed > opened:
            closed -= 1
            end -= 1
        elif last in "?!.,:*_~'\"[]|`":
            end -= 1
        elif last == ";":
            entity = _ENTITY.search(text, max(start, end - 32), end)
            end = entity.start() if entity else end - 1
        else:
            break
    return end


def _push(state: StateInline, written: str, address: str, end: int) -> bool:
    state.push("link_open", "a", 1).attrs = {"href": state.md.normalizeLink(address)}
    state.push("text", "", 0).content = written
    state.push("link_close", "a", -1)
    state.pos = end
    return True
