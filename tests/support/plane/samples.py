"""The recorded requests and replies of a real Plane, in the recorded order."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from mcp_server.connectors.request.wire import ServiceReply

FOLDER = Path(__file__).parents[2] / "samples" / "plane"


@dataclass(frozen=True)
class Sample:
    """One request and a real server's reply. Header names are in lower case."""

    name: str
    method: str
    target: str
    sent_headers: Mapping[str, str]
    sent: Any
    status: int
    headers: Mapping[str, str]
    body: Any

    @property
    def path(self) -> str:
        """Return the path without its query."""
        return urlsplit(self.target).path

    @property
    def query(self) -> dict[str, str]:
        """Return the query by name."""
        return dict(parse_qsl(urlsplit(self.target).query))

    @property
    def reply(self) -> ServiceReply:
        """Return the reply as the wire modules get it; an empty body is None."""
        return ServiceReply(self.status, self.headers, None if self.body == "" else self.body)


def _read(name: str) -> Sample:
    whole = json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))
    asked, told = whole["request"], whole["response"]
    return Sample(
        name,
        asked["method"],
        asked["path"],
        {header.lower(): value for header, value in asked["headers"].items()},
        asked["body"],
        told["status"],
        {header.lower(): value for header, value in told["headers"].items()},
        told["body"],
    )


SAMPLES = {
    name: _read(name)
    for name in (line.split()[1] for line in (FOLDER / "INDEX.txt").read_text(encoding="utf-8").splitlines())
}
