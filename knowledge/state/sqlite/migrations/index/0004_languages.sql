-- Every search after a change asks how many documents are in each language. Counting them anew would read all their wide rows.
CREATE TABLE language (
    language TEXT PRIMARY KEY,
    documents INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
INSERT INTO language SELECT language, count(*) FROM document GROUP BY 1;
