"""Values that the server takes from its environment besides settings."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping

HOST_VARIABLES = ("APPDATA", "LOCALAPPDATA", "XDG_CONFIG_HOME", "CLAUDE_CONFIG_DIR")


def host_environment() -> Mapping[str, str]:
    """Return the variables that say where hosts keep their configuration."""
    return {name: os.environ[name] for name in HOST_VARIABLES if os.environ.get(name)}


def worker_environment() -> dict[str, str]:
    """Return the environment of a worker process: the variables that it needs to start, and no secret."""
    needed = ("PATH", "HOME", "LANG", "LC_ALL", "TMPDIR", "TEMP", "TMP", "SYSTEMROOT", "LD_LIBRARY_PATH")
    # Each thread of a numeric library reserves address space, which is limited in a worker.
    alone = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}
    return {**{name: os.environ[name] for name in needed if name in os.environ}, **alone}


def git_environment() -> dict[str, str]:
    """Return the environment of the program git and its filters: what they need to find their configuration, and no secret.

    Of git's own variables it has only those that say where its configuration is and who commits. Others, such as
    GIT_DIR and GIT_INDEX_FILE, belong to the program that started the server.
    """
    needed = (
        *("PATH", "HOME", "USER", "LOGNAME", "EMAIL", "LANG", "TMPDIR", "TEMP", "TMP", "LD_LIBRARY_PATH"),
        *(
            "XDG_CONFIG_HOME",
            "USERPROFILE",
            "HOMEDRIVE",
            "HOMEPATH",
            "APPDATA",
            "LOCALAPPDATA",
            "SYSTEMROOT",
            "PATHEXT",
        ),
        *("GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM", "GIT_CONFIG_NOSYSTEM", "GIT_EXEC_PATH", "GIT_COMMITTER_NAME"),
        *("GIT_COMMITTER_EMAIL", "GIT_CEILING_DIRECTORIES", "GIT_DISCOVERY_ACROSS_FILESYSTEM"),
    )
    return {name: os.environ[name] for name in needed if name in os.environ}


def git_remote_environment() -> dict[str, str]:
    """Return the environment of a fetch or a push: also what git and ssh need to reach a remote and to sign in there."""
    proxies = ("http_proxy", "https_proxy", "all_proxy", "no_proxy")
    needed = (
        *("SSH_AUTH_SOCK", "SSH_AGENT_PID", "SSH_ASKPASS", "SSH_ASKPASS_REQUIRE", "DISPLAY", "WAYLAND_DISPLAY"),
        *("GIT_SSH", "GIT_SSH_COMMAND", "GIT_SSH_VARIANT", "GIT_ASKPASS", "GIT_SSL_CAINFO", "GIT_SSL_CAPATH"),
        *("XDG_RUNTIME_DIR", "DBUS_SESSION_BUS_ADDRESS", "SSL_CERT_FILE", "SSL_CERT_DIR"),
        *proxies,
        *(name.upper() for name in proxies),
    )
    return {**git_environment(), **{name: os.environ[name] for name in needed if name in os.environ}}


def text_editor() -> str:
    """Return the command of the person's text editor: VISUAL, EDITOR, or the system's usual one."""
    return os.environ.get("VISUAL") or os.environ.get("EDITOR") or ("notepad" if sys.platform == "win32" else "vi")


def has_display(environ: Mapping[str, str] | None = None, platform: str = sys.platform) -> bool:
    """Return whether a person would probably see a window that this process opens."""
    environ = os.environ if environ is None else environ
    if environ.get("CI") or environ.get("SSH_CONNECTION"):
        return False
    return platform in ("win32", "darwin") or bool(environ.get("DISPLAY") or environ.get("WAYLAND_DISPLAY"))
