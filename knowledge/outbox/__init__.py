"""The outbox: acts in other services, recorded before they are sent and ended when their outcome is known."""
