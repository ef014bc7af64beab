"""The document that a cognitive agent leaves behind: what stands in it, and what is wrong with it. Pure."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from agents.library.cognitive.sources import DOWNSTREAM_DIRECTIVES, HEADINGS, JOHARI_SUMMARY, STEP_OVERVIEW
from knowledge.pages.markdown.blocks import Block, scan

RULE = "---"
TITLES = tuple(f"Section {number}: {heading}" for number, heading in enumerate(HEADINGS))
LABELS = ("Known knowns", "Known unknowns", "Unknown unknowns")
DIGESTED = (DOWNSTREAM_DIRECTIVES, STEP_OVERVIEW, JOHARI_SUMMARY)
"""What of a document is for others, most important first: of a text that is too long the end is cut."""
UNFILLED = "(say it here)"
"""What stands in a skeleton where the author writes."""
MOST_PROBLEMS = 12
REMEMBERED = 32
"""So many documents are kept cut into sections: a prompt looks at each of them several times."""
_LABEL = re.compile(r"(?<![\w])(un)?known[ -]+(un)?knowns(?!\w)", re.IGNORECASE)
_WORD = re.compile(r"[^\W_]")
_FENCE = re.compile(r"(```|~~~)")
_TELLING = frozenset({"heading", "paragraph", "list", "table", "quote", "fence", "code", "html"})
_LINE_END = re.compile(r"\r\n?|\n")


@dataclass(frozen=True, slots=True)
class Expected:
    """Whose document it is: the agent's title, the marker that closes it, its steps, and the names that its task has."""

    title: str
    marker: str
    steps: Sequence[str]
    tasks: Sequence[str]

    @property
    def heading(self) -> str:
        """Return how its first line begins."""
        return f"{self.title} Agent Output:"


@dataclass(frozen=True, slots=True)
class _DocumentSection:
    """What stands under a heading of level 1 or 2: `text` as it is, `told` without rules and comments, `says` without headings."""

    level: int
    title: str
    text: str
    told: str
    says: str


def problems(document: str, expected: Expected) -> Sequence[str]:
    """Return what is wrong with a document, each as a sentence that says what to do; nothing if it is sound."""
    lines, found = _lines(document), _sections(document)
    if _FENCE.match(lines[0]):
        return ["the document stands inside a code block: submit the Markdown itself, without the fence around it"]
    told = [
        *_beginning(lines, found, expected),
        *_outline(found),
        *_saying(found),
        *_told_in(found, expected),
        *_ending(lines, expected),
    ]
    return told[:MOST_PROBLEMS]


def section(document: str, heading: str) -> str:
    """Return what stands in the section of that heading (`Downstream Directives`), "" if there is none."""
    title = TITLES[HEADINGS.index(heading)]
    return next((one.text for one in _sections(document) if _same(one.title, title)), "")


def digest(document: str, without: Collection[str] = ()) -> str:
    """Return what of the document is for whoever comes next, most important first; some of its headings may be left out."""
    told = {heading: section(document, heading) for heading in DIGESTED if heading not in without}
    return "\n".join(f"### {heading}\n{text}" for heading, text in told.items() if text)


def skeleton(expected: Expected, loaded: Sequence[str], about: str) -> str:
    """Return a document whose first section is filled in with the lines of `loaded`; the rest is for the author."""
    parts = [
        f"# {expected.heading} {about}",
        *_skeleton_section(0, loaded),
        *_skeleton_section(1, [f"{step}: {UNFILLED}" for step in expected.steps]),
        *_skeleton_section(2, [f"{label}: {UNFILLED}" for label in LABELS]),
        *_skeleton_section(3, [UNFILLED]),
        f"{RULE}\n**{expected.marker}**",
    ]
    return "\n\n".join(parts)


def _skeleton_section(number: int, lines: Sequence[str]) -> tuple[str, str]:
    return f"## {TITLES[number]}", "\n".join(f"- {line}" for line in lines)


# --- what stands in it ------------------------------------------------------------------------------------------------


def _lines(document: str) -> list[str]:
    return _LINE_END.split(document.removeprefix("\ufeff").strip())


@lru_cache(maxsize=REMEMBERED)
def _sections(document: str) -> tuple[_DocumentSection, ...]:
    """Return what stands under each outermost heading of level 1 or 2, in order, without the closing lines."""
    body = _without_closing(_lines(document))
    blocks = scan(body).blocks
    heads = [block for block in blocks if block.kind == "heading" and block.level <= 2]
    found, starts = [], [block.start for block in blocks]
    ends = [*(head.start for head in heads), len(body)][1:]
    for head, end in zip(heads, ends, strict=True):
        there = blocks[bisect_left(starts, head.end) : bisect_left(starts, end)]
        inside = [block for block in there if _tells(body, block)]
        saying = [block for block in inside if block.kind != "heading"]
        text = "\n".join(body[head.end : end]).strip()
        found.append(_DocumentSection(head.level, _plain(head.text), text, _of(body, inside), _of(body, saying)))
    return tuple(found)


def _tells(lines: Sequence[str], block: Block) -> bool:
    return block.kind in _TELLING and not lines[block.start].lstrip().startswith("<!--")


def _of(lines: Sequence[str], blocks: Sequence[Block]) -> str:
    return "\n".join("\n".join(lines[block.start : block.end]) for block in blocks)


