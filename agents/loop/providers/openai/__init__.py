"""Models of OpenAI, and of servers that speak its protocols."""
