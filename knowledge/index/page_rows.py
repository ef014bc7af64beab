"""Turns the bytes of a file into its rows of the index, without vectors. Reads through the vault; uses no database or clock."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from knowledge.errors import InvalidPath, KnowledgeError, NoSuchPath, VaultUnavailable
from knowledge.index.ports import Known
from knowledge.pages.document import Document, head, parse
from knowledge.pages.markdown.chunk import Chunk, cut, indexed_text
from knowledge.pages.markdown.properties import properties_of
from knowledge.pages.paths import INDEX_NAME, PageLink, parent, without_suffix
from knowledge.pages.vault import FileRead, Vault
from knowledge.search.query.analysis import analyzer, index_language, remember_words, words
from knowledge.search.times.page_period import period_of_page
from knowledge.state.ports import (
    DocumentRecord,
    IndexedChunk,
    IndexedProperties,
    Period,
    PropertyLines,
    Remove,
    Replace,
    Touch,
)
from knowledge.tokens import count_tokens

MOST_SECTIONS = 200
DIGEST_BYTES = 16
NO_INODE = -1
"""An inode that no file has: a page recorded with it always looks changed."""


@dataclass(frozen=True, slots=True)
class UnembeddedChunk:
    """A chunk without a vector. `embedded` is the text to embed, and `digest` its hash."""

    chunk: Chunk
    embedded: str
    digest: bytes
    words: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Prepared:
    """A document ready to be embedded; each of `problems` is a short sentence."""

    record: DocumentRecord
    pieces: tuple[UnembeddedChunk, ...]
    problems: tuple[str, ...]
    links: tuple[PageLink, ...] = ()
    properties: IndexedProperties | None = None
    period: Period | None = None

    @property
    def path(self) -> str:
        """The document's path."""
        return self.record.path

    def with_vectors(self, vectors: Mapping[bytes, tuple[bytes, bytes]]) -> Replace:
        """Return the change that stores it; `vectors` has `(half, code)` by digest."""
        chunks = []
        for piece in self.pieces:
            half, code = vectors[piece.digest]
            chunks.append(
                IndexedChunk(
                    ordinal=piece.chunk.ordinal,
                    section=piece.chunk.section,
                    line_start=piece.chunk.line_start,
                    line_end=piece.chunk.line_end,
                    text=piece.chunk.text,
                    digest=piece.digest,
                    half=half,
                    code=code,
                    words=piece.words,
                )
            )
        return Replace(self.record, tuple(chunks), self.links, self.properties, self.period)


@dataclass(frozen=True, slots=True)
class UnusablePage:
    """A document that exists but cannot be indexed. It is removed from the index, because search results must be readable."""

    path: str
    reason: str


Outcome = Prepared | Touch | Remove | UnusablePage


class DirectoryTrust:
    """Which directories are untrusted: `untrusted: true` in their `_index.md`, or in one above. Their text is only data."""

    def __init__(self, vault: Vault) -> None:
        self._vault = vault
        self._known: dict[str, bool] = {}

    def untrusted(self, directory: str) -> bool:
        """Return whether the files mark `directory` as untrusted; each is read once. An unreadable `_index.md` counts as untrusted."""
        if directory not in self._known:
            above = bool(directory) and self.untrusted(parent(directory))
            self._known[directory] = above or self._says_untrusted(directory)
        return self._known[directory]

    def _says_untrusted(self, directory: str) -> bool:
        path = index_of(directory)
        if self._vault.find(path) is None:
            return False
        try:
            return head(self._vault.read(path).raw).untrusted
        except (NoSuchPath, InvalidPath):
            return False
        except Exception:  # noqa: BLE001 - trust fails closed, whatever is wrong with the file
            return True


def index_of(directory: str) -> str:
    """Return the path of the page that describes `directory`."""
    return f"{directory}/{INDEX_NAME}" if directory else INDEX_NAME


def prepare(vault: Vault, path: str, known: Known | None, trust: DirectoryTrust, *, at_ns: int) -> Outcome:
    """Return the change that makes the index match the file at `path`.

    `known` is what the index has; None to record the document again even if its bytes are the same. `at_ns` is a time
    before the call, so that a later change of the file looks newer.

    Raises:
        VaultUnavailable: the whole folder is gone. Nothing else is ever raised.
    """
    try:
        file = vault.read(path)
        if known is not None and known[1] == file.revision:
            return Touch(path, file.stamp, at_ns)
        return _prepared(path, file, trust, at_ns)
    except (NoSuchPath, InvalidPath):
        return Remove(path)
    except VaultUnavailable:
        raise
    except KnowledgeError as error:
        return UnusablePage(path, str(error))
    except Exception as error:  # noqa: BLE001 - one odd file must not stop the others
        return UnusablePage(path, f"cannot be indexed ({type(error).__name__}: {error})")


def _prepared(path: str, file: FileRead, trust: DirectoryTrust, at_ns: int) -> Prepared:
    document = parse(path, file.raw)
    # An `_index.md` is recorded with the trust of its directory, as the pages below it. The file may have changed between
    # the two reads; a different value here would hide from the next run that those pages must be recorded again.
    directory = parent(path)
    is_index = path == index_of(directory)
    untrusted = trust.untrusted(directory) or (not is_index and document.untrusted)
    stamp = file.stamp
    if is_index and untrusted != (document.untrusted or (bool(directory) and trust.untrusted(parent(directory)))):
        # It did change, so it is recorded as unsettled: the next run looks at it again, whenever that is.
        stamp = replace(stamp, inode=NO_INODE)
    sections = dict.fromkeys(" > ".join(heading.path) for heading in document.headings)
    record = DocumentRecord(
        path=path,
        title=document.title,
        summary=document.summary,
        kind=document.kind,
        source=document.source,
        language=document.language,
        tags=document.tags,
        aliases=document.aliases,
        sections=tuple(sections)[:MOST_SECTIONS],
        untrusted=untrusted,
        revision=file.revision,
        stamp=stamp,
        tokens=count_tokens(document.text),
        indexed_at_ns=at_ns,
    )
    return Prepared(
        record,
        tuple(_pieces(document)),
        document.problems,
        document.page_links,
        _properties(document),
        period_of_page(path, document.title, document.metadata.get("date")),
    )


def _properties(document: Document) -> IndexedProperties | None:
    found = properties_of(document)
    if found is None:
        return None
    terms = analyzer(index_language(document.language)).indexed_terms(found.searched)
    if not terms:
        return None
    lines = PropertyLines(found.line_start, found.text)
    return IndexedProperties(lines, tuple(dict.fromkeys(terms)), tuple(frozenset(words(found.searched))))


def _pieces(document: Document) -> Iterator[UnembeddedChunk]:
    # Words that only a file name or an alias has are known words, too: as words of the first chunk.
    names = " ".join((without_suffix(document.path.rpartition("/")[2]), *document.aliases))
    for chunk in cut(document):
        text = indexed_text(document.title, chunk.section, chunk.text)
        # YAML escapes can produce lone surrogates, which must not stop the hash.
        digest = hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=DIGEST_BYTES).digest()
        known = {*remember_words(text), *(words(names) if not chunk.ordinal else ())}
        # A tuple: thousands of pieces wait for the database, and as sets they would take ten times the memory.
        yield UnembeddedChunk(chunk, text, digest, tuple(known))
