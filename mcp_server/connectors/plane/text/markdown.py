"""Texts of tasks: Markdown out to the HTML that Plane keeps, and back. Pure; the parsers are loaded with the first text.

Plane parses what it is sent with lxml, which puts several blocks into one `div`, and cleans it with nh3: scripts, event
handlers and addresses other than http, https, mailto and tel go. What is made here is already of that kind, so that as a rule
it is kept as it is sent.

Source: github.com/makeplane/plane, apps/api/plane/utils/content_validator.py and api/serializers/issue.py; the editor's
elements (`mention-component`, `image-component`, task lists) from packages/editor/src/core/extensions.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING

from mcp_server.connectors.plane.text.html_tree import (
    ADDRESS_SCHEMES,
    Element,
    address_of,
    bare_address,
    parsed,
    plain_text,
    scheme_of,
)

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.rules_inline import StateInline
    from markdown_it.token import Token

DEEPEST = 50
"""Levels of lists and quotes inside each other that the parser follows; it drops what is deeper."""
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
    """Return `markdown` (CommonMark, tables, strike-through, task lists, bare addresses) as HTML that Plane keeps; "" for none.

    HTML in it is text, so that no word of it is lost; a link that Plane would take the address from is told in words.
    """
    import nh3

    parser = markdown_parser()
    tokens = parser.parse(markdown)
    if any(token.level >= DEEPEST - 2 for token in tokens):
        tokens = parser.parse(_as_code(markdown))
    return nh3.clean(
        parser.renderer.render(tokens, parser.options, {}),
        tags=set(TAGS),
        attributes={tag: set(names) for tag, names in ATTRIBUTES.items()},
        url_schemes=set(ADDRESS_SCHEMES),
        filter_style_properties={"text-align"},
        link_rel=None,
    ).strip()


def _as_code(markdown: str) -> str:
    """Return a text that is nested so deeply that the parser would leave some of it out as one block of code."""
    sign = "`" * max(3, 1 + max((len(found) for found in re.findall("`+", markdown)), default=0))
    return f"{sign}\n{markdown}\n{sign}"


def differs(sent: str, kept: str | None) -> tuple[str, ...]:
    """Return in words what of the HTML that was sent is not in the HTML that Plane has; nothing where both mean the same."""
    before, after = parsed(sent), parsed(kept or "")
    return (*_words_lost(before, after), *_elements_lost(before, after))


def same_words(sent: str, kept: str) -> bool:
    """Return whether both HTML texts have the same words in the same order."""
    return not _words_lost(parsed(sent), parsed(kept))


def _words_lost(before: Element, after: Element) -> tuple[str, ...]:
    ours, theirs = plain_text(before).split(), plain_text(after).split()
    if ours == theirs or "".join(ours) == "".join(theirs):
        return ()
    lost = (Counter(ours) - Counter(theirs)).total()
    added = (Counter(theirs) - Counter(ours)).total()
    told = [f"{what}: {count}" for count, what in ((lost, "words missing"), (added, "words new")) if count]
    return (", ".join(told) if told else "words are in another order",)


ALIKE = {"b": "strong", "i": "em", "del": "s", "strike": "s"}
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


def _elements_lost(before: Element, after: Element) -> tuple[str, ...]:
    ours, theirs = _elements(before), _elements(after)
    lost = Counter({tag: count for tag, count in (_tags(ours) - _tags(theirs)).items() if tag})
    added = _tags(theirs) - _tags(ours)
    told = [f"{count} <{tag}> dropped" for tag, count in sorted(lost.items())]
    told += [f"{count} <{tag}> added" for tag, count in sorted(added.items())]
    changed = Counter(
        (tag, name) for (tag, name, _value), count in (ours - theirs).items() if name for _ in range(count)
    )
    told += [
        f"{name} of {count} <{tag}> dropped or changed"
        for (tag, name), count in sorted(changed.items())
        if count > lost[tag]
    ]
    return tuple(told)


def _elements(root: Element) -> Counter[tuple[str, str, str]]:
    """Return how often each element is there, and each attribute that means something."""
    found: Counter[tuple[str, str, str]] = Counter()
    for element in root.every():
        tag = ALIKE.get(element.tag, element.tag)
        if tag in MEANINGLESS:
            continue
        found[tag, "", ""] += 1
        for name in MEANINGFUL.get(tag, ()):
            value = element.attributes.get(name)
            if value:
                found[tag, name, _alike(name, value)] += 1
    return found


def _alike(name: str, value: str) -> str:
    if name in ("href", "src"):
        return address_of(value)
    return value.replace(" ", "").rstrip(";") if name == "style" else value


def _tags(elements: Counter[tuple[str, str, str]]) -> Counter[str]:
    return Counter({tag: count for (tag, name, _value), count in elements.items() if not name})


@cache
def markdown_parser() -> MarkdownIt:
    """Return the parser whose rendering Plane keeps."""
    from markdown_it import MarkdownIt

    parser = MarkdownIt("commonmark", {"html": False, "maxNesting": DEEPEST, "xhtmlOut": False})
    parser.enable(["table", "strikethrough"])
    parser.inline.ruler.before("backticks", "bare_address", _bare_address)
    parser.core.ruler.push("as_plane_keeps_it", lambda state: _fit(state.tokens))
    return parser


def _bare_address(state: StateInline, silent: bool) -> bool:  # noqa: FBT001 - markdown-it calls it so
    """Make a link of an address that stands in the text as it is."""
    scheme = bare_scheme(state.pending) if state.src[state.pos] == ":" and not state.linkLevel else ""
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


def bare_scheme(before: str) -> str:
    """Return `http` or `https` where a text ends with that word, else ""."""
    for scheme in ("https", "http"):
        if before[-len(scheme) :].lower() == scheme:
            ahead = before[-len(scheme) - 1 : -len(scheme)]
            return before[-len(scheme) :] if not (ahead.isalnum() or ahead == "_") else ""
    return ""


def _fit(tokens: list[Token]) -> None:
    """Change what was parsed into what Plane's editor knows."""
    for token in tokens:
        if token.type == "inline" and token.children is not None:
            token.children = _told_addresses(token.children)
        elif token.type in ("fence", "code_block"):
            token.content = token.content.removesuffix("\n")
            token.info = token.info.split(maxsplit=1)[0] if token.info.strip() else ""
            token.type = "fence"
            token.tag = "code"
    _fit_lists(tokens)


