"""The tool `agent_run`, and what its runs may call."""
