"""Reads inline Markdown: words without their markup, links, tags. Pure, and linear in the length of the text."""

from __future__ import annotations

import re
from collections.abc import Sequence

# Possessive quantifiers (`++`, `*+`) keep these linear: a line may be the whole file, and brackets may never close.
_MARKUP = re.compile(r"[`*_\[\]<&\\~=!%]")
_TICKS = re.compile(r"`+")
_WIKI = re.compile(r"\[\[([^\[\]\n|]++)(\|[^\[\]\n]*+)?\]\]")
_QUOTED_WIKI = re.compile(r"[\"']!?\[\[([^\[\]\n|]++)(?:\|[^\[\]\n]*+)?\]\]")
_TARGET = r"\(\s*(?:<([^<>\n]*+)>|((?:[^\s()\\]|\\.|\([^\s()]*+\))*+))"
_LINK_TARGET = re.compile(r"\]" + _TARGET)
_DEFINED_TARGET = re.compile(
    # On the next line only if that has nothing else: `[words]:` before a paragraph defines nothing.
    r"^ {0,3}\[(?!\^)[^\[\]\n]{1,200}\]:[ \t]*(?:\n[ \t]*(?=\S+[ \t]*$))?(?:<([^<>\n]+)>|(\S+))",
    re.MULTILINE,
)
# As in Obsidian, a formula in a line begins and ends without a blank, so that prices are not formulas.
_FORMULA = re.compile(r"\$\$.+?\$\$|(?<![\\$\w])\$(?=[^\s$])[^$\n]*?[^\s\\$]\$(?![\d$])", re.DOTALL)
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:|//|#")
# As in Obsidian, everything but white space and punctuation, including the punctuation of Chinese and Japanese.
_TAG = re.compile(
    r"#([^\s\x00-\x1f\x7f-\x9f!\"#$%&'()*+,.:;<=>?@\[\\\]^`{|}~\u2000-\u200c\u200e-\u206f\u2e00-\u2e7f"
    r"\u3000-\u3003\u3008-\u3020\u30fb\uff01-\uff0f\uff1a-\uff20\uff3b-\uff3e\uff5b-\uff65]+)"
)

_IMAGE = re.compile(r"!\[([^\[\]]*+)\](?:\([^()\n]*+(?:\([^()\n]*+\)[^()\n]*+)*+\)|\[[^\[\]\n]*+\])?")
_LINK = re.compile(r"\[([^\[\]]*+)\](?:\([^()\n]*+(?:\([^()\n]*+\)[^()\n]*+)*+\)|\[[^\[\]\n]*+\])")
_FOOTNOTE = re.compile(r"\[\^[^\[\]\n]++\]")
_AUTOLINK = re.compile(r"<((?:[A-Za-z][A-Za-z0-9+.-]{1,31}:|[\w.+-]++@)[^<>\s]*+)>")
_TAG_PAIR = re.compile(r"</?[A-Za-z][^<>\n]*+>")
_COMMENT = re.compile(r"%%[^%]*+%%")
_STRONG = re.compile(r"\*{1,3}(?=\S)|(?<=\S)\*{1,3}|~~|==")
_UNDERSCORE = re.compile(r"(?<!\w)_{1,3}(?=\S)|(?<=\S)_{1,3}(?!\w)")
_ESCAPE = re.compile(r"\\([!-/:-@\[-`{-~])")
_ENTITIES = {"&amp;": "&", "&lt;": "<", "&gt;": ">", "&quot;": '"', "&#39;": "'", "&nbsp;": " "}
_ENTITY = re.compile("|".join(_ENTITIES))
_KEPT = re.compile("\x00([0-9]+)\x00")
_BLOCK_MARK = re.compile(r"^\s{0,3}(?:#{1,6}\s+|>\s?|[-*+]\s+(?:\[[ xX]\]\s+)?)")
_RULE = re.compile(r"\s*(?:`{3,}.*|~{3,}.*|[|\s:-]*-{3,}[|\s:-]*)")


ATTRIBUTES = re.compile(r"\s*\{(?::?\s*((?:[#.][^\s{}]+\s*)+)|/\*?\s*([\w-]+)\s*\*?/)\}\s*#*\s*$")
"""What many site generators take at the end of a heading: `{#id .class}`, and `{/*id*/}` in MDX, also without its markup."""


def without_attributes(text: str) -> str:
    """Return a heading without the attributes at its end, as people read it."""
    return ATTRIBUTES.sub("", text) if "{" in text else text


