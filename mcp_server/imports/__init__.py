"""Pages from elsewhere: reads what other programs export, shows what would be written, and writes it through the writer."""
