"""Submits work for a journey from a separate process.

`python -m tests.support.journeys.submitter KB STATE JOURNEY VERSION WORK`.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import anyio

from agents.engine.runner import Submission
from mcp_server.app.composition import open_app
from mcp_server.app.settings.settings import Settings
from tests.support.agents.small_agents import Only, noting


async def main(*asked: str) -> None:
    kb, state_dir, journey, version, work = asked
    settings = Settings(kb=Path(kb), state_dir=Path(state_dir), open_browser=False)
    async with open_app(settings, indexing=False, announcing=False, agents=Only(noting())) as app:
        await app.services.journeys.submit(journey, int(version), Submission(json.loads(work)), by="ada@elsewhere")


if __name__ == "__main__":
    anyio.run(main, *sys.argv[1:])
