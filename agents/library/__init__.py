"""The built-in agents and skills."""
