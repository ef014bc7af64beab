"""Texts of tasks as the HTML that Plane stores. Pure.

Plane parses what it gets with lxml, which puts several blocks into one `div`, and cleans it with nh3: scripts, event handlers
and addresses other than http, https, mailto and tel are dropped. The HTML made here has none of these, so Plane usually stores
it unchanged.

Source: github.com/makeplane/plane, apps/api/plane/utils/content_validator.py and api/serializers/issue.py; the editor's
elements (`mention-component`, `image-component`, task lists) from packages/editor/src/core/extensions.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cache

import nh3
from markdown_it import MarkdownIt
from markdown_it.rules_inline import StateInline
from markdown_it.token import Token

from mcp_server.connectors.plane.text.html_tree import (
    ADDRESS_SCHEMES,
    Element,
    bare_address,
    normal_address,
    parsed,
    plain_text,
    scheme_of,
)

DEEPEST = 50
"""The most levels of nested lists and quotes that the parser follows; it drops deeper text."""
THE_REST = "(The rest of this text is only in Plane.)"

NAMES_OF_TAGS = (
    "a blockquote br code del div em h1 h2 h3 h4 h5 h6 hr img input label li ol p pre s span strong table tbody td th thead tr "
    "ul"
)
TAGS = frozenset(NAMES_OF_TAGS.split())
ATTRIBUTES = {
    "a": {"href", "title"},
    "code": {"class"},
    "img": {"src", "alt", "title"},
    "input": {"type", "checked"},
    "li": {"data-type", "data-checked"},
    "ol": {"start"},
    "td": {"style"},
    "th": {"style"},
    "ul": {"data-type"},
}


def html_of(markdown: str) -> str:
    """Return `markdown` (CommonMark, tables, strike-through, task lists, bare addresses) as HTML that Plane stores; "" for none.

    HTML in it is text, so that no word is lost. A link whose address Plane would drop is written as text.
    """
    parser = markdown_parser()
    tokens = parser.parse(markdown)
    # Already near the limit, because dropped text leaves no token that would show it.
    if any(token.level >= DEEPEST - 2 for token in tokens):
        # The parser drops deeper text. As one block of code, no word is lost.
        sign = fence_for(markdown)
        tokens = parser.parse(f"{sign}\n{markdown}\n{sign}")
    return nh3.clean(
        parser.renderer.render(tokens, parser.options, {}),
        tags=set(TAGS),
        attributes={tag: set(names) for tag, names in ATTRIBUTES.items()},
        url_schemes=set(ADDRESS_SCHEMES),
        filter_style_properties={"text-align"},
        link_rel=None,
    ).strip()


def fence_for(text: str) -> str:
    """Return a fence that no line of the text closes."""
    return "`" * max(3, 1 + max((len(found) for found in re.findall("`+", text)), default=0))


def differs(sent: str, stored: str | None) -> tuple[str, ...]:
    """Describe what the stored HTML lost or gained, one phrase for each; empty if both mean the same."""
    before, after = parsed(sent), parsed(stored or "")
    return (*_changed_words(before, after), *_changed_elements(before, after))


def same_words(sent: str, stored: str) -> bool:
    """Return whether both HTML texts have the same words in the same order."""
    return not _changed_words(parsed(sent), parsed(stored))


def _changed_words(before: Element, after: Element) -> tuple[str, ...]:
    ours, theirs = plain_text(before).split(), plain_text(after).split()
    # lxml may add or remove blanks between elements.
    if ours == theirs or "".join(ours) == "".join(theirs):
        return ()
    lost = (Counter(ours) - Counter(theirs)).total()
    added = (Counter(theirs) - Counter(ours)).total()
    counts = ((lost, "missing"), (added, "added"))
    notes = [f"{count} {'word' if count == 1 else 'words'} {what}" for count, what in counts if count]
    return (", ".join(notes) if notes else "words are in another order",)


SYNONYMS = {"b": "strong", "i": "em", "del": "s", "strike": "s"}
MEANINGLESS = frozenset({"div", "span", "tbody", "thead", "label", "html", "body"})
MEANINGFUL = {
    "a": ("href", "title"),
    "img": ("src", "alt"),
    "code": ("class",),
    "li": ("data-checked",),
    "ol": ("start",),
    "td": ("style",),
    "th": ("style",),
    "ul": ("data-type",),
}


def _changed_elements(before: Element, after: Element) -> tuple[str, ...]:
    ours, theirs = _count_elements(before), _count_elements(after)
    tags = [Counter({tag: n for (tag, name, _), n in counts.items() if not name}) for counts in (ours, theirs)]
    lost, added = tags[0] - tags[1], tags[1] - tags[0]
    notes = [f"{count} <{tag}> dropped" for tag, count in sorted(lost.items())]
    notes += [f"{count} <{tag}> added" for tag, count in sorted(added.items())]
    changed: Counter[tuple[str, str]] = Counter()
    for (tag, name, _value), count in (ours - theirs).items():
        if name:
            changed[tag, name] += count
    # The attributes of a dropped element are gone with it, so they are not reported separately.
    notes += [
        f"{name} of {count} <{tag}> dropped or changed"
        for (tag, name), count in sorted(changed.items())
        if count > lost[tag]
    ]
    return tuple(notes)


def _count_elements(root: Element) -> Counter[tuple[str, str, str]]:
    """Return how often each element occurs (tag, "", ""), and each meaningful attribute (tag, name, value)."""
    found: Counter[tuple[str, str, str]] = Counter()
    for element in root.every():
        tag = SYNONYMS.get(element.tag, element.tag)
        if tag in MEANINGLESS:
            continue
        found[tag, "", ""] += 1
        for name in MEANINGFUL.get(tag, ()):
            value = element.attributes.get(name)
            if value:
                if name in ("href", "src"):
                    value = normal_address(value)
                elif name == "style":
                    value = value.replace(" ", "").rstrip(";")
                found[tag, name, value] += 1
    return found


@cache
def markdown_parser() -> MarkdownIt:
    """Return the parser whose rendering Plane stores."""
    parser = MarkdownIt("commonmark", {"html": False, "maxNesting": DEEPEST, "xhtmlOut": False})
    parser.enable(["table", "strikethrough"])
    parser.inline.ruler.before("backticks", "bare_address", _bare_address)
    parser.core.ruler.push("for_plane", lambda state: _adapt(state.tokens))
    return parser


def _bare_address(state: StateInline, silent: bool) -> bool:  # noqa: FBT001 - markdown-it calls it so
    """Make a link of an address in the text, as people write it.

    The parser calls rules at special characters only. So the rule begins at the colon, with the scheme already read.
    """
    scheme = scheme_before(state.pending) if state.src[state.pos] == ":" and not state.linkLevel else ""
    if not scheme:
        return False
    found = bare_address(state.src[state.pos - len(scheme) :])
    address = state.md.normalizeLink(found) if found else ""
    if not address or not state.md.validateLink(address):
        return False
    if not silent:
        state.pending = state.pending[: -len(scheme)]
        state.push("link_open", "a", 1).attrs = {"href": address}
        state.push("text", "", 0).content = found
        state.push("link_close", "a", -1)
    state.pos += len(found) - len(scheme)
    return True


def scheme_before(text: str) -> str:
    """Return `http` or `https`, as it is written, if the text ends with that word; else ""."""
    for scheme in ("https", "http"):
        if text[-len(scheme) :].lower() == scheme:
            ahead = text[-len(scheme) - 1 : -len(scheme)]
            return "" if ahead.isalnum() or ahead == "_" else text[-len(scheme) :]
    return ""


def _adapt(tokens: list[Token]) -> None:
    """Change the parsed text into forms that Plane's editor knows."""
    for token in tokens:
        if token.type == "inline" and token.children is not None:
            token.children = _adapt_line(token.children)
        elif token.type in ("fence", "code_block"):
            token.content = token.content.removesuffix("\n")
            token.info = token.info.split(maxsplit=1)[0] if token.info.strip() else ""
            token.type = "fence"
            token.tag = "code"
    _adapt_lists(tokens)


