"""Answers of tool calls on the wire, and the questions to a person that come with them."""
