"""Builds the embedded keyword search, and the terms that every keyword engine stores."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path

from knowledge.index.ports import KeywordIndex
from knowledge.pages.markdown.chunk import indexed_text
from knowledge.pages.paths import INDEX_NAME
from knowledge.search.query.analysis import analyzer, index_language
from knowledge.state.ports import NameRow, TextRow

logger = logging.getLogger("knowledge_forge")


def keyword_engine(folder: Path) -> KeywordIndex:
    """Return tantivy, or SQLite's full-text search on machines that tantivy has no wheel for."""
    try:
        from knowledge.index.engines.tantivy_keywords import TantivyKeywordIndex
    except ImportError as error:
        from knowledge.index.engines.fts5 import Fts5KeywordIndex

        logger.warning("tantivy cannot be loaded (%s); keyword search runs on SQLite FTS5", error)
        return Fts5KeywordIndex(folder.with_suffix(".fts5.db"), indexed_terms, name_terms)
    return TantivyKeywordIndex(folder, indexed_terms, name_terms)


def indexed_terms(row: TextRow) -> Sequence[str]:
    """Return the terms of a chunk's heading path and text."""
    # The same text as for embedding, so while indexing runs its words are still cached.
    return analyzer(index_language(row.language)).indexed_terms(indexed_text(row.title, row.section, row.text))


def name_terms(page: NameRow) -> Sequence[str]:
    """Return the terms of a page's title and aliases, and of the folders and the file of its path."""
    folder, _, file = page.path.rpartition("/")
    path = folder if file == INDEX_NAME else page.path.rpartition(".")[0]
    names = " ".join((page.title, *page.aliases, path.replace("/", " ")))
    return analyzer(index_language(page.language)).indexed_terms(names)
