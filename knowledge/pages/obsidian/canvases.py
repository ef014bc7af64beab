"""The canvases of a knowledge base, read from its files."""

from __future__ import annotations

from collections.abc import Mapping

from knowledge.errors import KnowledgeError
from knowledge.pages.obsidian.canvas import LONGEST_CANVAS, Canvas, is_canvas, read_canvas
from knowledge.pages.vault import Vault
from knowledge.state.ports import Stamp

MOST_CANVASES = 500


class Canvases:
    """Reads the canvases of a vault, each again only when its file has changed. Blocks; only a folder of Obsidian is searched."""

    def __init__(self, vault: Vault) -> None:
        self._vault = vault
        self._known: dict[str, tuple[Stamp, Canvas]] = {}

    def all(self) -> Mapping[str, Canvas]:
        """Return the canvases by path, the first `MOST_CANVASES` by path."""
        if not self._vault.is_obsidian():
            return {}
        known, found = self._known, dict[str, tuple[Stamp, Canvas]]()
        for path in sorted(filter(is_canvas, self._vault.file_paths()))[:MOST_CANVASES]:
            stamp = self._vault.file_stamp(path)
            if stamp is None or stamp.size > LONGEST_CANVAS:
                continue
            before = known.get(path)
            if before is not None and before[0] == stamp:
                found[path] = before
            elif (canvas := self.read(path)) is not None:
                found[path] = (stamp, canvas)
        self._known = found
        return {path: canvas for path, (_, canvas) in found.items()}

    def read(self, path: str) -> Canvas | None:
        """Return the canvas at `path` as it is now, None if there is none that can be read."""
        try:
            return read_canvas(self._vault.read(path, plain=True).raw)
        except KnowledgeError:
            return None
