-- People (`names` are their principals), groups (their people), rules on folders (one right) and reviewers of folders (people and
-- groups). `kind` is `person`, `group`, `rule` or `reviewers`; `names` is a JSON list; `who` or `folder` is empty where it has no meaning.
CREATE TABLE forge.directory (
    kind text COLLATE "C" NOT NULL,
    who text COLLATE "C" NOT NULL,
    folder text COLLATE "C" NOT NULL,
    names text NOT NULL,
    changed_by text NOT NULL,
    changed_at timestamptz NOT NULL,
    PRIMARY KEY (kind, who, folder)
);
