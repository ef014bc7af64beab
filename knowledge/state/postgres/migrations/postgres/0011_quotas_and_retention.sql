-- What each principal used of a quota, by slots of time.
CREATE TABLE forge.quota (
    principal text COLLATE "C" NOT NULL,
    kind text NOT NULL,
    slot_at timestamptz NOT NULL,
    amount bigint NOT NULL,
    PRIMARY KEY (principal, kind, slot_at)
);

-- A proposal as lists show it, as JSON, so that they read none of its long texts; and how much of these is left: `kept` is 0 for
-- all, 1 for what is kept after it ended, 2 for what is kept after its retention. A proposal of an older program has no line yet.
CREATE TABLE forge.proposal_line (
    number bigint PRIMARY KEY,
    kept integer NOT NULL,
    line text NOT NULL
);
CREATE INDEX proposal_line_kept ON forge.proposal_line (kept, number) WHERE kept < 2;

-- Journeys and runs whose texts were shortened after their retention.
CREATE TABLE forge.journey_cut (number bigint PRIMARY KEY, cut_at timestamptz NOT NULL);
CREATE TABLE forge.run_cut (number bigint PRIMARY KEY, cut_at timestamptz NOT NULL);

-- Of two that use a quota of one principal at once the second counts what the first has used. Taken before anything else is held.
CREATE FUNCTION forge.hold_quota(schema_name text, whose text) RETURNS void LANGUAGE sql AS $$
    SELECT pg_advisory_xact_lock(hashtext(schema_name), hashtext('quota ' || whose))
$$;

-- Counts `added` for the principal, or ends the transaction if that is more than `most`; NULL only counts. Who asks holds the quota.
CREATE FUNCTION forge.charge(
    whose text, what text, added bigint, most bigint, slot timestamptz, oldest timestamptz
) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    used bigint;
BEGIN
    DELETE FROM forge.quota q WHERE q.principal = whose AND q.kind = what AND (q.slot_at < oldest OR q.slot_at > slot);
    SELECT coalesce(sum(q.amount), 0) INTO used FROM forge.quota q WHERE q.principal = whose AND q.kind = what;
    IF used + added > most THEN
        RAISE EXCEPTION USING ERRCODE = 'KF004', MESSAGE = what;
    END IF;
    INSERT INTO forge.quota AS known (principal, kind, slot_at, amount) VALUES (whose, what, slot, added)
    ON CONFLICT (principal, kind, slot_at) DO UPDATE SET amount = known.amount + excluded.amount;
END
$$;

-- As `journey_step` and `journey_note`, and counts the bytes if something is added.
CREATE FUNCTION forge.journey_step_counted(
    lock bigint, known integer, asked text, at_version bigint, at_seq bigint, act text, who text, happened timestamptz,
    bodies text[], of_principal text, into_status text, into_phase text, by_folding integer, into_folded text,
    holding bigint[], kept interval, pruned bigint, channel text,
    whose text, what text, added bigint, most bigint, slot timestamptz, oldest timestamptz
) RETURNS TABLE (place bigint, stood_at bigint, last_seq bigint, led_to bigint)
LANGUAGE plpgsql AS $$
BEGIN
    PERFORM forge.hold_quota(channel, whose);
    SELECT s.place, s.stood_at, s.last_seq, s.led_to INTO place, stood_at, last_seq, led_to FROM forge.journey_step(
        lock, known, asked, at_version, at_seq, act, who, happened, bodies, of_principal, into_status, into_phase,
        by_folding, into_folded, holding, kept, pruned, channel
    ) s;
    IF place IS NULL THEN
        RETURN;
    END IF;
    IF led_to IS NULL AND stood_at = at_version AND last_seq = at_seq THEN
        PERFORM forge.charge(whose, what, added, most, slot, oldest);
    END IF;
    RETURN NEXT;
END
$$;
CREATE FUNCTION forge.journey_note_counted(
    lock bigint, known integer, asked text, who text, happened timestamptz, bodies text[],
    kept interval, pruned bigint, channel text,
    whose text, what text, added bigint, most bigint, slot timestamptz, oldest timestamptz
) RETURNS TABLE (noted_at bigint)
LANGUAGE plpgsql AS $$
BEGIN
    PERFORM forge.hold_quota(channel, whose);
    SELECT n.noted_at INTO noted_at FROM forge.journey_note(
        lock, known, asked, who, happened, bodies, kept, pruned, channel
    ) n;
    IF noted_at IS NULL THEN
        RETURN;
    END IF;
    PERFORM forge.charge(whose, what, added, most, slot, oldest);
    RETURN NEXT;
END
$$;
