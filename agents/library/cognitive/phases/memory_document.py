"""The document that a cognitive agent leaves behind: its form, and the check of its faults. Pure."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from agents.library.cognitive.sources import DOWNSTREAM_DIRECTIVES, HEADINGS, JOHARI_SUMMARY, STEP_OVERVIEW
from knowledge.pages.markdown.blocks import scan

RULE = "---"
TITLES = tuple(f"Section {number}: {heading}" for number, heading in enumerate(HEADINGS))
LABELS = ("Known knowns", "Known unknowns", "Unknown unknowns")
DIGESTED = (DOWNSTREAM_DIRECTIVES, STEP_OVERVIEW, JOHARI_SUMMARY)
"""The parts of a document that are for others, most important first: a digest that is too long is cut at its end."""
RESULT = "Result"
"""The heading of the last step's work, below the other steps."""
UNFILLED = "(say it here)"
"""The placeholder in the skeletons that earlier versions gave to hosts."""
MOST_PROBLEMS = 12
CACHED = 32
"""Documents whose sections are cached: a prompt looks at each of them several times."""
# Models write `Known-unknowns`, `unknown unknowns` and `**Known knowns**`; all of them count.
_LABEL = re.compile(r"(?<![\w])(un)?known[ -]+(un)?knowns(?!\w)", re.IGNORECASE)
_WORD = re.compile(r"[^\W_]")
_FENCE = re.compile(r"(```|~~~)")
_TELLING = frozenset({"heading", "paragraph", "list", "table", "quote", "fence", "code", "html"})
_LINE_END = re.compile(r"\r\n?|\n")


@dataclass(frozen=True, slots=True)
class Expected:
    """The required parts of a document: the agent's title, its closing marker, its steps, and one of the names of its task."""

    title: str
    marker: str
    steps: Sequence[str]
    tasks: Sequence[str]

    @property
    def heading(self) -> str:
        """The beginning of its first line."""
        return f"{self.title} Agent Output:"


@dataclass(frozen=True, slots=True)
class _DocumentSection:
    """The text under a heading of level 1 or 2; `told` is the same without rules and comments, `says` also without headings."""

    level: int
    title: str
    text: str
    told: str
    says: str


def problems(document: str, expected: Expected) -> Sequence[str]:
    """Return the faults of a document, each as a sentence that says what to do."""
    lines, found = _lines(document), _sections(document)
    # The only fault then: everything else would be reported missing, because a code block has no headings.
    if _FENCE.match(lines[0]):
        return ["the document is inside a code block: submit the Markdown itself, without the fence around it"]
    told = [
        *_beginning(lines, found, expected),
        *_outline(found),
        *_filled(found),
        *_covered(found, expected),
        *_ending(lines, expected),
    ]
    return told[:MOST_PROBLEMS]


def section(document: str, heading: str) -> str:
    """Return the text of the section with that heading (`Downstream Directives`), or ""."""
    title = TITLES[HEADINGS.index(heading)].casefold()
    return next((one.text for one in _sections(document) if one.title.casefold() == title), "")


def findings(document: str) -> Mapping[str, str]:
    """Return the sections with what an agent found, by their headings, most important first."""
    return {heading: text for heading in DIGESTED if (text := section(document, heading))}


def digest(document: str, without: Collection[str] = ()) -> str:
    """Return the part of the document that is for the next agents, most important first, without some of its headings.

    Of the steps it has the result, if the document says which it is.
    """
    told = {heading: text for heading, text in findings(document).items() if heading not in without}
    if STEP_OVERVIEW in told:
        told[STEP_OVERVIEW] = told[STEP_OVERVIEW].rpartition(f"### {RESULT}\n")[2].strip()
    return "\n".join(f"### {heading}\n{text}" for heading, text in told.items() if text)


def document_of(expected: Expected, about: str, sections: Sequence[Sequence[str]], result: Sequence[str] = ()) -> str:
    """Return a document about `about` with these texts as lists in its sections. Each text becomes one line.

    The last step's `result` follows the steps before it, under a heading of its own.
    """
    parts = [f"# {expected.heading} {about}"]
    for title, texts in zip(TITLES, sections, strict=True):
        parts += [f"## {title}", *([_listed(texts)] if texts else [])]
        if result and title.endswith(STEP_OVERVIEW):
            parts += [f"### {RESULT}", _listed(result)]
    return "\n\n".join([*parts, f"{RULE}\n**{expected.marker}**"])


def _listed(texts: Sequence[str]) -> str:
    lines = (" ".join(text.split()) for text in texts)
    # A line in parentheses cannot begin a fence, heading, rule or comment inside the item of a list.
    return "\n".join(f"- {line if line[:1].isalnum() else f'({line})'}" for line in lines)


# --- its sections -----------------------------------------------------------------------------------------------------


def _lines(document: str) -> list[str]:
    return _LINE_END.split(document.removeprefix("\ufeff").strip())


