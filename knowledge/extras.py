"""The command that installs an optional package, for the way in which this program itself was installed."""

from __future__ import annotations

import json
import shlex
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import url2pathname

NAME = "knowledge-forge"
CHECKOUT = Path(__file__).parents[1]


def install_command(extra: str) -> str:
    """Return the command that installs the packages of `extra`.

    The command names the checkout or the wheel file from which this program was installed. It names only the package if
    this program came from a package index: otherwise the package of this name in a public index may be somebody else's.
    """
    if (CHECKOUT / "pyproject.toml").exists():
        return f"pip install -e {shlex.quote(f'{CHECKOUT}[{extra}]')}"
    return f"pip install {shlex.quote(f'{_installed_from()}[{extra}]')}"


def _installed_from() -> str:
    """Return the file or folder that the package was installed from, or its name if it came from an index.

    Source: PEP 610, "Recording the Direct URL Origin of installed distributions".
    """
    try:
        url = str(json.loads(distribution(NAME).read_text("direct_url.json") or "{}").get("url", ""))
    except (PackageNotFoundError, ValueError, AttributeError):
        return NAME
    return url2pathname(urlsplit(url).path) if url.startswith("file:") else NAME
