-- Which act (by its audit record) became which Git commit. `outcome` is `begun`, `prepared`, `made`, `contained` or `skipped`.
CREATE TABLE forge.act_commit (
    record bigint PRIMARY KEY,
    outcome text NOT NULL,
    commit_id text NOT NULL,
    base_id text NOT NULL,
    index_sum text NOT NULL,
    reason text NOT NULL,
    made_at timestamptz NOT NULL
);
