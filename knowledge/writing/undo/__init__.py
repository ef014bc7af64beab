"""Takes changes of pages back and keeps what came later."""
