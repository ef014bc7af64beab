"""What the protocol offers about journeys besides tools: prompts, resources, completions."""
