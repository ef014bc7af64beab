"""The tools whose answer may be a question to a person: the gate asks about all others only if they become proposals."""

from __future__ import annotations

AGENT_RUN = "agent_run"
JOURNEY_SUBMIT = "journey_submit"
