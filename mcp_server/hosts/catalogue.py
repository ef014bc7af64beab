"""The hosts we know: where each keeps its list of MCP servers, and how an entry looks there.

Sources, read in November 2026:
- Claude Desktop: modelcontextprotocol.io, "Connect to local MCP servers". On Windows the current package (MSIX) reads
  the file inside its container only: github.com/anthropics/claude-code/issues/26073. Linux: where Electron puts it.
- Claude Code: code.claude.com/docs/en/mcp (user scope ~/.claude.json, project scope .mcp.json); CLAUDE_CONFIG_DIR
  moves the former: github.com/anthropics/claude-code/issues/48448.
- Cursor: cursor.com/docs/mcp (~/.cursor/mcp.json, .cursor/mcp.json).
- VS Code: code.visualstudio.com/docs/agents/reference/mcp-configuration (mcp.json in the user profile or .vscode;
  key `servers`, `type` required).
- Forms (MCP elicitation): VS Code shows a dialog (den.dev/blog/vscode-mcp-elicitations-stop-guessing), Cursor a form in the chat
  (cursor.com/docs/mcp). Claude Code shows one too, unless a hook answers it (code.claude.com/docs/en/hooks, Elicitation), and a
  project's own settings can define hooks. Nothing is documented for Claude Desktop.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class HostMachine:
    """The machine as a host sees it; `platform` is named as in `sys.platform`."""

    platform: str
    home: Path
    folder: Path
    environ: Mapping[str, str]

    def application_data(self) -> Path:
        """Return where programs keep what belongs to the person."""
        if self.platform == "darwin":
            return self.home / "Library" / "Application Support"
        if self.platform == "win32":
            return self._named("APPDATA", self.home / "AppData" / "Roaming")
        return self._named("XDG_CONFIG_HOME", self.home / ".config")

    def windows_packages(self) -> Path:
        """Return where Windows keeps the containers of packaged programs."""
        return self._named("LOCALAPPDATA", self.home / "AppData" / "Local") / "Packages"

    def _named(self, variable: str, default: Path) -> Path:
        # The XDG specification: a relative path in such a variable is to be ignored.
        named = Path(self.environ.get(variable, ""))
        return named if named.is_absolute() else default


@dataclass(frozen=True, slots=True)
class Host:
    """A program that starts MCP servers. `servers` is the key of its list; `typed` entries say `"type": "stdio"`.

    `shows_forms`: it is known to show forms to a person and to wait for them; `about_forms` says what is known, for that person.
    """

    id: str
    name: str
    servers: str
    typed: bool
    user_file: Callable[[HostMachine], Path]
    project_file: str | None
    restart: str
    shows_forms: bool
    about_forms: str

    def config_file(self, place: HostMachine, *, project: bool) -> Path | None:
        """Return its file for the person, or for the project in `place.folder`; None if it has no such."""
        if not project:
            return self.user_file(place)
        return place.folder / self.project_file if self.project_file else None


def _claude_desktop(place: HostMachine) -> Path:
    name = "claude_desktop_config.json"
    if place.platform == "win32":
        containers = sorted(place.windows_packages().glob("Claude_*/LocalCache/Roaming/Claude"))
        # A container that was used has the file; a left-over one of another publisher id has not.
        used = [folder for folder in containers if (folder / name).is_file()] or containers
        if used:
            return used[0] / name
    return place.application_data() / "Claude" / name


def _claude_code(place: HostMachine) -> Path:
    moved = place.environ.get("CLAUDE_CONFIG_DIR")
    return (place.folder / moved if moved else place.home) / ".claude.json"


def _cursor(place: HostMachine) -> Path:
    return place.home / ".cursor" / "mcp.json"


def _vscode(place: HostMachine) -> Path:
    return place.application_data() / "Code" / "User" / "mcp.json"


HOSTS = (
    Host(
        id="claude-desktop",
        name="Claude Desktop",
        servers="mcpServers",
        typed=False,
        user_file=_claude_desktop,
        project_file=None,
        restart="Quit Claude Desktop altogether (its menu or tray icon, not only the window) and start it again.",
        shows_forms=False,
        about_forms="It is not documented whether it shows forms to you.",
    ),
    Host(
        id="claude-code",
        name="Claude Code",
        servers="mcpServers",
        typed=True,
        user_file=_claude_code,
        project_file=".mcp.json",
        restart="Start a new Claude Code session; one that is running does not see it.",
        shows_forms=False,
        about_forms="A hook, which a project's own settings can define, may answer its forms in your place.",
    ),
    Host(
        id="cursor",
        name="Cursor",
        servers="mcpServers",
        typed=True,
        user_file=_cursor,
        project_file=".cursor/mcp.json",
        restart="Restart Cursor; one that is running does not see it.",
        shows_forms=True,
        about_forms="It shows forms to you and waits for your answer.",
    ),
    Host(
        id="vscode",
        name="VS Code",
        servers="servers",
        typed=True,
        user_file=_vscode,
        project_file=".vscode/mcp.json",
        restart="Restart VS Code, or restart the server there with the command 'MCP: List Servers'.",
        shows_forms=True,
        about_forms="It shows forms to you and waits for your answer.",
    ),
)


def host_named(name: str) -> Host | None:
    """Return the host of that id."""
    return next((host for host in HOSTS if host.id == name), None)
