"""Which lines of a front matter are searched: those that say what a page is about."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from knowledge.pages.document import Document

MOST_CHARACTERS = 2_000
_KEY = re.compile(r"([^\s#-][^:]{0,80}?)[ \t]*:(?:[ \t]+(.*))?$")
"""A key of any letters and signs at the beginning of a line, and what follows on that line."""
_INNER_KEY = re.compile(r"([^:]{1,80}?)[ \t]*:(?:\s|$)")
_WORD_BREAK = re.compile(r"(?<=[^\W\d_A-Z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])|[\s._:/-]+")
_AROUND = " \t[]{}|>~'\"+-"
_NOTHING = frozenset(("", "false", "no", "null"))
_ADDRESS_OR_MOMENT = re.compile(r"[a-z][a-z0-9+.-]*://\S*|\d{4}-\d\d-\d\d[T ][\d:.]+(?: ?[+-][\d:]+|Z)?", re.IGNORECASE)
"""A value that is only a URL or a timestamp: nobody asks with its words."""
_WITHOUT_THEIR_NAMES = frozenset(("summary", "description", "tags", "tag", "kind", "type"))
"""Properties that the server knows. Their values are searched, but not the names, which many pages have."""
_HANDLED_ELSEWHERE = frozenset((
    "title", "aliases", "alias", "lang", "language", "source", "untrusted", "append", "exclude", "merge", "router",
))  # fmt: skip
"""Properties that are names of the page, or that say how the server treats it."""
_OF_DISPLAY_AND_DATES = frozenset((
    # How and where a page is shown.
    "ads", "aside", "banner", "bookcollapsesection", "bookhidden", "canary", "cascade", "content_type", "cover_art", "coverart",
    "css", "cssclass", "cssclasses", "displayed_sidebar", "draft", "edit_link", "editlink", "excerpt_separator", "footer",
    "grand_parent", "has_children", "has_toc", "head", "header", "headless", "hero", "hidden", "hide", "icon", "image", "images",
    "index", "kanban_plugin", "layout", "link_title", "linktitle", "locale", "markup", "math", "mathjax", "menu", "menutitle", "nav",
    "navigation", "no_list", "no_loc", "noindex", "obsidian_uimode", "original_id", "outline", "outputs", "page_class", "pageclass",
    "permalink", "prev", "private", "publish", "return_to_top", "robots", "schema", "search", "seo", "show_toc", "simple_list",
    "sitemap", "slug", "sort", "spelling", "template", "template_type", "thumbnail", "title_for_title_tag", "title_template", "toc",
    "translation_key", "uid", "uri", "url", "urls", "uuid", "weight",
    # When the page was written, which is not what it is about.
    "created", "created_at", "creation_date", "ctime", "date", "date_created", "date_modified", "expiry_date", "expirydate",
    "last_modified", "last_modified_at", "last_updated", "lastmod", "modified", "modified_at", "mtime", "pub_date", "publish_date",
    "publishdate", "pubdate", "update", "updated", "updated_at",
))  # fmt: skip
"""Values of these keys would crowd out the pages about that subject: `layout: default`."""
_BEGINNINGS = (
    "banner_", "canonical", "cspell", "default_lang", "dg_", "download_help", "excalidraw", "external_help", "featured_image",
    "help_version", "hide_", "killercoda", "linter_", "meta_", "module_", "ms_", "nav_", "notion_id", "og_", "online_version",
    "pagination", "redirect", "render_", "seo_", "sidebar", "sort_", "sr_", "toc_", "tocdepth",
)  # fmt: skip
"""How the names of further such properties begin."""
_SECRET_WORDS = frozenset((
    "apikey", "auth", "contraseña", "credential", "credentials", "hasło", "kennwort", "key", "keys", "login", "logins", "otp",
    "pass", "passcode", "passe", "passphrase", "passwd", "password", "passwords", "passwort", "pin", "psk", "pwd", "secret",
    "secrets", "share_link", "token", "tokens", "wachtwoord", "пароль", "パスワード", "密码", "密碼", "비밀번호",
))  # fmt: skip


@dataclass(frozen=True, slots=True)
class Properties:
    """The lines of a front matter that say what the page is about, such as `author: Susanna Clarke`.

    The first is line `line_start`, from 1 in the file; lines between them may be left out. `searched` is the part of `text` in whose
    words the page is found.
    """

    line_start: int
    text: str
    searched: str


def properties_of(document: Document) -> Properties | None:
    """Return the properties of the page that say what it is about, or None if it has none.

    Left out are names, properties that say how a page is shown or when it was written, properties with a key for a secret, comments,
    and properties without a value or with only false, a URL or a timestamp. Lines after the first `MOST_CHARACTERS` are dropped.
    """
    if document.body_line == 1 or not document.metadata:
        return None
    lines = document.text.split("\n")[: document.body_line - 2]
    secret = {_normalised(key) for key, value in document.metadata.items() if _has_secret(value)}
    first = 0
    kept: list[str] = []
    searched: list[str] = []
    left = MOST_CHARACTERS
    for entry in _entries(lines):
        if entry.key in secret or not _says_what_it_is_about(entry):
            continue
        for number, line, value in entry.lines:
            if len(line) > left:
                break
            left -= len(line)
            first = first or number + 1
            kept.append(line)
            searched.append(value if entry.key in _WITHOUT_THEIR_NAMES else line)
    return Properties(first, "\n".join(kept), "\n".join(searched)) if kept else None


@dataclass(frozen=True, slots=True)
class _Entry:
    """A property: its normalised key, and its lines without comments, as number from 0, whole line, and the value on it."""

    key: str
    lines: list[tuple[int, str, str]]


def _says_what_it_is_about(entry: _Entry) -> bool:
    key = entry.key
    if key in _HANDLED_ELSEWHERE or key in _OF_DISPLAY_AND_DATES or key.startswith(_BEGINNINGS) or not key.strip("_"):
        return False
    # The keys of a front matter that is no YAML are only on its lines.
    inner = (pair[1] for _, _, value in entry.lines[1:] if (pair := _INNER_KEY.match(value.lstrip(" \t-"))))
    return any(_says_something(value) for _, _, value in entry.lines) and not any(map(_is_secret, (key, *inner)))


def _says_something(value: str) -> bool:
    bare = value.strip(_AROUND)
    return bare.casefold() not in _NOTHING and not _ADDRESS_OR_MOMENT.fullmatch(bare)


def _has_secret(value: object) -> bool:
    """Return whether a key inside `value`, at any depth, is one for a secret."""
    if isinstance(value, Mapping):
        return any(_is_secret(str(key)) or _has_secret(inner) for key, inner in value.items())
    return isinstance(value, list) and any(map(_has_secret, value))


def _is_secret(key: str) -> bool:
    normalised = _normalised(key)
    return normalised in _SECRET_WORDS or any(
        word.rstrip("0123456789") in _SECRET_WORDS for word in normalised.split("_")
    )


def _normalised(key: str) -> str:
    """Return `createdAt`, `Date created` and `date-created` in one form of small letters and underscores."""
    return _WORD_BREAK.sub("_", key.strip("\"' \t")).casefold()


def _entries(lines: Sequence[str]) -> Iterator[_Entry]:
    """Yield each property, without comments."""
    entry: _Entry | None = None
    for number, line in enumerate(lines[1:], 1):
        if pair := _KEY.match(line):
            if entry:
                yield entry
            entry = _Entry(_normalised(pair[1]), [(number, _without_comment(line), _without_comment(pair[2] or ""))])
        elif entry:
            # In a block of text, a line with `#` is a heading.
            is_text = entry.lines[0][2].startswith(("|", ">"))
            if is_text or not line.lstrip().startswith("#"):
                said = line if is_text else _without_comment(line)
                entry.lines.append((number, said, said))
    if entry:
        yield entry


def _without_comment(text: str) -> str:
    at = text.find(" #")
    # Behind a quote it may be part of a quoted text.
    return text if at < 0 or "'" in text[at:] or '"' in text[at:] else text[:at].rstrip()
