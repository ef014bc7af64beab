"""Recognises the entries of a reference, such as options, by the name at their beginning. Pure."""

from __future__ import annotations

import re
from functools import lru_cache

from knowledge.merge.model import Unit
from knowledge.pages.markdown.inline import plain

REMEMBERED = 8192
"""Texts whose key is cached."""

_CODE = r"(?:[*_]{0,3}`+[^`\n]{1,80}`+[*_]{0,3})"
_ENTRY = re.compile(
    r"\s*(?:(?:[-+*]|\d{1,9}[.)])\s+)?(?:"
    rf"(?P<code>{_CODE}(?:\s*[,/|]\s*{_CODE})*)(?:\s*\([^()\n]{{1,80}}\))?(?::|\s*\uff1a|\s+[-\u2013\u2014=]\s|\r?\n[ \t]*:\s)"
    r"|(?P<term>[^\s:][^\r\n]{0,80})\r?\n[ \t]*:\s)"
)
"""Code before a colon or a dash, or the term of a definition list (`term` and `: definition` on the next line)."""
_MARKER = r"\s*(?:[-+*]|\d{1,9}[.)])\s+"
_LABELLED = re.compile(
    rf"(?:{_MARKER})?(?:(?P<bold>\*\*|__)(?P<label>[^*_\n]{{1,80}}?):?(?P=bold)(?:\s*[:\uff1a]|(?<=:..)|\s+[-\u2013\u2014=]\s)"
    r"|(?P<name>[^\W\d_][\w-]*(?: [\w-]+){0,2}) = (?=[^\s=]))"
)
"""A bold label before a colon or a dash, or a name before ` = `."""
_TAB = re.compile(r"[ \t]*(?:\{\{[<%]\s*tab\b|===[!+]?[ \t])[^\"\n]*\"(?P<title>[^\"\n]{1,80})\"")
"""The first line of a tab: `{{< tab "Linux" >}}` of Hugo, `=== "Linux"` of MkDocs."""
_OF_VERSION = re.compile(rf"{_MARKER}[*_]{{0,2}}v?(?P<version>\d+(?:\.\d+)+)[*_]{{0,2}}(?::|\s+[-\u2013\u2014])\s")
_LINK_FIRST = re.compile(
    rf"(?:{_MARKER})?[*_]{{0,2}}\[(?P<title>[^\[\]\n]{{1,300}})\]\((?P<target>[^()\s]{{1,500}})\)[*_]{{0,2}}"
    r"(?:[.,;]?\s*$|:|\s+[-\u2013\u2014]\s)"
)
"""A link that is all of a text, or stands before a colon or a dash."""
_WORDS, _FIGURES = re.compile(r"\w+"), re.compile(r"\d+(?:\.\d+)*")


def are_two_entries(one: Unit, other: Unit) -> bool:
    """Return whether two texts are entries of different names, so that what one says is never about the other.

    A sentence such as "Defaults to 90." then has another subject in each, although it has the same words.
    """
    mine = entry_key(one.text)
    if mine:
        return entry_key(other.text) not in ("", mine)
    if are_two_links(one.text, other.text) or _are_two_tabs(one.text, other.text):
        return True
    if one.kind != "item" or other.kind != "item":
        return False
    return _differ_by_version(one.text, other.text) or _are_labelled_apart(one.text, other.text)


def are_two_links(one: str, other: str) -> bool:
    """Return whether two texts are links, or say other things about links, with other titles and to other places."""
    first, second = _LINK_FIRST.match(one), _LINK_FIRST.match(other)
    if first is None or second is None or first["target"] == second["target"]:
        return False
    said = one[first.end() :].split()
    if said and said == other[second.end() :].split():
        return False
    # "Upgrading to 13.0" may be another version of "Upgrading to 12.0".
    return _FIGURES.sub("0", plain(first["title"]).casefold()) != _FIGURES.sub("0", plain(second["title"]).casefold())


def is_named(text: str) -> bool:
    """Return whether a text begins with the name of what it is about, as an entry does."""
    return bool(entry_key(text) or _label(text))


def _are_two_tabs(one: str, other: str) -> bool:
    first, second = _TAB.match(one), _TAB.match(other)
    return first is not None and second is not None and first["title"].casefold() != second["title"].casefold()


def _differ_by_version(one: str, other: str) -> bool:
    """Return whether both items begin with a version, as in a history, each with its own."""
    first, second = _OF_VERSION.match(one), _OF_VERSION.match(other)
    return first is not None and second is not None and first["version"] != second["version"]


def _are_labelled_apart(one: str, other: str) -> bool:
    """Return whether two items have labels of which neither says the other too: it may be the same one, made clearer."""
    first, second = _label(one), _label(other)
    return bool(first and second) and not (first <= second or second <= first)


@lru_cache(REMEMBERED)
def _label(text: str) -> frozenset[str]:
    found = _LABELLED.match(text)
    return frozenset(_WORDS.findall((found["label"] or found["name"]).casefold())) if found else frozenset()


@lru_cache(REMEMBERED)
def entry_key(text: str) -> str:
    """Return the name that a text says something about, folded; "" if it isn't an entry."""
    found = _ENTRY.match(text)
    return plain(found["code"] or found["term"]).casefold() if found else ""
