"""Everything that pages and terminal show, as plain data and finished sentences. The terminal and the pages lay it out."""
