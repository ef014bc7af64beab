-- Which act (by its audit record) became which Git commit. `outcome` is `begun`, `prepared`, `made`, `contained` or `skipped`.
CREATE TABLE act_commit (
    record INTEGER PRIMARY KEY,
    outcome TEXT NOT NULL,
    commit_id TEXT NOT NULL,
    base_id TEXT NOT NULL,
    index_sum TEXT NOT NULL,
    reason TEXT NOT NULL,
    at_us INTEGER NOT NULL
) STRICT;
