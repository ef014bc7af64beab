"""The known hosts: where each keeps its list of MCP servers, and the form of an entry in it.

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
    """The machine as a host sees it; `platform` is named as in `sys.platform`, `folder` is the current one."""

    platform: str
    home: Path
    folder: Path
    environ: Mapping[str, str]

    def application_data(self) -> Path:
        """Return the folder in which programs keep a person's data."""
        if self.platform == "darwin":
            return self.home / "Library" / "Application Support"
        if self.platform == "win32":
            return self.folder_in("APPDATA", self.home / "AppData" / "Roaming")
        return self.folder_in("XDG_CONFIG_HOME", self.home / ".config")

    def folder_in(self, variable: str, default: Path) -> Path:
        """Return the folder that an environment variable names."""
        named = Path(self.environ.get(variable, ""))
        # The XDG specification says to ignore a relative path in these variables.
        return named if named.is_absolute() else default


@dataclass(frozen=True, slots=True)
class Host:
    """A program that starts MCP servers. `servers` is the key of its list; `typed` entries say `"type": "stdio"`.

    `shows_forms`: it is known to show forms to a person and to wait for the answer; `about_forms` explains this to the person.
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

    def config_file(self, machine: HostMachine, *, project: bool) -> Path | None:
        """Return the host's file for the person, or for the project in `machine.folder`; None if the host has no file per project."""
        if not project:
            return self.user_file(machine)
        return machine.folder / self.project_file if self.project_file else None


def _claude_desktop(machine: HostMachine) -> Path:
    name = "claude_desktop_config.json"
    if machine.platform == "win32":
        packages = machine.folder_in("LOCALAPPDATA", machine.home / "AppData" / "Local") / "Packages"
        containers = sorted(packages.glob("Claude_*/LocalCache/Roaming/Claude"))
        # A container that is in use has the file; one left over from another publisher id does not.
        used = [folder for folder in containers if (folder / name).is_file()] or containers
        if used:
            return used[0] / name
    return machine.application_data() / "Claude" / name


def _claude_code(machine: HostMachine) -> Path:
    moved = machine.environ.get("CLAUDE_CONFIG_DIR")
    return (machine.folder / moved if moved else machine.home) / ".claude.json"


HOSTS = (
    Host(
        id="claude-desktop",
        name="Claude Desktop",
        servers="mcpServers",
        typed=False,
        user_file=_claude_desktop,
        project_file=None,
        restart="Quit Claude Desktop completely (from its menu or tray icon, not just the window) and start it again.",
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
        restart="Start a new Claude Code session; running sessions don't see the change.",
        shows_forms=False,
        about_forms="A hook, which a project's own settings can define, may answer its forms for you.",
    ),
    Host(
        id="cursor",
        name="Cursor",
        servers="mcpServers",
        typed=True,
        user_file=lambda machine: machine.home / ".cursor" / "mcp.json",
        project_file=".cursor/mcp.json",
        restart="Restart Cursor; it reads its configuration when it starts.",
        shows_forms=True,
        about_forms="It shows forms to you and waits for your answer.",
    ),
    Host(
        id="vscode",
        name="VS Code",
        servers="servers",
        typed=True,
        user_file=lambda machine: machine.application_data() / "Code" / "User" / "mcp.json",
        project_file=".vscode/mcp.json",
        restart="Restart VS Code, or restart the server in it with the command 'MCP: List Servers'.",
        shows_forms=True,
        about_forms="It shows forms to you and waits for your answer.",
    ),
)


def host_named(name: str) -> Host | None:
    """Return the host with that id, None if it is unknown."""
    return next((host for host in HOSTS if host.id == name), None)