def _without_closing(lines: Sequence[str]) -> list[str]:
    """Return the lines before the last rule, if nothing but a line in bold follows it."""
    told = [number for number, line in enumerate(lines) if line.strip()]
    if len(told) > 1 and lines[told[-2]].strip() == RULE and lines[told[-1]].strip().startswith("**"):
        return list(lines[: told[-2]])
    return list(lines)


def _plain(text: str) -> str:
    return " ".join(text.replace("*", "").replace("`", "").split())


def _same(one: str, other: str) -> bool:
    return one.casefold() == other.casefold()


# --- what is wrong with it --------------------------------------------------------------------------------------------


def _beginning(lines: Sequence[str], found: Sequence[_DocumentSection], expected: Expected) -> Iterator[str]:
    first = next((one for one in found if one.level == 1), None)
    wanted = f"`# {expected.heading} ...`"
    if first is None or not lines[0].startswith("#") or found[0] is not first:
        yield f"begin the document with the line {wanted}, which says what it is about"
        return
    if not first.title.casefold().startswith(expected.heading.casefold()):
        yield f"the first line is `# {first.title[:80]}`: begin it with {wanted}"
    elif not _WORD.search(first.title[len(expected.heading) :]):
        yield f"say in the first line what it is about, after `# {expected.heading}`"


def _outline(found: Sequence[_DocumentSection]) -> Iterator[str]:
    titles = [one.title for one in found if one.level == 2]
    known = {title.casefold(): title for title in TITLES}
    there = [known[title.casefold()] for title in titles if title.casefold() in known]
    missing = [title for title in TITLES if title not in there]
    yield from (f"the section `## {title}` is missing: add it" for title in missing)
    yield from (
        f"the section `## {title}` is there twice: make one of them" for title in TITLES if there.count(title) > 1
    )
    once = list(dict.fromkeys(there))
    if once != [title for title in TITLES if title in once]:
        yield f"put the sections in this order: {', '.join(title for title in TITLES if title in once)}"
    for title in titles:
        if title.casefold() not in known:
            yield f"`## {title[:80]}` is no section of a memory document: put it under one of them, as `###`"
    if sum(one.level == 1 for one in found) > 1:
        yield "there are several headings of the first level: only the first line is one"


def _saying(found: Sequence[_DocumentSection]) -> Iterator[str]:
    for title in TITLES:
        for one in found:
            if not _same(one.title, title):
                continue
            if not _WORD.search(one.says):
                yield f"`## {title}` says nothing: fill it in"
            elif UNFILLED in one.says:
                yield f"`## {title}` still has `{UNFILLED}`: write what belongs there"


def _told_in(found: Sequence[_DocumentSection], expected: Expected) -> Iterator[str]:
    of = {one.title.casefold(): one.told for one in found}
    loaded, overview, summary, _ = (of.get(title.casefold(), "") for title in TITLES)
    if loaded and not any(task in loaded for task in expected.tasks):
        yield f"`## {TITLES[0]}` does not name the task: write its id there, {expected.tasks[0]}"
    absent = _untold(expected.steps, overview)
    if overview and absent:
        yield f"`## {TITLES[1]}` does not tell of {', '.join(absent)}: say for each step, after its name, what came of it"
    under = _under_labels(summary)
    for label in LABELS if summary else ():
        if label not in under:
            yield f"`## {TITLES[2]}` has no `{label}`: add a line with them, `{label}: none` if there are none"
        elif not _WORD.search(under[label]):
            yield f"`{label}` in `## {TITLES[2]}` says nothing: name them, or write `none`"


def _untold(steps: Sequence[str], text: str) -> Sequence[str]:
    """Return the steps of which nothing is said anywhere after their name."""
    names = "|".join(re.escape(step).replace("_", "[_ -]") for step in sorted(steps, key=len, reverse=True))
    named = re.compile(rf"(?<!\w)(?:{names})(?!\w)", re.IGNORECASE)
    told = {_step(mark.group()) for mark, after in _followed(named, text) if _WORD.search(after)}
    return [step for step in steps if _step(step) not in told]


def _step(name: str) -> str:
    return re.sub("[ -]", "_", name).casefold()


def _under_labels(text: str) -> Mapping[str, str]:
    """Return what follows each label, up to the next one."""
    found: dict[str, str] = {}
    for mark, after in _followed(_LABEL, text):
        label = f"{'Unknown' if mark.group(1) else 'Known'} {'unknowns' if mark.group(2) else 'knowns'}"
        found[label] = f"{found.get(label, '')}{after}"
    return found


def _followed(marked: re.Pattern[str], text: str) -> Iterator[tuple[re.Match[str], str]]:
    """Yield each mark in a text, and what stands between it and the next one."""
    marks = list(marked.finditer(text))
    ends = [*(mark.start() for mark in marks), len(text)][1:]
    return ((mark, text[mark.end() : end]) for mark, end in zip(marks, ends, strict=True))


def _ending(lines: Sequence[str], expected: Expected) -> Iterator[str]:
    marker = f"**{expected.marker}**"
    told = [number for number, line in enumerate(lines) if line.strip()]
    if len(told) < 2 or lines[told[-1]].strip() != marker or lines[told[-2]].strip() != RULE:
        yield f"end the document with two lines, `{RULE}` and then `{marker}`, and nothing after them"
        return
    at = told[-2]
    kind = next((block.kind for block in scan(lines).blocks if block.start <= at < block.end), "break")
    if kind == "heading":
        yield f"put an empty line before the closing `{RULE}`: right under a line of text it makes a heading of it"
    elif kind != "break":
        yield f"the closing `{RULE}` stands inside a code block, a quote or a list: close that before it"
