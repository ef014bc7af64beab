-- What is done most often, as one call each: a round trip, and where it stands alone, a transaction of its own. A function's
-- statements are planned once a connection of the server, also behind a pooler.

-- Adds an event for each key, at least one, wakes who listens, and returns the newest `seq`. Events older than `kept` go, a few
-- more at once than come.
CREATE FUNCTION forge.publish(about text, told text[], kept interval, pruned bigint, channel text) RETURNS bigint
LANGUAGE plpgsql AS $$
DECLARE
    added bigint := cardinality(told);
    newest bigint;
BEGIN
    UPDATE forge.counter SET seq = seq + added RETURNING seq INTO newest;
    INSERT INTO forge.event (seq, topic, key)
    SELECT newest - added + t.position, about, t.key FROM unnest(told) WITH ORDINALITY AS t (key, position);
    IF (SELECT e.published_at FROM forge.event e ORDER BY e.seq LIMIT 1) < now() - kept THEN
        DELETE FROM forge.event e
        WHERE e.published_at < now() - kept
        AND e.seq IN (SELECT o.seq FROM forge.event o ORDER BY o.seq LIMIT added + pruned);
    END IF;
    PERFORM pg_notify(channel, newest::text);
    RETURN newest;
END
$$;

-- The events that hold what `folded` leaves out; NULL where nobody has said so.
ALTER TABLE forge.journey ADD COLUMN held bigint[];

-- Tells where the journey `asked` stands, and which version the step with the key `act` led to, both of one moment. `bodies` are
-- the events that hold the rest of the state. Who knows the state that stands there since that time is told neither again.
CREATE FUNCTION forge.journey_standing(asked text, act text, known_version bigint, known_since timestamptz)
RETURNS TABLE (place bigint, last_seq bigint, by_folding integer, folded_into text, bodies text[], led_to bigint)
LANGUAGE plpgsql STABLE AS $$
DECLARE
    holding bigint[];
    is_known boolean;
BEGIN
    SELECT j.number, j.seq, j.folding, j.folded, j.held, j.version = known_version AND j.moved_at = known_since
    INTO place, last_seq, by_folding, folded_into, holding, is_known FROM forge.journey j WHERE j.id = asked;
    IF place IS NULL THEN
        RETURN;
    END IF;
    SELECT e.version INTO led_to FROM forge.journey_event e WHERE e.journey = place AND e.key = act;
    IF is_known THEN
        folded_into := NULL;
    ELSE
        bodies := ARRAY(
            SELECT e.body FROM forge.journey_event e WHERE e.journey = place AND e.seq = ANY(holding) ORDER BY e.seq
        );
    END IF;
    RETURN NEXT;
END
$$;

-- Adds a step to the journey `asked` if it stands at that version and event, and has no step with the key `act`; tells where it
-- stood, and which version the step with that key led to. `bodies` are the events of the step; the rest is where it leads.
-- Holds the journey first, then the counter of events.
CREATE FUNCTION forge.journey_step(
    lock bigint, known integer, asked text, at_version bigint, at_seq bigint, act text, who text, happened timestamptz,
    bodies text[], of_principal text, into_status text, into_phase text, by_folding integer, into_folded text,
    holding bigint[], kept interval, pruned bigint, channel text
) RETURNS TABLE (place bigint, stood_at bigint, last_seq bigint, led_to bigint)
LANGUAGE plpgsql AS $$
BEGIN
    PERFORM forge.enter(lock, known, false);
    SELECT j.number, j.version, j.seq INTO place, stood_at, last_seq FROM forge.journey j WHERE j.id = asked FOR UPDATE;
    IF place IS NULL THEN
        RETURN;
    END IF;
    SELECT e.version INTO led_to FROM forge.journey_event e WHERE e.journey = place AND e.key = act;
    IF led_to IS NULL AND stood_at = at_version AND last_seq = at_seq THEN
        UPDATE forge.journey j SET
            principal = of_principal, status = into_status, phase = into_phase, version = at_version + 1,
            seq = at_seq + cardinality(bodies), moved_at = happened, folding = by_folding, folded = into_folded,
            held = holding
        WHERE j.number = place;
        INSERT INTO forge.journey_event (journey, seq, version, happened_at, actor, key, body)
        SELECT place, at_seq + b.position, at_version + 1, happened, who, CASE WHEN b.position = 1 THEN act END, b.body
        FROM unnest(bodies) WITH ORDINALITY AS b (body, position);
        PERFORM forge.publish('journey', ARRAY[asked], kept, pruned, channel);
    END IF;
    RETURN NEXT;
END
$$;

-- Adds notes to the journey `asked` at whatever version it has, and tells which that is.
CREATE FUNCTION forge.journey_note(
    lock bigint, known integer, asked text, who text, happened timestamptz, bodies text[],
    kept interval, pruned bigint, channel text
) RETURNS TABLE (noted_at bigint)
LANGUAGE plpgsql AS $$
DECLARE
    noting bigint;
    last_seq bigint;
BEGIN
    PERFORM forge.enter(lock, known, false);
    UPDATE forge.journey j SET seq = j.seq + cardinality(bodies) WHERE j.id = asked
    RETURNING j.number, j.version, j.seq INTO noting, noted_at, last_seq;
    IF noting IS NULL THEN
        RETURN;
    END IF;
    INSERT INTO forge.journey_event (journey, seq, version, happened_at, actor, body)
    SELECT noting, last_seq - cardinality(bodies) + b.position, noted_at, happened, who, b.body
    FROM unnest(bodies) WITH ORDINALITY AS b (body, position);
    PERFORM forge.publish('journey', ARRAY[asked], kept, pruned, channel);
    RETURN NEXT;
END
$$;
