"""The SDK's hooks: server, prompts, resources, completions, change events, errors."""
