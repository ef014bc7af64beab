"""The link targets of made-up pages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from knowledge.pages.links import LinkTargets
from knowledge.pages.paths import ancestors, without_suffix
from knowledge.state.document_names import name_key


def link_targets(
    pages: Mapping[str, Sequence[str]], files: Sequence[str] = (), *, by_name: bool = False
) -> LinkTargets:
    """Return the names of these pages, given with their titles and aliases, and of other `files`."""
    there = {*pages, *files}
    there.update(directory for path in (*pages, *files) for directory in ancestors(path))
    called: dict[str, list[str]] = {}
    for path, titles in pages.items():
        for name in dict.fromkeys(map(name_key, (without_suffix(path.rpartition("/")[2]), *titles))):
            called.setdefault(name, []).append(path)
    for path in files:
        called.setdefault(name_key(path.rpartition("/")[2]), []).append(path)
    return LinkTargets(there.__contains__, lambda name: called.get(name_key(name), ()), by_name)
