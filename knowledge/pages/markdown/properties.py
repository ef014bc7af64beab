"""Which lines of a front matter are searched: those that say what a page is about."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from knowledge.pages.document import Document

MOST_CHARACTERS = 2_000
_KEY = re.compile(r"([^\s#-][^:]{0,80}?)[ \t]*:(?:[ \t]+(.*))?$")
"""A key of any letters and signs at the beginning of a line, and what follows on that line."""
_INNER_KEY = re.compile(r"[\s#-]*([^:]{1,80}?)[ \t]*:(?:\s|$)")
_BETWEEN_WORDS = re.compile(r"(?<=[^\W\d_A-Z])(?=[A-Z])|[\s._:-]+")
_AROUND = " \t[]{}|>~'\"+-"
_NOTHING = frozenset(("", "false", "no", "null"))
_ADDRESS_OR_MOMENT = re.compile(r"[a-z][a-z0-9+.-]*://\S*|\d{4}-\d\d-\d\d[T ][\d:.]+(?: ?[+-][\d:]+|Z)?", re.IGNORECASE)
"""A value that is only a URL or a time of day: nobody asks with its words."""
_WITHOUT_THEIR_NAMES = frozenset(("summary", "description", "tags", "tag", "kind", "type"))
"""Properties that the server knows. Their values are searched, but not the names, which many pages have."""
_KNOWN_OTHERWISE = frozenset((
    "title", "aliases", "alias", "lang", "language", "source", "untrusted", "append", "exclude", "merge", "router",
))  # fmt: skip
"""Properties that are names of the page, or that say how the server treats it."""
_ABOUT_THE_FILE = frozenset((
    # How and where a page is shown.
    "ads", "aside", "banner", "bookcollapsesection", "bookhidden", "canary", "cascade", "content_type", "cover_art", "coverart",
    "displayed_sidebar", "draft", "edit_link", "editlink", "excerpt_separator", "footer", "grand_parent", "has_children", "has_toc",
    "head", "header", "headless", "hero", "hidden", "hide", "icon", "image", "images", "index", "kanban_plugin", "layout",
    "link_title", "linktitle", "locale", "markup", "math", "mathjax", "menu", "menutitle", "nav", "navigation", "no_list", "no_loc",
    "noindex", "obsidian_uimode", "original_id", "outline", "outputs", "page_class", "pageclass", "params", "permalink", "prev",
    "private", "publish", "return_to_top", "robots", "schema", "search", "simple_list", "sitemap", "slug", "sort", "spelling",
    "template", "template_type", "thumbnail", "title_for_title_tag", "title_template", "toc", "translation_key", "uid", "uri", "url",
    "urls", "uuid", "weight",
    # When the page was written, which is not what it is about.
    "created", "created_at", "creation_date", "ctime", "date", "date_created", "date_modified", "expiry_date", "expirydate",
    "last_modified", "last_modified_at", "last_updated", "lastmod", "modified", "modified_at", "mtime", "pub_date", "publish_date",
    "publishdate", "pubdate", "update", "updated", "updated_at",
))  # fmt: skip
"""Properties whose values would be found instead of the pages that are about them: `layout: default`."""
_OF_PROGRAMS = (
    "banner_", "canonical", "cspell", "css", "default_lang", "dg_", "download_help", "excalidraw", "external_help", "featured_image",
    "help_version", "hide_", "killercoda", "linter_", "meta_", "module_", "ms_", "nav_", "notion_id", "og_", "online_version",
    "pagination", "redirect", "render_", "seo", "show_", "sidebar", "sort_", "sr_", "toc_", "tocdepth",
)  # fmt: skip
"""How the names of further such properties begin."""
_SECRET_WORDS = frozenset((
    "auth", "contraseña", "credential", "credentials", "hasło", "kennwort", "login", "logins", "pass", "passe", "passphrase",
    "passwd", "password", "passwords", "passwort", "pin", "pwd", "secret", "secrets", "token", "tokens", "wachtwoord", "пароль",
    "パスワード", "密码", "密碼", "비밀번호",
))  # fmt: skip
_KEYS_TO_SOMETHING = ("_key", "_keys", "apikey", "share_link")


@dataclass(frozen=True, slots=True)
class Properties:
    """The lines of a front matter that say what the page is about, such as `author: Susanna Clarke`.

    Lines count from 1 in the file, both ends included; there may be others between them. `searched` is the part of `text` in whose
    words the page is found.
    """

    line_start: int
    line_end: int
    text: str
    searched: str


def properties_of(document: Document) -> Properties | None:
    """Return the properties of the page that say what it is about, or None if it has none.

    Left out are names, properties that say how a page is shown or when it was written, secrets, comments, and those without a value or
    with only false, a URL or a time. Of lines with more than `MOST_CHARACTERS` in all, the first are returned.
    """
    if document.body_line == 1 or not document.metadata:
        return None
    lines = document.text.split("\n")[: document.body_line - 2]
    kept: list[int] = []
    searched: list[str] = []
    left = MOST_CHARACTERS
    for key, numbers, values in _entries(lines):
        if not _says_what_it_is_about(key, values):
            continue
        for number, value in zip(numbers, values, strict=True):
            left -= len(lines[number])
            if left < 0:
                break
            kept.append(number)
            searched.append(value if key in _WITHOUT_THEIR_NAMES else lines[number])
        left = max(left, 0)
    if not kept:
        return None
    return Properties(kept[0] + 1, kept[-1] + 1, "\n".join(lines[number] for number in kept), "\n".join(searched))


def _says_what_it_is_about(key: str, values: Sequence[str]) -> bool:
    if key in _KNOWN_OTHERWISE or key in _ABOUT_THE_FILE or key.startswith(_OF_PROGRAMS) or not key.strip("_"):
        return False
    inner = (pair[1] for value in values[1:] if (pair := _INNER_KEY.match(value)))
    return any(map(_says_something, values)) and not any(map(_is_secret, (key, *map(_normalised, inner))))


def _says_something(value: str) -> bool:
    bare = value.strip(_AROUND)
    return bare.casefold() not in _NOTHING and not _ADDRESS_OR_MOMENT.fullmatch(bare)


def _is_secret(key: str) -> bool:
    return not _SECRET_WORDS.isdisjoint(key.split("_")) or key.endswith(_KEYS_TO_SOMETHING)


def _normalised(key: str) -> str:
    """Return `createdAt`, `Date created` and `date-created` in one form of small letters and underscores."""
    return _BETWEEN_WORDS.sub("_", key.strip("\"' \t")).casefold()


def _entries(lines: Sequence[str]) -> Iterator[tuple[str, list[int], list[str]]]:
    """Yield each property's key, its lines, and what stands on them behind the key, without comments."""
    key, numbers, values = "", list[int](), list[str]()
    for number, line in enumerate(lines[1:], 1):
        if pair := _KEY.match(line):
            if key:
                yield key, numbers, values
            key, numbers, values = _normalised(pair[1]), [number], [pair[2] or ""]
        elif not line.lstrip().startswith("#"):
            numbers.append(number)
            values.append(line)
    if key:
        yield key, numbers, values
