"""What there is to show of a journey: in sentences and plain data for terminal and page, and as a report."""
