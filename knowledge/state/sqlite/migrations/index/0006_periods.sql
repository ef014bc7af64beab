-- The time that a page is of, such as a day, a week or a month, by its name or the date in its front matter.
CREATE TABLE period (
    doc INTEGER PRIMARY KEY,
    first TEXT NOT NULL,
    last TEXT NOT NULL
) STRICT;

CREATE INDEX period_days ON period (first, last);
