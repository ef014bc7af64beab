"""`undo`: take changes of pages back."""
