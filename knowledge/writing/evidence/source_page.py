"""Writes a source's content as Markdown: a page by author and date, or the words of one message. Pure and deterministic.

Foreign text is quoted line by line, deeper than the line that names its author. So it can't pass for another author's entry, a
heading or the page's front matter. Headings are few and never change, so that a later entry finds its place by its heading.
"""

from __future__ import annotations

import json
import re

from knowledge.writing.evidence.sources import Fetched, SourceEntry

LONGEST_ENTRY = 10_000
LONGEST_PAGE = 100_000
"""Characters of all entries on a page. The oldest are left out first; the page's link leads to them."""
CUT = "[cut]"
OLDER = " Older entries are only there."
_MARKUP = re.compile(r"([\\`*_\[\]<>#|~])")
_BLOCK_STARTS = re.compile(r"^( {0,3})(#{1,6}(?=[ \t]|$)|-{2,}[ \t]*$|={2,}[ \t]*$|\+{3}[ \t]*$)", re.MULTILINE)


def source_page(fetched: Fetched) -> str:
    """Return a source as Markdown: the words and place of a single message, else a page with an entry per author and time.

    The same source gives the same text, and later entries only add to it, so merging it again adds what is new.
    """
    if fetched.single:
        (entry,) = fetched.entries
        # Not quoted: these are statements for a page, which are compared with the statements there.
        words = _BLOCK_STARTS.sub(r"\1\\\2", _lines(entry.text))
        place = f"[{_plain(entry.author)} in {_plain(fetched.title)}, {entry.written_at}](<{entry.url}>)"
        # In the same paragraph, so that a claim and its place are written, flagged or replaced together.
        joined = re.match(r"\w", words.rpartition("\n")[2]) and not re.search(
            r"^ {0,3}(```|~~~|    )", words, re.MULTILINE
        )
        return f"{words} ({place})\n" if joined else f"{words}\n\n{place}\n"
    kept, room = list[SourceEntry](), LONGEST_PAGE
    for entry in reversed(fetched.entries):
        room -= min(len(entry.text), LONGEST_ENTRY)
        if room < 0:
            break
        kept.insert(0, entry)
    older = OLDER if fetched.truncated or len(kept) < len(fetched.entries) else ""
    title = " ".join(fetched.title.split())
    front = f"---\ntitle: {_yaml(title)}\nsummary: {_yaml(f'{fetched.kind}: {title}, by author and date.')}\n---\n"
    parts = [front, f"# {_plain(title)}\n", f"[{fetched.kind}](<{fetched.url}>), by author and date.{older}\n"]
    heading = ""
    for entry in kept:
        if entry.under != heading:
            heading = entry.under
            parts.append(f"## {heading}\n")
        parts.append(_quoted(entry))
    return "\n".join(parts)


def _quoted(entry: SourceEntry) -> str:
    """Return an entry as one quote: its author, and nested in it the author's text."""
    text = entry.text if len(entry.text) <= LONGEST_ENTRY else f"{entry.text[:LONGEST_ENTRY]}\n{CUT}"
    if not entry.author:
        return "".join(f"{f'> {line}'.rstrip()}\n" for line in _lines(text).split("\n"))
    place = f", [{entry.name}](<{entry.url}>)" if entry.url else ""
    nested = "".join(f"{f'> > {line}'.rstrip()}\n" for line in _lines(text).split("\n"))
    return f"> **{_plain(entry.author)}**, {entry.written_at}{place}\n>\n{nested}"


def _lines(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\r", "\n").strip("\n").rstrip()


def _plain(name: str) -> str:
    """Return a foreign name on one line, without markup: anyone may call themselves `](https://evil.example)`."""
    return _MARKUP.sub(r"\\\1", " ".join(name.split()))


def _yaml(text: str) -> str:
    # A string of JSON is one of YAML.
    return json.dumps(text, ensure_ascii=False)
