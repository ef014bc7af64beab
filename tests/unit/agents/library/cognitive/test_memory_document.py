"""A memory document must have its form: four non-empty sections and the closing marker."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agents.library.cognitive.phases.memory_document import (
    MOST_PROBLEMS,
    UNFILLED,
    Expected,
    digest,
    problems,
    section,
)
from tests.support.agents.cognitive.documents import whole
from tests.support.agents.team_agents import HANDBOOK

EXPECTED = Expected("Analysis", "ANALYSIS_COMPLETE", ("DECOMPOSE", "WEIGH_OPTIONS"), ("analysis-0001",))
SOUND = """\
# Analysis Agent Output: Bees on the roof

## Section 0: Context Loaded

- Task: analysis-0001
- Request: Keep bees on the roof.

## Section 1: Step Overview

### DECOMPOSE

Three parts: law, place, time.

- Weigh options: the south roof is warmer and 10 metres higher.

```markdown
## Section 9: no heading, as it stands in code
```

## Section 2: Johari Summary

- **Known knowns**: the roof bears 300 kg.
- **Known unknowns**: whether the neighbours agree.
- **Unknown unknowns**: none

## Section 3: Downstream Directives

1. Ask the neighbours first.

---
**ANALYSIS_COMPLETE**
"""


def told(document: str) -> str:
    return " / ".join(problems(document, EXPECTED))


def test_a_sound_document_has_no_problems() -> None:
    assert problems(SOUND, EXPECTED) == []


@pytest.mark.parametrize("ends", ["\r\n", "\r"])
def test_line_ends_of_other_systems_are_line_ends(ends: str) -> None:
    assert problems("\ufeff" + SOUND.replace("\n", ends), EXPECTED) == []


def test_a_document_of_lists_is_sound_and_a_placeholder_in_it_is_reported() -> None:
    assert problems(whole(EXPECTED), EXPECTED) == []
    left = whole(EXPECTED, directive=UNFILLED)
    assert told(left) == f"`## Section 3: Downstream Directives` still has `{UNFILLED}`: write what belongs there"


BROKEN = [
    (
        "# Analysis Agent Output: Bees on the roof\n\n",
        "",
        "begin the document with the line `# Analysis Agent Output: ...`",
    ),
    (
        "# Analysis Agent Output: Bees on the roof",
        "Hello.\n\n# Analysis Agent Output: Bees",
        "begin the document with the line",
    ),
    ("# Analysis Agent Output: Bees on the roof", "# Analysis Agent Output:", "say in the first line what it is about"),
    (
        "# Analysis Agent Output: Bees",
        "# Output: Bees",
        "the first line is `# Output: Bees on the roof`: begin it with",
    ),
    (
        "## Section 0: Context Loaded",
        "### Section 0: Context Loaded",
        "`## Section 0: Context Loaded` is missing: add it",
    ),
    ("## Section 2: Johari Summary", "## Summary", "`## Summary` is not a section of a memory document"),
    ("- Task: analysis-0001\n", "", "does not name the task: write its id there, analysis-0001"),
    ("### DECOMPOSE", "### First", "leaves out DECOMPOSE: give the result of each step"),
    ("- Weigh options:", "- Weighoptions:", "leaves out WEIGH_OPTIONS"),
    (
        "### DECOMPOSE\n\nThree parts: law, place, time.\n\n- Weigh",
        "DECOMPOSE, weigh",
        "leaves out DECOMPOSE: give the",
    ),
    (
        "the south roof is warmer and 10 metres higher.\n\n```markdown\n## Section 9: no heading, as it stands in code\n```",
        "\u200b",
        "leaves out WEIGH_OPTIONS: give the result of each step after its name",
    ),
    ("- **Unknown unknowns**: none", "- **Unknown unknowns**: ___", "`Unknown unknowns` in `## Section 2"),
    (
        "# Analysis Agent Output: Bees",
        "~~~markdown\n# Analysis Agent Output: Bees",
        "submit the Markdown itself, without the fence",
    ),
    ("- **Known unknowns**: whether the neighbours agree.\n", "", "has no `Known unknowns`: add a line with them"),
    ("**Known unknowns**: whether the neighbours agree.", "**Known unknowns**:", "`Known unknowns` in `## Section 2"),
    ("1. Ask the neighbours first.\n", "", "`## Section 3: Downstream Directives` is empty: fill it in"),
    (
        "1. Ask the neighbours first.\n",
        "<!-- later -->\n",
        "`## Section 3: Downstream Directives` is empty: fill it in",
    ),
    ("1. Ask the neighbours first.\n", "### Later\n", "`## Section 3: Downstream Directives` is empty: fill it in"),
    (
        "**ANALYSIS_COMPLETE**",
        "**SYNTHESIS_COMPLETE**",
        "end the document with two lines, `---` and then `**ANALYSIS_COMPLETE**`",
    ),
    ("---\n**ANALYSIS_COMPLETE**", "**ANALYSIS_COMPLETE**", "end the document with two lines"),
    ("**ANALYSIS_COMPLETE**\n", "**ANALYSIS_COMPLETE**\n\nBye.", "and nothing after them"),
    ("first.\n\n---", "first.\n\nAnd then wait.\n---", "put an empty line before the closing `---`"),
    ("first.\n\n---", "first.\n\n```\n\n---", "is inside a code block, a quote or a list: close that before it"),
    ("```markdown\n", "", "`## Section 9: no heading, as it stands in code` is not a section"),
    ("```\n\n## Section 2", "\n\n## Section 2", "`## Section 2: Johari Summary` is missing"),
]


@pytest.mark.parametrize(("right", "wrong", "says"), BROKEN, ids=[says[:50] + wrong[:12] for _, wrong, says in BROKEN])
def test_a_mistake_is_a_sentence_that_says_what_to_do(right: str, wrong: str, says: str) -> None:
    document = SOUND.replace(right, wrong, 1)
    assert document != SOUND
    assert says in told(document)


def test_sections_out_of_order_or_doubled_are_reported() -> None:
    start, middle = SOUND.index("## Section 2"), SOUND.index("## Section 3")
    end = SOUND.index("\n---")
    turned = SOUND[:start] + SOUND[middle:end] + "\n\n" + SOUND[start:middle] + SOUND[end:]
    assert "put the sections in this order: Section 0: Context Loaded, Section 1" in told(turned)
    assert "`## Section 2: Johari Summary` is there twice" in told(SOUND[:middle] + SOUND[start:])


def test_unknown_unknowns_are_not_taken_for_known_unknowns() -> None:
    document = SOUND.replace("- **Known unknowns**: whether the neighbours agree.\n", "").replace(
        "none", "many known ones"
    )
    assert "has no `Known unknowns`" in told(document)


def test_a_section_and_the_part_for_others_are_read_back() -> None:
    assert section(SOUND, "Downstream Directives") == "1. Ask the neighbours first."
    assert section("no document", "Downstream Directives") == ""
    told_on = digest(SOUND)
    assert told_on.startswith(
        "### Downstream Directives\n1. Ask the neighbours first.\n### Step Overview\n### DECOMPOSE"
    )
    assert "Request: Keep bees" not in told_on, "what was loaded is nobody else's concern"
    assert "ANALYSIS_COMPLETE" not in told_on


@settings(max_examples=60)
@given(st.data())
def test_any_submit_gets_a_few_sentences_and_never_raises(data: st.DataObject) -> None:
    lines = data.draw(
        st.lists(st.sampled_from([*SOUND.splitlines(), "```", "> ", "~~~", "<!--", "===", "\t"]), max_size=30)
    )
    found = problems("\n".join(lines), EXPECTED)
    assert len(found) <= MOST_PROBLEMS
    assert found or set(lines) >= {"---", "**ANALYSIS_COMPLETE**", "## Section 3: Downstream Directives"}


def test_the_document_that_the_handbook_shows_is_sound() -> None:
    text = (HANDBOOK / "reference" / "file-formats.md").read_text(encoding="utf-8").partition("## Memory document")[2]
    document = text.partition("```markdown\n")[2].partition("```")[0]
    assert problems(document, replace(EXPECTED, steps=("DECOMPOSE",), tasks=("analysis-1f0c",))) == []


def test_a_document_of_headings_only_is_parsed_once() -> None:
    """Others wait during the check: comparing each heading with each other one would take seconds."""

    def seconds(headings: int) -> float:
        document = SOUND.replace("1. Ask the neighbours first.", "## a\n" * headings)
        begun = time.process_time()
        assert "is not a section of a memory document" in told(document)
        return time.process_time() - begun

    seconds(10)
    assert seconds(8_000) < 1.0
