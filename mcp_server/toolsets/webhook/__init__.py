"""The tool that sends webhooks. The names are here because `tools.py` must not import the schemas."""

TOOLSET = "webhook"
SEND = "webhook_send"
