"""A team's own agents: YAML files in `_agents/` of its knowledge base, equal in rights to those of this program."""
