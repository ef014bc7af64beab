"""The changes of all pages, as people see them."""