def _adapt_line(children: list[Token]) -> list[Token]:
    """Return a line in which a soft break is a blank, and an address that Plane would drop is written in brackets."""
    adapted: list[Token] = []
    dropped: list[str | None] = []
    for token in children:
        if token.type == "softbreak":
            adapted.append(Token("text", "", 0, content=" "))
        elif token.type == "link_open" and _is_dropped(str(token.attrs.get("href", ""))):
            dropped.append(str(token.attrs["href"]))
        elif token.type == "link_open":
            dropped.append(None)
            adapted.append(token)
        elif token.type == "link_close" and (address := dropped.pop()) is not None:
            adapted.append(Token("text", "", 0, content=f" ({address})"))
        elif token.type == "image" and _is_dropped(str(token.attrs.get("src", ""))):
            adapted.append(Token("text", "", 0, content=token.content))
        else:
            adapted.append(token)
    return adapted


def _is_dropped(address: str) -> bool:
    scheme = scheme_of(address)
    return scheme is not None and scheme not in ADDRESS_SCHEMES


def _adapt_lists(tokens: list[Token]) -> None:
    """Make lists tight or loose by their contents, and bullet lists with boxes in all items into task lists."""
    opened: list[int] = []
    ends: dict[int, int] = {}
    for index, token in enumerate(tokens):
        if token.nesting == 1:
            opened.append(index)
        elif token.nesting == -1:
            ends[opened.pop()] = index
    inserted: dict[int, list[Token]] = {}
    for start, token in enumerate(tokens):
        if token.type in ("bullet_list_open", "ordered_list_open"):
            _adapt_list(tokens, start, ends, inserted)
    if inserted:
        tokens[:] = [part for index, token in enumerate(tokens) for part in (*inserted.get(index, ()), token)]


