"""Finds the first sentence that tells what a page is about, for pages whose author wrote no summary. Pure.

Pages of real sites begin with badges, tables of contents, notes, shortcodes of the site generator, greetings and lines of
metadata. So each sentence is rated, and the first of the best rating is taken.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise

from knowledge.pages.markdown.blocks import Block
from knowledge.pages.markdown.inline import plain

MOST_BLOCKS = 40
"""How many blocks are searched."""
MOST_CHARACTERS = 500
"""How much of one block is searched: a block can be the whole file on one line."""
MOST_SENTENCES = 3
"""How many sentences of one block are rated."""
MOST_ITEMS = 8
"""Items of a list that complete a sentence ending with a colon."""
FEWEST_WORDS = 4
MANY_WORDS = 9
"""Words from which a text without a full stop counts as a sentence."""
FEWEST_CHARACTERS = 20
SHORTEST_UNSPACED = 8
"""Characters of a sentence in a script without spaces, such as Japanese."""
SHORTEST_END = 20
"""A sentence of fewer characters may be an abbreviation or a number with a dot, so it is read on to the next end."""

TELLING, VAGUE, POOR = 3, 2, 1
"""The ratings: a good sentence; a partial one, or one that says little about the page; only a few words."""

_ORDINAL = r"(?:(?<=\b\d)|(?<=\b\d\d))\.\s+(?:[^\W\dA-Z_]|Jan|Feb|Mär|Apr|Mai|Jun|Jul|Aug|Sep|Okt|Nov|Dez)"
"""The dot of *31. Juli*, and of *3. september* in languages that write months small."""
_SENTENCE = re.compile(rf"(?!{_ORDINAL})[.!?\u061f\u0964][\"')\]]*(?=\s)|[\u3002\uff01\uff1f]")
_ENDED = re.compile(r"[.!?\u061f\u0964\u3002\uff01\uff1f][\"')\]]*$")
_WORDY = re.compile(r"[^\W\d_]{2}|[\u0e00-\u0e7f\u3040-\u9fff\uac00-\ud7af]")
_UNSPACED = re.compile(r"[\u0e00-\u0e7f\u3040-\u9fff\uac00-\ud7af]")
_QUOTE_MARK = re.compile(r"^ {0,3}> ?", re.MULTILINE)
_LIST_MARK = re.compile(r"^ *(?:[-+*]|\d{1,9}[.)])[ \t]+(?:\[[ xX]\][ \t]+)?")
_IMAGE = re.compile(r"!\[[^\[\]]*+\](?:\([^()]*+\)|\[[^\[\]]*+\])?")
_LINK = re.compile(r"!?\[[^\[\]]*+\](?:\([^()]*+\)|\[[^\[\]]*+\])?|<?https?://\S+")
_SHORT_REFERENCE = re.compile(r"(?<![\w\]])\[([^\[\]]{2,})\](?![\w(\[])")
_HASH_TAG = re.compile(r"(?<!\S)#\S+")
# Hugo `{{< x >}}` and `{{% x %}}`, Jekyll and Jinja `{% x %}` and `{{ x }}`, ERB `<%= x %>`, kramdown `{:.no_toc}` and
# `{#anchor}`, GitLab `[[_TOC_]]`. A shortcode with a text shows it.
_SHORTCODE_TEXT = re.compile(r"\{\{[<%][^{}]*?\btext=\"([^\"{}]*)\"[^{}]*\}\}")
_TEMPLATE = re.compile(r"\{\{.*?\}\}|\{%.*?%\}|<%.*?%>|\{[:#][^{}\n]*\}|\[\[?_?TOC_?\]\]?", re.IGNORECASE | re.DOTALL)
# GitHub `[!NOTE]`, Docusaurus `:::note`, MkDocs `!!! note "Title"`, and the label at the beginning of a line.
_CALLOUT = re.compile(r"^[ >]*(?:\[![^\]\n]*\][-+]?|:::+|!!!|\?\?\?\+?)(?:[^\n]*)$", re.MULTILINE)
_NOTE = re.compile(
    r"\W*(?:note|nota|notes|hinweis|remarque|warning|warnung|achtung|caution|attention|important|wichtig|tip|info|disclaimer"
    r"|todo|tbd|wip|fixme|update|deprecated)\b\s*(?:[:!\u2013-]|$)",
    re.IGNORECASE,
)
_ASIDE = re.compile(
    r"\W*(?:welcome|hello|hi|hey|thank|thanks|see|willkommen|hallo|siehe|bienvenue|voir|bienvenid[oa]s?|véase)\b",
    re.IGNORECASE,
)
_CONTENTS = re.compile(
    r"\W*(?:table of contents?|contents?|inhalt(?:sverzeichnis)?|sommaire|índice|on this page)\W*$", re.IGNORECASE
)
# Code of MDX pages, link definitions, tables, formulas.
_CODE = re.compile(r"(?:import|export)\s.+(?:from\s+['\"]|=)|\[[^\]]+\]:|\||\$\$")
# `Owner: Ann`, `Date: 2026-03-01`: a line of metadata.
_FIELD = re.compile(r"[*_]*[^\W\d][\w /-]{0,24}:[*_]*(?:\s+\S.{0,60})?$")


def telling_sentence(lines: Sequence[str], blocks: Sequence[Block], title: str) -> str:
    """Return the first telling sentence of a page. Paragraphs and quotes come before lists.

    A page that is only a list of links is described by their labels. "" if there is neither.
    """
    prose = [place for place, block in enumerate(blocks) if block.kind in ("paragraph", "list", "quote")][:MOST_BLOCKS]
    best, found = 0, ""
    for place in sorted(prose, key=lambda place: blocks[place].kind == "list"):
        following = blocks[place + 1] if place + 1 < len(blocks) else None
        for sentence in _sentences(lines, blocks[place], following):
            rating = _rating(sentence, title)
            if rating == TELLING:
                return sentence
            if rating > best:
                best, found = rating, sentence
    return found or next((labels for place in prose if (labels := _labels(lines, blocks[place]))), "")


def _labels(lines: Sequence[str], block: Block) -> str:
    items = _items(lines, block, MOST_ITEMS) if block.kind == "list" else []
    return ", ".join(label for item in items if _WORDY.search(label := plain(_TEMPLATE.sub("", item))))


def _sentences(lines: Sequence[str], block: Block, following: Block | None) -> Iterator[str]:
    """Yield the first sentences of a block without markup, skipping badges, images and lists of links."""
    if block.kind == "list":
        for item in _items(lines, block, MOST_SENTENCES):
            yield from _read(item)[:1]
        return
    text = "\n".join(lines[block.start : block.end])[:MOST_CHARACTERS]
    if block.kind == "quote":
        text = _QUOTE_MARK.sub("", _CALLOUT.sub("", text))
    found = _read(text)
    # `It has three parts:` is completed by the list that follows.
    if found and found[-1].endswith(":") and following is not None and following.kind == "list":
        parts = [part for item in _items(lines, following, MOST_ITEMS) for part in _read(item)[:1]]
        found[-1] = f"{found[-1]} {'; '.join(part.rstrip('.;,:') for part in parts)}" if parts else found[-1]
    yield from found[:MOST_SENTENCES]


def _items(lines: Sequence[str], block: Block, most: int) -> list[str]:
    """Return the first paragraphs of the first items of a list."""
    items: list[str] = []
    for start, end in pairwise([*block.items, block.end][: most + 1]):
        text = _LIST_MARK.sub("", lines[start])
        for line in lines[start + 1 : end]:
            if not line.strip() or _LIST_MARK.match(line):
                break
            text += "\n" + line
        items.append(text[:MOST_CHARACTERS])
    return items


def _read(text: str) -> list[str]:
    """Return the sentences of a text without markup; none if it has no prose."""
    text = _CALLOUT.sub("", text) if "[!" in text or ":::" in text or "!!!" in text or "???" in text else text
    if "{" in text or "<%" in text or "TOC" in text.upper():
        text = _TEMPLATE.sub("", _SHORTCODE_TEXT.sub(r"\1", text))
    text = text.strip()
    if not text or _CODE.match(text):
        return []
    if "[" in text or "http" in text:
        text = _IMAGE.sub("", text)
        # A line of links with a word or two between them is navigation and says nothing about the page.
        rest = _LINK.sub("", text)
        if rest != text and len(_WORDY.findall(rest)) == 0:
            return []
    rows = text.split("\n")
    if len(rows) > 1 and all(_FIELD.match(row.strip()) for row in rows):
        return []
    read = _SHORT_REFERENCE.sub(r"\1", plain(text))
    # A line of tags is not a sentence.
    if not _WORDY.search(_HASH_TAG.sub("", read)):
        return []
    return _cut(read)


def _cut(read: str) -> list[str]:
    sentences: list[str] = []
    start = 0
    for end in [found.end() for found in _SENTENCE.finditer(read)]:
        if end - start >= (SHORTEST_END if read[end - 1].isascii() else SHORTEST_UNSPACED):
            sentences.append(read[start:end].strip())
            start = end
    if rest := read[start:].strip():
        sentences.append(rest)
    return sentences


def _rating(sentence: str, title: str) -> int:
    """Return how much a sentence tells about its page: `TELLING`, `VAGUE` or `POOR`; 0 if nothing."""
    if sentence.casefold().rstrip(".:") == title.casefold() or _CONTENTS.match(sentence):
        return 0
    words = len(sentence.split())
    if _UNSPACED.search(sentence):
        long = len(sentence) >= SHORTEST_UNSPACED
    else:
        long = len(sentence) >= FEWEST_CHARACTERS and words >= FEWEST_WORDS
    if not long or _FIELD.match(sentence):
        return POOR
    # A list completes what a colon announces; a table, code or an image does not.
    if sentence.endswith(":") or _NOTE.match(sentence) or _ASIDE.match(sentence):
        return VAGUE
    ended = words >= MANY_WORDS or ": " in sentence or _ENDED.search(sentence) is not None
    return TELLING if ended else VAGUE
