"""From the bytes of a file to what is stored of it, short of vectors. Reads through the vault; no database, no clock."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

from knowledge.errors import InvalidPath, KnowledgeError, NoSuchPath, VaultUnavailable
from knowledge.pages.document import Document, head, parse
from knowledge.pages.markdown.chunk import Chunk, cut
from knowledge.pages.paths import INDEX_NAME, parent
from knowledge.search.query.analysis import remember_words
from knowledge.state.ports import DocumentRecord, IndexedChunk, Remove, Replace, Stamp, Touch
from knowledge.tokens import count_tokens

if TYPE_CHECKING:
    from collections.abc import Mapping

    from knowledge.pages.vault import FileRead, Vault

MOST_SECTIONS = 200
DIGEST_BYTES = 16

Known = tuple[Stamp, str, int]
"""What the index says of a document: stamp, revision, `indexed_at_ns`."""


@dataclass(frozen=True, slots=True)
class UnembeddedChunk:
    """A chunk that has no vector yet. `digest` names `embedded`, the text that the vector is of."""

    chunk: Chunk
    embedded: str
    digest: bytes
    words: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Prepared:
    """A document ready to be embedded. `problems` says in short sentences what was odd about it."""

    record: DocumentRecord
    pieces: tuple[UnembeddedChunk, ...]
    problems: tuple[str, ...]

    def with_vectors(self, vectors: Mapping[bytes, tuple[bytes, bytes]]) -> Replace:
        """Return the change that stores it; `vectors` gives `(half, code)` by digest."""
        return Replace(self.record, tuple(_indexed(piece, vectors[piece.digest]) for piece in self.pieces))


@dataclass(frozen=True, slots=True)
class UnusablePage:
    """A document that is there and cannot be indexed. What the index had of it goes: it cannot be read there either."""

    path: str
    reason: str


Outcome = Prepared | Touch | Remove | UnusablePage


class DirectoryTrust:
    """Which directories say, by `untrusted: true` in their `_index.md` or in one above, that their text is only data."""

    def __init__(self, vault: Vault) -> None:
        self._vault = vault
        self._known: dict[str, bool] = {}

    def untrusted(self, directory: str) -> bool:
        """Return what the files say now, each asked once. An `_index.md` that cannot be read counts as a warning."""
        if directory not in self._known:
            above = bool(directory) and self.untrusted(parent(directory))
            self._known[directory] = above or self._says_so(directory)
        return self._known[directory]

    def _says_so(self, directory: str) -> bool:
        path = index_of(directory)
        if self._vault.find(path) is None:
            return False
        try:
            return head(self._vault.read(path).raw).untrusted
        except (NoSuchPath, InvalidPath):
            return False
        except Exception:  # noqa: BLE001  whatever is wrong with it, trust fails closed
            return True


def index_of(directory: str) -> str:
    """Return the path of the page that describes `directory`."""
    return f"{directory}/{INDEX_NAME}" if directory else INDEX_NAME


def prepare(vault: Vault, path: str, known: Known | None, trust: DirectoryTrust, *, at_ns: int) -> Outcome:
    """Return what has to change so that the index says of `path` what the file says now.

    `known` is what the index has, or None to record the document anew even if its bytes are the same. `at_ns` is a
    moment before the call: what is written to the file later must look newer.

    Raises:
        VaultUnavailable: the whole folder went away; nothing else is ever raised.
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
    except Exception as error:  # noqa: BLE001  one odd file must not stop the others
        return UnusablePage(path, f"cannot be indexed ({type(error).__name__}: {error})")


def _prepared(path: str, file: FileRead, trust: DirectoryTrust, at_ns: int) -> Prepared:
    document = parse(path, file.raw)
    record = DocumentRecord(
        path=path,
        title=document.title,
        summary=document.summary,
        kind=document.kind,
        source=document.source,
        language=document.language,
        tags=document.tags,
        aliases=document.aliases,
        sections=_sections(document),
        untrusted=_untrusted(path, document, trust),
        revision=file.revision,
        stamp=file.stamp,
        tokens=count_tokens(document.text),
        indexed_at_ns=at_ns,
    )
    return Prepared(record, tuple(_piece(chunk) for chunk in cut(document)), document.problems)


def _untrusted(path: str, document: Document, trust: DirectoryTrust) -> bool:
    """Return what is recorded as trust. Of a page that describes its directory that is what the pages below are told.

    It may have been written between the two looks. Then its record must not say what its neighbours' do not, for it is
    by that record that the next look notices that they have to be recorded anew.
    """
    directory = parent(path)
    by_directory = trust.untrusted(directory)
    return by_directory if path == index_of(directory) else by_directory or document.untrusted


def _sections(document: Document) -> tuple[str, ...]:
    found = dict.fromkeys(" > ".join(heading.path) for heading in document.headings)
    return tuple(found)[:MOST_SECTIONS]


def _piece(chunk: Chunk) -> UnembeddedChunk:
    text = chunk.indexed_text
    # YAML escapes can spell lone surrogates; they must not stop the hash.
    digest = hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=DIGEST_BYTES).digest()
    # As a set they would take ten times as much memory, and thousands of pieces wait for the database.
    return UnembeddedChunk(chunk, text, digest, tuple(frozenset(remember_words(text))))


def _indexed(piece: UnembeddedChunk, vector: tuple[bytes, bytes]) -> IndexedChunk:
    chunk = piece.chunk
    return IndexedChunk(
        ordinal=chunk.ordinal,
        section=chunk.section,
        line_start=chunk.line_start,
        line_end=chunk.line_end,
        text=chunk.text,
        digest=piece.digest,
        half=vector[0],
        code=vector[1],
        words=piece.words,
    )
