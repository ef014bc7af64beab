"""The outbox: what was done in other services, begun before it is sent and ended when it is known what became of it."""