def _told_addresses(children: list[Token]) -> list[Token]:
    """Return inline tokens in which a line break is a space, and an address that Plane would drop is told in brackets."""
    from markdown_it.token import Token

    fitted: list[Token] = []
    dropped: list[str | None] = []
    for token in children:
        if token.type == "softbreak":
            fitted.append(Token("text", "", 0, content=" "))
        elif token.type == "link_open" and _would_be_dropped(str(token.attrs.get("href", ""))):
            dropped.append(str(token.attrs["href"]))
        elif token.type == "link_open":
            dropped.append(None)
            fitted.append(token)
        elif token.type == "link_close" and (address := dropped.pop()) is not None:
            fitted.append(Token("text", "", 0, content=f" ({address})"))
        elif token.type == "image" and _would_be_dropped(str(token.attrs.get("src", ""))):
            fitted.append(Token("text", "", 0, content=token.content))
        else:
            fitted.append(token)
    return fitted


def _would_be_dropped(address: str) -> bool:
    scheme = scheme_of(address)
    return scheme is not None and scheme not in ADDRESS_SCHEMES


def _fit_lists(tokens: list[Token]) -> None:
    """Make lists tight or loose by what is in them, and those that only have boxes into task lists."""
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
            _fit_list(tokens, start, ends, inserted)
    if inserted:
        tokens[:] = [part for index, token in enumerate(tokens) for part in (*inserted.get(index, ()), token)]


def _fit_list(tokens: list[Token], start: int, ends: Mapping[int, int], inserted: dict[int, list[Token]]) -> None:
    items, at = [], start + 1
    while at < ends[start]:
        items.append(at)
        at = ends[at] + 1
    parts = {item: _parts(item, ends) for item in items}
    tight = all(_is_simple([tokens[part].type for part in parts[item]]) for item in items)
    tasks = tokens[start].type == "bullet_list_open" and all(_box(tokens, parts[item]) for item in items)
    for item in items:
        for part in parts[item]:
            if tokens[part].type == "paragraph_open":
                tokens[part].hidden = tokens[ends[part]].hidden = tight and not tasks
        if tasks:
            _make_task(tokens, item, ends[item], inserted)
    if tasks:
        tokens[start].attrSet("data-type", "taskList")


def _parts(item: int, ends: Mapping[int, int]) -> list[int]:
    """Return where the blocks of an item begin."""
    parts, at = [], item + 1
    while at < ends[item]:
        parts.append(at)
        at = ends.get(at, at) + 1
    return parts


def _is_simple(kinds: list[str]) -> bool:
    """Return whether an item is one line of text, with lists below it or none."""
    below = kinds[1:] if kinds[:1] == ["paragraph_open"] else kinds
    return all(kind in ("bullet_list_open", "ordered_list_open") for kind in below)


def _box(tokens: list[Token], parts: list[int]) -> bool:
    """Return whether an item begins with a box, open or ticked, and says something behind it."""
    if not parts or tokens[parts[0]].type != "paragraph_open":
        return False
    line = tokens[parts[0] + 1]
    first = next(iter(line.children or ()), None)
    # What was escaped looks the same once it is parsed, so it is asked how it was written, too.
    return first is not None and first.type == "text" and _is_box(first.content) and _is_box(line.content)


def _is_box(text: str) -> bool:
    return text[:4].lower().rstrip() in ("[ ]", "[x]") and text[3:4] in ("", " ")


def _make_task(tokens: list[Token], item: int, end: int, inserted: dict[int, list[Token]]) -> None:
    from markdown_it.token import Token

    first = (tokens[item + 2].children or [])[0]
    ticked = first.content[1] != " "
    first.content = first.content[4:]
    tokens[item].attrSet("data-type", "taskItem")
    tokens[item].attrSet("data-checked", "true" if ticked else "false")
    box = f'<label><input type="checkbox"{" checked" if ticked else ""}><span></span></label><div>'
    inserted.setdefault(item + 1, []).insert(0, Token("html_block", "", 0, content=box))
    inserted.setdefault(end, []).append(Token("html_block", "", 0, content="</div>"))