def _adapt_list(tokens: list[Token], start: int, ends: Mapping[int, int], inserted: dict[int, list[Token]]) -> None:
    items = {item: _starts(item, ends) for item in _starts(start, ends)}
    tight = all(is_simple_item([tokens[block].type for block in blocks], "paragraph_open") for blocks in items.values())
    tasks = tokens[start].type == "bullet_list_open" and all(_has_box(tokens, blocks) for blocks in items.values())
    for item, blocks in items.items():
        for block in blocks:
            if tokens[block].type == "paragraph_open":
                tokens[block].hidden = tokens[ends[block]].hidden = tight and not tasks
        if tasks:
            _make_task(tokens, item, ends[item], inserted)
    if tasks:
        tokens[start].attrSet("data-type", "taskList")


def _starts(parent: int, ends: Mapping[int, int]) -> list[int]:
    """Return the positions of the tokens directly inside `parent`."""
    starts, at = [], parent + 1
    while at < ends[parent]:
        starts.append(at)
        at = ends.get(at, at) + 1
    return starts


def is_simple_item(kinds: Sequence[str], line: str) -> bool:
    """Return whether an item is one line of text at most, followed by nothing but lists; `line` is the kind of such a line."""
    below = kinds[1:] if kinds[:1] == [line] else kinds
    return all(kind in ("bullet_list_open", "ordered_list_open", "ul", "ol") for kind in below)


def _has_box(tokens: list[Token], blocks: Sequence[int]) -> bool:
    """Return whether an item begins with a box, open or ticked."""
    if not blocks or tokens[blocks[0]].type != "paragraph_open":
        return False
    line = tokens[blocks[0] + 1]
    first = next(iter(line.children or ()), None)
    # An escaped box looks the same once it is parsed, so the source is checked, too.
    return first is not None and first.type == "text" and _is_box(first.content) and _is_box(line.content)


def _is_box(text: str) -> bool:
    return text[:4].lower().rstrip() in ("[ ]", "[x]") and text[3:4] in ("", " ")


def _make_task(tokens: list[Token], item: int, end: int, inserted: dict[int, list[Token]]) -> None:
    first = (tokens[item + 2].children or [])[0]
    ticked = first.content[1] != " "
    first.content = first.content[4:]
    tokens[item].attrSet("data-type", "taskItem")
    tokens[item].attrSet("data-checked", "true" if ticked else "false")
    box = f'<label><input type="checkbox"{" checked" if ticked else ""}><span></span></label><div>'
    inserted.setdefault(item + 1, []).insert(0, Token("html_block", "", 0, content=box))
    inserted.setdefault(end, []).append(Token("html_block", "", 0, content="</div>"))
