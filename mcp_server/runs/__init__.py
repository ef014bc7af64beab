"""Runs of `agent_run`: the loop over the tools of this server, each call through the gate."""
