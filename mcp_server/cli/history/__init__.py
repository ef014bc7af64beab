"""`history`, `diff`, `new` and `edit`: what happened to pages, and changes that a person makes."""