def plain(text: str, *, keep_html: bool = False) -> str:
    """Return `text` without its markup: the labels of links, the descriptions of images, no emphasis, code without backticks.

    With `keep_html` elements stay as they are written.
    """
    if not _MARKUP.search(text):
        return " ".join(text.split())
    # Code and escaped characters are set aside first, so that what looks like markup in them stays.
    kept: list[str] = []

    def keep(words: str) -> str:
        kept.append(words)
        return f"\x00{len(kept) - 1}\x00"

    text = text.replace("\x00", "\ufffd")
    parts: list[str] = []
    at = 0
    for start, end, ticks in code_spans(text):
        parts += [text[at:start], keep(text[start + ticks : end - ticks].strip())]
        at = end
    text = "".join([*parts, text[at:]])
    if "\\" in text:
        text = _ESCAPE.sub(lambda found: keep(found[1]), text)
    text = _COMMENT.sub("", text) if "%%" in text else text
    if "[" in text:
        text = _WIKI.sub(lambda found: found[2][1:] if found[2] else found[1], text)
        text = _FOOTNOTE.sub("", text)
        text = _LINK.sub(r"\1", _IMAGE.sub(r"\1", text))
    if "<" in text and not keep_html:
        text = _TAG_PAIR.sub("", _AUTOLINK.sub(r"\1", text))
    if "*" in text or "~~" in text or "==" in text:
        text = _STRONG.sub("", text)
    if "_" in text:
        text = _UNDERSCORE.sub("", text)
    text = _ENTITY.sub(lambda found: _ENTITIES[found[0]], text) if "&" in text else text
    return " ".join(_KEPT.sub(lambda found: kept[int(found[1])], text).split())


def plain_blocks(text: str, *, keep_html: bool = False) -> str:
    """Return several blocks as one line of words, also without the marks of headings, quotes, items, tables and fences."""
    lines = [_BLOCK_MARK.sub("", line) for line in text.splitlines() if not _RULE.fullmatch(line)]
    joined = " ".join(line.replace("|", " ") if line.startswith("|") else line for line in lines)
    return plain(joined.replace("![[", "[["), keep_html=keep_html)


def code_spans(text: str) -> list[tuple[int, int, int]]:
    """Return (start, end, length of the ticks) of every code span, ticks included; a run without a partner is text."""
    # The partners are found from the back in one pass; searching forward from each run would take quadratic time.
    runs = [(found.start(), found.end() - found.start()) for found in _TICKS.finditer(text)]
    if len(runs) < 2:
        return []
    following: dict[int, int] = {}
    partner = [-1] * len(runs)
    for index in range(len(runs) - 1, -1, -1):
        length = runs[index][1]
        partner[index] = following.get(length, -1)
        following[length] = index
    spans: list[tuple[int, int, int]] = []
    index = 0
    while index < len(runs):
        start, length = runs[index]
        escaped = start > 0 and text[start - 1] == "\\"
        if partner[index] < 0 or escaped:
            index += 1
            continue
        spans.append((start, runs[partner[index]][0] + length, length))
        index = partner[index] + 1
    return spans


def without_code(text: str) -> str:
    """Return `text` with a space in place of every code span; a span ends with its paragraph."""
    if "`" not in text:
        return text
    if "\n\n" in text:
        return "\n\n".join(without_code(part) for part in text.split("\n\n"))
    parts: list[str] = []
    at = 0
    for start, end, _ in code_spans(text):
        parts.append(text[at:start])
        at = end
    return " ".join([*parts, text[at:]])


def without_comments(text: str) -> str:
    """Return `text`, which has no code in it, with a space in place of each `%% comment %%`; a comment ends with its paragraph."""
    if "%%" not in text:
        return text
    if "\n\n" in text:
        return "\n\n".join(without_comments(part) for part in text.split("\n\n"))
    parts = text.split("%%")
    # A last mark without a partner hides nothing.
    tail = [] if len(parts) % 2 else ["%%", parts.pop()]
    return " ".join(parts[::2]) + "".join(tail)


def formulas(text: str) -> list[tuple[int, int]]:
    """Return where the formulas of a text are, `$x$` and `$$x$$`: the brackets in them are no links."""
    return [found.span() for found in _FORMULA.finditer(text)] if "$" in text else []


def link_targets(text: str) -> list[tuple[str, bool]]:
    """Return the targets of wiki links, embeds and relative links, in order and once each.

    Each comes with whether it was written as a wiki link or embed. `text` has no code in it.
    """
    found: list[tuple[int, str, bool]] = []
    if "[[" in text:
        found += [(match.start(), match[1].strip(), True) for match in _WIKI.finditer(text)]
    if "](" in text:
        found += [
            (match.start(), match[1] or match[2] or "", False)
            for match in _LINK_TARGET.finditer(text)
            if not text.endswith("\\", 0, match.start())
        ]
    if "]:" in text:
        found += [(match.start(), match[1] or match[2], False) for match in _DEFINED_TARGET.finditer(text)]
    found.sort(key=lambda link: link[0])
    return list(dict.fromkeys((target, wiki) for _, target, wiki in found if target and not _SCHEME.match(target)))


def quoted_targets(front: Sequence[str]) -> list[tuple[str, bool]]:
    """Return the targets of the wiki links in quotes in the lines of a front matter, as `link_targets` does."""
    linking = (line for line in front if "[[" in line)
    return [(found[1].strip(), True) for line in linking for found in _QUOTED_WIKI.finditer(line)]


def inline_tags(text: str) -> list[str]:
    """Return the `#tags` of `text` without the sign, as Obsidian finds them: after white space, and not only digits."""
    if "#" not in text:
        return []
    # A lookbehind in the pattern would be tried at every character, so what precedes is checked here.
    found = (match for match in _TAG.finditer(text) if not match.start() or text[match.start() - 1].isspace())
    tags = (match[1].strip("/") for match in found)
    return [tag for tag in tags if tag and not tag.isdigit()]
