"""Makes `knowledge/index/embed/center.py`: where ordinary English lies among the word vectors, taken from this handbook.

`python -m tests.benchmarks.center > knowledge/index/embed/center.py`
"""

from __future__ import annotations

import base64
import textwrap
from collections import Counter
from pathlib import Path

import numpy as np

from knowledge.index.embed.static import DIMENSIONS, _Lexicon, general_weight
from knowledge.pages.document import parse
from knowledge.pages.markdown.chunk import cut, indexed_text
from knowledge.search.query.analysis import words

KB = Path(__file__).parents[2] / "kb"
HEAD = '''"""Where ordinary English lies among the word vectors of `StaticEmbedder`: taken from every word, so that texts differ.

Vectors of texts share a large common part (most of every text is common words). With it the 256 signs that choose
candidates are nearly the same for all texts; without it they find 87 instead of 79 of 100 nearest neighbours among 2 %
of the chunks (headings of 772 public README files asked for their sections).

Source: Mu, Viswanath, "All-but-the-Top: Simple and Effective Postprocessing for Word Representations", ICLR 2018.
Made by `python -m tests.benchmarks.center` from this project's handbook; another center needs another embedder name.
"""

from __future__ import annotations

CENTER_FLOAT16 = (
'''


def center() -> np.ndarray[tuple[int], np.dtype[np.float32]]:
    """Return the weighted mean of the vectors of all words of the handbook, by their frequency."""
    lexicon = _Lexicon()
    chunks = [chunk for page in sorted(KB.rglob("*.md")) for chunk in cut(parse(page.name, page.read_bytes()))]
    counts = Counter(word for chunk in chunks for word in words(indexed_text("", chunk.section, chunk.text)))
    summed, weight = np.zeros(DIMENSIONS, np.float64), 0.0
    for word, count in counts.items():
        if tokens := lexicon._tokenizer.encode(f" {word}", add_special_tokens=False).ids:
            counted = count * general_weight(max(tokens))
            summed += lexicon._tokens.rows(np.array(tokens)).astype(np.float64).sum(axis=0) * counted
            weight += counted
    return (summed / weight).astype(np.float32)


def main() -> None:
    """Print the module."""
    text = base64.b85encode(center().astype("<f2").tobytes()).decode()
    print(HEAD + "\n".join(f'    "{line}"' for line in textwrap.wrap(text, 100)) + "\n)")


if __name__ == "__main__":
    main()
