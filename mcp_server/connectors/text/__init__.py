"""Names, dates and mentions in the texts of other services."""
