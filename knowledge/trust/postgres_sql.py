"""What the records of trust ask PostgreSQL; `forge.` stands for the schema."""

from __future__ import annotations

# Columns by name: a program that was overtaken reads on in tables that may have more of them.
STANDING = "SELECT principal, score, floor, ceiling, frozen, updated_at FROM forge.standing"
CHANGE = """
SELECT id, principal, changed_at, score_before, score_after, reason, decided_by FROM forge.standing_change
"""
CHANGES_SINCE = f"{CHANGE} WHERE principal = %s AND changed_at > %s ORDER BY id DESC"
PROPOSAL = """
told, state, verdict, result, error, ended_at, successor, runner, runs_until,
(SELECT l.line FROM forge.proposal_line l WHERE l.number = proposal.number)
"""
# Of two that propose at once for one principal the second counts what the first has added. Another principal's may, seldom,
# have the same lock: that costs a moment.
HOLD_THE_PRINCIPAL = "SELECT pg_advisory_xact_lock(hashtext(%s), hashtext(%s))"
FIND = f"SELECT {PROPOSAL} FROM forge.proposal WHERE id = %s"  # noqa: S608 - one constant in another
COUNT = "SELECT count(*) FROM forge.proposal WHERE state = 'pending'"
COUNT_OF = f"{COUNT} AND principal = %s"
PENDING = """
SELECT id, kind, octet_length(told) FROM forge.proposal
WHERE state = 'pending' AND principal = %s ORDER BY number FOR UPDATE
"""
PUT = """
INSERT INTO forge.proposal (id, kind, principal, hash, expires_at, told, state, runner)
VALUES (%s, %s, %s, %s, %s, %s, 'pending', '') ON CONFLICT (id) DO NOTHING RETURNING 1
"""
SUPERSEDE = "UPDATE forge.proposal SET state = 'superseded', ended_at = %s, successor = %s WHERE id = ANY(%s)"
_ASKED = """
WHERE (%(principal)s::text IS NULL OR principal = %(principal)s)
AND (cardinality(%(states)s::text[]) = 0 OR state = ANY(%(states)s))
AND (%(before)s::text IS NULL OR proposal.number < (SELECT b.number FROM forge.proposal b WHERE b.id = %(before)s))
ORDER BY proposal.number DESC LIMIT %(limit)s
"""
LIST = f"SELECT {PROPOSAL} FROM forge.proposal {_ASKED}"  # noqa: S608 - one constant in another
LINES = f"""
SELECT line, CASE WHEN line IS NULL THEN told END, state, verdict, result IS NOT NULL, ended_at, successor, runs_until
FROM forge.proposal LEFT JOIN forge.proposal_line l ON l.number = proposal.number {_ASKED}
"""  # noqa: S608 - one constant in another
TO_SHORTEN = """
SELECT id, octet_length(told) + coalesce(octet_length(result), 0) FROM forge.proposal
WHERE NOT EXISTS (SELECT FROM forge.proposal_line l WHERE l.number = proposal.number) OR number IN (
    SELECT p.number FROM forge.proposal_line l JOIN forge.proposal p ON p.number = l.number
    WHERE l.kept < 2 AND p.ended_at IS NOT NULL AND NOT (p.state = 'executed' AND p.result IS NULL)
    AND (l.kept < 1 OR p.ended_at < %(before)s)
) ORDER BY number LIMIT %(limit)s
"""
HOLD_PROPOSAL = f"SELECT {PROPOSAL} FROM forge.proposal WHERE id = %s FOR UPDATE"  # noqa: S608 - as above
SHORTEN = "UPDATE forge.proposal SET told = %s, result = %s WHERE id = %s"
PUT_LINE = """
INSERT INTO forge.proposal_line (number, kept, line) SELECT number, %s, %s FROM forge.proposal WHERE id = %s
ON CONFLICT (number) DO UPDATE SET kept = excluded.kept, line = excluded.line
"""
UNFINISHED = """
SELECT EXISTS (SELECT FROM forge.proposal WHERE state = 'pending' AND expires_at <= %(now)s)
OR EXISTS (SELECT FROM forge.proposal WHERE (state = 'approved' OR (state = 'executed' AND result IS NULL))
    AND (runs_until IS NULL OR runs_until <= %(now)s OR runs_until > %(latest)s))
"""
DECIDE = f"""
UPDATE forge.proposal SET state = %(state)s, verdict = %(verdict)s, ended_at = %(ended)s
WHERE id = %(id)s AND state = 'pending' AND hash = %(hash)s AND expires_at > %(at)s RETURNING {PROPOSAL}
"""  # noqa: S608 - as above
CLAIM = f"""
UPDATE forge.proposal SET runner = %(runner)s, runs_until = %(until)s
WHERE id = %(id)s AND state = 'approved'
AND (runs_until IS NULL OR runs_until <= %(now)s OR runs_until > %(latest)s OR runner = %(runner)s) RETURNING {PROPOSAL}
"""  # noqa: S608 - as above
FINISH = f"""
UPDATE forge.proposal SET result = %(result)s,
    error = CASE state WHEN 'approved' THEN %(error)s END,
    successor = CASE state WHEN 'approved' THEN %(successor)s END,
    ended_at = CASE state WHEN 'approved' THEN %(at)s ELSE ended_at END,
    state = CASE state WHEN 'approved' THEN %(state)s ELSE state END
WHERE id = %(id)s AND (state = 'approved' OR (state = 'executed' AND result IS NULL)) RETURNING {PROPOSAL}
"""  # noqa: S608 - as above
WITHDRAW = f"""
UPDATE forge.proposal SET state = 'withdrawn', ended_at = %s WHERE id = %s AND principal = %s AND state = 'pending'
RETURNING {PROPOSAL}
"""  # noqa: S608 - as above
ANY_OVERDUE = "SELECT 1 FROM forge.proposal WHERE state = 'pending' AND expires_at <= %s LIMIT 1"
OVERDUE = """
SELECT id FROM forge.proposal WHERE state = 'pending' AND expires_at <= %s ORDER BY number FOR UPDATE
"""
EXPIRE = "UPDATE forge.proposal SET state = 'expired', ended_at = %s WHERE id = ANY(%s)"
# There is no row to lock for a new principal.
HOLD_STANDINGS = "LOCK TABLE forge.standing IN SHARE ROW EXCLUSIVE MODE"
NOTE = """
INSERT INTO forge.standing_change (principal, changed_at, score_before, score_after, reason, decided_by)
VALUES (%s, %s, %s, %s, %s, %s)
"""
STAND = """
INSERT INTO forge.standing (principal, score, floor, ceiling, frozen, updated_at) VALUES (%s, %s, %s, %s, %s, %s)
ON CONFLICT (principal) DO UPDATE SET score = excluded.score, floor = excluded.floor, ceiling = excluded.ceiling,
    frozen = excluded.frozen, updated_at = excluded.updated_at
"""
ADD_PASSKEY = """
INSERT INTO forge.passkey (id, public_key, sign_count, name, user_name, created_at, used_at)
VALUES (%s, %s, %s, %s, %s, %s, %s) ON CONFLICT (id) DO NOTHING RETURNING 1
"""
REMOVE_PASSKEY = "DELETE FROM forge.passkey WHERE id = %s RETURNING 1"
PASSKEYS = """
SELECT id, public_key, sign_count, name, user_name, created_at, used_at FROM forge.passkey ORDER BY created_at, id
"""
USE = """
UPDATE forge.passkey SET sign_count = %(count)s, used_at = %(at)s
WHERE id = %(id)s AND (sign_count < %(count)s OR (sign_count = 0 AND %(count)s = 0)) RETURNING 1
"""
ALLOW_FORMS = """
INSERT INTO forge.host_forms AS known (host, secret_digest, allowed, decided_at) VALUES (%s, %s, %s, %s)
ON CONFLICT (host) DO UPDATE SET
    secret_digest = excluded.secret_digest,
    allowed = excluded.allowed,
    decided_at = greatest(known.decided_at, excluded.decided_at)
WHERE NOT excluded.allowed
OR (excluded.decided_at > known.decided_at AND (known.secret_digest <> excluded.secret_digest OR NOT known.allowed))
RETURNING 1
"""
KEEP = """
INSERT INTO forge.secret (digest, purpose, value, expires_at) VALUES (%s, %s, %s, %s)
ON CONFLICT (digest, purpose) DO UPDATE SET value = excluded.value, expires_at = excluded.expires_at
"""
STANDS_FOR = "SELECT value FROM forge.secret WHERE digest = %s AND purpose = %s AND expires_at > %s"
TAKE = "DELETE FROM forge.secret WHERE digest = %s AND purpose = %s RETURNING value, expires_at"
FORGET_SECRETS = "DELETE FROM forge.secret WHERE expires_at <= %s AND NOT (digest = %s AND purpose = %s)"
TRUST_PLACE = """
INSERT INTO forge.trusted_place (place, trusted_by, trusted_at) VALUES (%s, %s, %s) ON CONFLICT (place) DO NOTHING RETURNING 1
"""
DISTRUST_PLACE = "DELETE FROM forge.trusted_place WHERE place = %s RETURNING 1"
TRUSTED_PLACES = "SELECT place, trusted_by, trusted_at FROM forge.trusted_place ORDER BY place"
PASSAGE = """
INSERT INTO forge.read_passage (principal, digest, origin, read_at)
SELECT %(principal)s, digest, origin, %(at)s FROM unnest(%(digests)s::bytea[], %(origins)s::text[]) AS read (digest, origin)
ON CONFLICT (principal, digest) DO UPDATE SET origin = excluded.origin, read_at = excluded.read_at
"""
# Only the caller's own: those of others may be under way, and two that forget at once would wait for each other.
FORGET_PASSAGES = """
DELETE FROM forge.read_passage WHERE principal = %(principal)s AND (read_at < %(oldest)s OR digest IN (
    SELECT digest FROM forge.read_passage WHERE principal = %(principal)s ORDER BY read_at DESC, digest DESC OFFSET %(most)s))
"""
PASSAGES = """
SELECT digest, origin FROM forge.read_passage
WHERE principal = %(principal)s AND read_at >= %(since)s AND digest = ANY(%(digests)s::bytea[])
"""
FORGET_TAINT = "DELETE FROM forge.taint WHERE principal = %s AND journey = '' AND read_at < %s"
TAINT = """
INSERT INTO forge.taint AS known (principal, journey, origin_key, origin, read_at)
SELECT %(principal)s, %(journey)s, key, origin, %(at)s
FROM unnest(%(keys)s::bytea[], %(origins)s::text[]) AS read (key, origin)
ON CONFLICT (principal, journey, origin_key) DO UPDATE SET read_at = greatest(known.read_at, excluded.read_at)
"""
TAINTS = """
SELECT origin, max(read_at) FROM forge.taint
WHERE principal = %(principal)s
AND ((journey = '' AND read_at >= %(since)s) OR (journey <> '' AND journey = %(journey)s)) GROUP BY origin
"""
