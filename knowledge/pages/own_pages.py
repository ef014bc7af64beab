"""Which pages are a person's own: not templates, and not what an `_index.md` or the settings exclude."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from fnmatch import fnmatchcase

from knowledge.errors import KnowledgeError, VaultUnavailable
from knowledge.pages.document import head
from knowledge.pages.obsidian.vault_settings import VaultSettings
from knowledge.pages.paths import INDEX_NAME, parent
from knowledge.pages.vault import Vault

TEMPLATES = "_templates"
"""The folder of page templates, in which placeholders are not mistakes."""


class OwnPages:
    """Answers whether a page is the person's own: not a template, and not excluded by the settings or an `_index.md`.

    The patterns under `exclude` in an `_index.md` are relative to its folder. Templates are the pages below
    `_templates` and those in the folder that Obsidian's settings name.
    """

    def __init__(self, rules: Iterable[tuple[str, Sequence[str]]], settings: VaultSettings | None = None) -> None:
        self._settings = settings or VaultSettings()
        self._rules = [(directory, tuple(patterns)) for directory, patterns in rules if patterns]

    @classmethod
    def of(cls, vault: Vault, paths: Iterable[str], excluded: Sequence[str]) -> OwnPages:
        """Return the rule for these pages of `vault`; `excluded` are patterns from the settings, relative to the root.

        Raises:
            VaultUnavailable: the folder is gone.
        """
        indexes = (path for path in paths if path.rpartition("/")[2] == INDEX_NAME)
        return cls(
            [("", excluded), *((parent(path), _excluded_by(vault, path)) for path in indexes)],
            vault.obsidian_settings(),
        )

    def __contains__(self, path: str) -> bool:
        """Return whether the page at `path` is the person's own."""
        is_template = TEMPLATES in path.split("/")[:-1] or self._settings.is_template(path)
        return not is_template and not self.excludes(path)

    def excludes(self, path: str) -> bool:
        """Return whether the settings or an `_index.md` above the file exclude it."""
        return any(
            fnmatchcase(part, pattern)
            for directory, patterns in self._rules
            if not directory or path.startswith(f"{directory}/")
            for part in _beginnings(path[len(directory) + 1 if directory else 0 :])
            for pattern in patterns
        )


def own_pages_among(vault: Vault, paths: Iterable[str], excluded: Sequence[str]) -> OwnPages:
    """Return the rule for these pages, as `OwnPages.of`, for a module that is loaded late."""
    return OwnPages.of(vault, paths, excluded)


def indexes_above(path: str) -> Iterator[str]:
    """Yield the paths that an `_index.md` above the page may have, the nearest first."""
    folder = parent(path)
    while folder:
        yield f"{folder}/{INDEX_NAME}"
        folder = parent(folder)
    yield INDEX_NAME


def _excluded_by(vault: Vault, index: str) -> Sequence[str]:
    try:
        told = head(vault.read(index).raw).metadata.get("exclude")
    except VaultUnavailable:
        raise
    except KnowledgeError:
        return ()  # its own problem is a finding
    items = told if isinstance(told, list) else [told]
    return [item.strip().removeprefix("./").rstrip("/") for item in items if isinstance(item, str) and item.strip()]


def _beginnings(path: str) -> Iterator[str]:
    """Yield the path and each folder above it."""
    parts = path.split("/")
    yield from ("/".join(parts[:count]) for count in range(1, len(parts) + 1))
