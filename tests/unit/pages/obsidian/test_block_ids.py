"""A block id names the paragraph, list item, quote, table or heading that it stands at."""

from __future__ import annotations

import pytest

from knowledge.pages.document import parse
from knowledge.pages.obsidian.block_ids import block_of, named_blocks

PAGE = """---
note: not this ^front
---
# Page ^head

A paragraph
of two lines. ^Para-1

- one
  - below ^below
  - last
- two ^two
  more of two

> quoted
> words

^quoted

| a | b |
|---|---|
| 1 | 2 |
^table

```
code ^code
```

2^10 and x^y, `tick ^tick`

![[picture.png]]^shown
"""


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("^head", "# Page ^head"),
        ("#^para-1", "A paragraph\nof two lines. ^Para-1"),
        ("^below", "  - below ^below"),
        ("^two", "- two ^two\n  more of two"),
        ("^quoted", "> quoted\n> words"),
    ],
)
def test_an_id_names_its_block(name: str, text: str) -> None:
    document = parse("x.md", PAGE.encode())
    block = block_of(document, name)
    assert block is not None
    assert "\n".join(document.text.split("\n")[block.first - 1 : block.last]) == text


def test_ids_in_code_in_front_matter_and_inside_words_are_none() -> None:
    names = [block.id for block in named_blocks(parse("x.md", PAGE.encode()))]
    assert names == ["head", "para-1", "below", "two", "quoted", "table", "shown"]
    assert block_of(parse("x.md", PAGE.encode()), "^code") is None
