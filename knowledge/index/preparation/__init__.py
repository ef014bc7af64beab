"""From a page to the rows of the index, in a process of its own."""
