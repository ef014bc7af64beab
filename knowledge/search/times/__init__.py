"""Times: those that a question names, and the one that a page is of.

`days.py` reads dates in words and figures, `calendar_periods.py` weeks, months and quarters with numbers, `periods_by_today.py`
*yesterday* and *last week*. `periods.py` puts them together for a question, `page_period.py` for the names of a page.
"""
