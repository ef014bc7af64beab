-- Principals that asked for the same as a pending proposal of another one, and so joined it. `told` is what their own calls say, as
-- JSON. `left_at` is when one withdrew.
CREATE TABLE forge.proposal_asker (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    number bigint NOT NULL,
    principal text COLLATE "C" NOT NULL,
    asked_at timestamptz NOT NULL,
    left_at timestamptz,
    told text NOT NULL,
    UNIQUE (number, principal)
);
CREATE INDEX proposal_asker_principal ON forge.proposal_asker (principal, number);
