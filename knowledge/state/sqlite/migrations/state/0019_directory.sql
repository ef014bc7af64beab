-- People (`names` are their principals), groups (their people), rules on folders (one right) and reviewers of folders (people and
-- groups). `kind` is `person`, `group`, `rule` or `reviewers`; `names` is a JSON list; `who` or `folder` is empty where it has no meaning.
CREATE TABLE directory (
    kind TEXT NOT NULL,
    who TEXT NOT NULL,
    folder TEXT NOT NULL,
    names TEXT NOT NULL,
    changed_by TEXT NOT NULL,
    at_us INTEGER NOT NULL,
    PRIMARY KEY (kind, who, folder)
) STRICT, WITHOUT ROWID;
