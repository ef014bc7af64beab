"""What Markdown is here: CommonMark, GitHub's tables, tasks, addresses and footnotes, and what Obsidian adds."""
