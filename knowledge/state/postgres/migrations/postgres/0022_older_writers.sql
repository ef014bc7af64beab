-- It only adds: older programs may still write.
-- `writers` is the version of the oldest program that may write: the newest script that does more than add.
ALTER TABLE forge.meta ADD COLUMN writers integer NOT NULL DEFAULT 0;

-- As before, but ends the transaction only if this program is too old to write. A state that was moved has a version from one million.
CREATE OR REPLACE FUNCTION forge.enter(lock bigint, known integer, light boolean) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    found integer;
    needed integer;
BEGIN
    PERFORM pg_advisory_xact_lock_shared(lock);
    SELECT version, writers INTO found, needed FROM forge.meta;
    IF found > known AND (needed > known OR found >= 1000000) THEN
        RAISE EXCEPTION USING ERRCODE = 'KF001', MESSAGE = format('%s %s', found, known);
    END IF;
    IF light THEN
        PERFORM set_config('synchronous_commit', 'off', true);
    END IF;
END
$$;
