"""Links that open a page's file in an editor on the reader's machine: of known editors, or of a template that a person wrote."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from urllib.parse import quote

EDITORS: Mapping[str, tuple[str, str]] = {
    "vscode": ("VS Code", "vscode://file{path}:{line}"),
    "vscodium": ("VSCodium", "vscodium://file{path}:{line}"),
    "cursor": ("Cursor", "cursor://file{path}:{line}"),
    "windsurf": ("Windsurf", "windsurf://file{path}:{line}"),
    "zed": ("Zed", "zed://file{path}:{line}"),
    "obsidian": ("Obsidian", "obsidian://open?path={path}"),
    "textmate": ("TextMate", "txmt://open?url=file://{path}&line={line}"),
    "sublime": ("Sublime Text", "subl://open?url=file://{path}&line={line}"),
    "idea": ("IntelliJ IDEA", "idea://open?file={path}&line={line}"),
}
"""The name of each editor and its link.

Source: the vendors' pages "Opening VS Code with URLs", "Obsidian URI", "TextMate URL scheme"; `open_listener.rs` of Zed. Sublime
Text needs an add-on that handles the scheme.
"""
SCHEMES: Mapping[str, str] = {
    **{template.partition(":")[0]: name for name, template in EDITORS.values()},
    "vscode-insiders": "VS Code Insiders",
    "pycharm": "PyCharm",
    "webstorm": "WebStorm",
    "mvim": "MacVim",
    "nova": "Nova",
}
"""The schemes that a template may have, with the editor's name. Any other scheme could run something other than an editor."""
_TEMPLATE = re.compile(r"([a-z][a-z0-9-]*)://[A-Za-z0-9._~:/?#@!$&()*+,;=%{}-]+")
_DRIVE = re.compile(r"[A-Za-z]:/")


@dataclass(frozen=True, slots=True)
class EditorLink:
    """How files of a folder are opened in the editor called `name`. The `template` has `{path}` once, and at most one `{line}`."""

    name: str
    template: str
    folder: Path = Path()

    def within(self, folder: Path) -> EditorLink:
        """Return the same link for files of the folder at this absolute path."""
        return replace(self, folder=folder)

    def address(self, path: str, line: int = 1) -> str:
        """Return the link for the file at that path of the folder, with every character escaped that could mean something else."""
        before, after = self.template.split("{path}")
        file = self.folder / path
        raw = os.fsencode(file.as_posix())
        if "?" in before:
            escaped = quote(raw, safe="")
        else:
            # A drive's colon stays, any other could be read as the beginning of a line number.
            drive = file.as_posix()[:2] if _DRIVE.match(file.as_posix()) else ""
            escaped = ("/" + drive + quote(raw[len(drive) :], safe="/")).replace("//", "/")
            escaped = escaped.removeprefix("/") if before.endswith("/") else escaped
        return before + escaped + after.replace("{line}", str(line))


def editor_link(text: str) -> EditorLink | None:
    """Return the link of a named editor or of a template; None for `off`."""
    word = text.strip()
    if word.lower() == "off":
        return None
    if known := EDITORS.get(word.lower()):
        return EditorLink(*known)
    found = _TEMPLATE.fullmatch(word)
    if not found:
        raise ValueError(
            f"{text!r} is not one of: off, {', '.join(EDITORS)}; nor a link with {{path}}, such as vscode://file{{path}}:{{line}}"
        )
    if found[1] not in SCHEMES:
        raise ValueError(f"{found[1]!r} is not the scheme of a known editor; choose from {', '.join(sorted(SCHEMES))}")
    if (
        word.count("{path}") != 1
        or word.count("{line}") > 1
        or re.search("[{}]", re.sub(r"\{path\}|\{line\}", "", word))
    ):
        raise ValueError(f"{text!r} needs {{path}} once, and may have {{line}} once; nothing else may be in braces")
    if "{line}" in word.partition("{path}")[0]:
        raise ValueError(f"{text!r} has {{line}} before {{path}}; write it behind")
    return EditorLink(SCHEMES[found[1]], word)
