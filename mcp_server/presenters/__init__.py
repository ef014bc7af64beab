"""Everything that pages and terminal show, as plain data and finished sentences. Pages and terminal only lay it out."""
