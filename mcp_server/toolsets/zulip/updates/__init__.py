"""Changes of what is in Zulip already: own messages, topics, what is read, subscriptions, scheduled messages."""
