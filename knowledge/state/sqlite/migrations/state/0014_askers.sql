-- Principals that asked for the same as a pending proposal of another one, and so joined it. `told` is what their own calls say, as
-- JSON; it comes last, because what lies behind long texts takes reading them. `left_us` is when one withdrew.
CREATE TABLE proposal_asker (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    number INTEGER NOT NULL,
    principal TEXT NOT NULL,
    asked_us INTEGER NOT NULL,
    left_us INTEGER,
    told TEXT NOT NULL,
    UNIQUE (number, principal)
) STRICT;
CREATE INDEX proposal_asker_principal ON proposal_asker (principal, number);