@lru_cache(maxsize=CACHED)
def _sections(document: str) -> tuple[_DocumentSection, ...]:
    """Return the text under each outermost heading of level 1 or 2, in order, without the closing lines."""
    body = _lines(document)
    told = [number for number, line in enumerate(body) if line.strip()]
    if len(told) > 1 and body[told[-2]].strip() == RULE and body[told[-1]].strip().startswith("**"):
        body = body[: told[-2]]
    blocks = scan(body).blocks
    heads = [block for block in blocks if block.kind == "heading" and block.level <= 2]
    found, starts = [], [block.start for block in blocks]
    ends = [*(head.start for head in heads), len(body)][1:]
    for head, end in zip(heads, ends, strict=True):
        there = blocks[bisect_left(starts, head.end) : bisect_left(starts, end)]
        # A comment or a rule shows a reader nothing, so it fills no section.
        inside = [b for b in there if b.kind in _TELLING and not body[b.start].lstrip().startswith("<!--")]
        told_lines = ["\n".join(body[b.start : b.end]) for b in inside]
        says = [text for b, text in zip(inside, told_lines, strict=True) if b.kind != "heading"]
        title = " ".join(head.text.replace("*", "").replace("`", "").split())
        text = "\n".join(body[head.end : end]).strip()
        found.append(_DocumentSection(head.level, title, text, "\n".join(told_lines), "\n".join(says)))
    return tuple(found)


# --- its faults -------------------------------------------------------------------------------------------------------


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
    yield from (f"the section `## {title}` is missing: add it" for title in TITLES if title not in there)
    yield from (f"the section `## {title}` is there twice: merge them" for title in TITLES if there.count(title) > 1)
    once = list(dict.fromkeys(there))
    if once != [title for title in TITLES if title in once]:
        yield f"put the sections in this order: {', '.join(title for title in TITLES if title in once)}"
    for title in titles:
        if title.casefold() not in known:
            yield f"`## {title[:80]}` is not a section of a memory document: put it under one of them, as `###`"
    if sum(one.level == 1 for one in found) > 1:
        yield "there are several headings of the first level: only the first line may be one"


def _filled(found: Sequence[_DocumentSection]) -> Iterator[str]:
    for title in TITLES:
        for one in found:
            if one.title.casefold() != title.casefold():
                continue
            if not _WORD.search(one.says):
                yield f"`## {title}` is empty: fill it in"
            elif UNFILLED in one.says:
                yield f"`## {title}` still has `{UNFILLED}`: write what belongs there"


def _covered(found: Sequence[_DocumentSection], expected: Expected) -> Iterator[str]:
    """Yield the parts that sections lack: the task, steps, and labels."""
    told = {one.title.casefold(): one.told for one in found}
    loaded, overview, summary, _ = (told.get(title.casefold(), "") for title in TITLES)
    if loaded and not any(task in loaded for task in expected.tasks):
        yield f"`## {TITLES[0]}` does not name the task: write its id there, {expected.tasks[0]}"
    absent = _untold(expected.steps, overview)
    if overview and absent:
        yield f"`## {TITLES[1]}` leaves out {', '.join(absent)}: give the result of each step after its name"
    under = _under_labels(summary)
    for label in LABELS if summary else ():
        if label not in under:
            yield f"`## {TITLES[2]}` has no `{label}`: add a line with them, `{label}: none` if there are none"
        elif not _WORD.search(under[label]):
            yield f"`{label}` in `## {TITLES[2]}` is empty: name them, or write `none`"


def _untold(steps: Sequence[str], text: str) -> Sequence[str]:
    """Return the steps that the text does not name, or names without a result."""
    # Longest first, or a step whose name begins with another step's would be read as that one.
    names = "|".join(re.escape(step).replace("_", "[_ -]") for step in sorted(steps, key=len, reverse=True))
    named = re.compile(rf"(?<!\w)(?:{names})(?!\w)", re.IGNORECASE)
    told = {
        re.sub("[ -]", "_", mark.group()).casefold() for mark, after in _followed(named, text) if _WORD.search(after)
    }
    return [step for step in steps if step.casefold() not in told]


def _under_labels(text: str) -> Mapping[str, str]:
    """Return the text after each label, up to the next one."""
    found: dict[str, str] = {}
    for mark, after in _followed(_LABEL, text):
        label = f"{'Unknown' if mark.group(1) else 'Known'} {'unknowns' if mark.group(2) else 'knowns'}"
        found[label] = f"{found.get(label, '')}{after}"
    return found


def _followed(marked: re.Pattern[str], text: str) -> Iterator[tuple[re.Match[str], str]]:
    """Yield each mark in a text, and the text between it and the next one."""
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
        # Markdown reads a line of text with `---` right under it as a heading.
        yield f"put an empty line before the closing `{RULE}`: directly under a line of text it turns that line into a heading"
    elif kind != "break":
        yield f"the closing `{RULE}` is inside a code block, a quote or a list: close that before it"
