"""An attacker with another role in the same PostgreSQL database.

It may connect, notify, take locks, and create what it is allowed to.

Promise: it changes nothing, runs nothing with our rights, and its blocking ends in a clear error in bounded time.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing
from typing import Any, LiteralString

import anyio
import anyio.lowlevel
import psycopg
import pytest
from psycopg.sql import SQL, Identifier

from knowledge.errors import DatabaseRefused, DatabaseUnavailable, StorageError
from knowledge.state.postgres import listener as postgres_ear
from knowledge.state.postgres import schema as postgres_schema
from knowledge.state.postgres.schema import PostgresSchema
from knowledge.state.postgres.store import PostgresStateStore
from tests.contract.state.test_postgres import opened, trust_record, within
from tests.support.state.postgres import PASSWORD, USER, PostgresServer
from tests.support.state.trust_levels import stand

FORGE, MALLORY = "forge_app", "mallory"
"""The role of the server, which is no superuser, and the attacker's."""


class Database:
    """A database with both roles in it."""

    def __init__(self, server: PostgresServer, name: str, encoding: str = "UTF8") -> None:
        self._server, self.name = server, name
        for role in (FORGE, MALLORY):
            with psycopg.connect(server.url(), autocommit=True) as admin:
                if not admin.execute("SELECT 1 FROM pg_roles WHERE rolname = %s", (role,)).fetchall():
                    admin.execute(SQL("CREATE ROLE {} LOGIN PASSWORD {}").format(Identifier(role), PASSWORD))
        with psycopg.connect(server.url(), autocommit=True) as admin:
            made = "CREATE DATABASE {} ENCODING {} LOCALE 'C' TEMPLATE template0"
            admin.execute(SQL(made).format(Identifier(name), encoding))
        for role in (FORGE, MALLORY):
            self.admin(SQL("GRANT CREATE, CONNECT ON DATABASE {} TO {}").format(Identifier(name), Identifier(role)))
        # As in PostgreSQL up to 14, and in every database that was upgraded since.
        self.admin("GRANT ALL ON SCHEMA public TO PUBLIC")

    @property
    def url(self) -> str:
        return self._server.url(self.name, user=FORGE)

    def as_(self, role: str) -> psycopg.Connection[tuple[Any, ...]]:
        return psycopg.connect(self._server.url(self.name, user=role), autocommit=True)

    def does(self, role: str, *statements: Any) -> None:
        with self.as_(role) as connection:
            for statement in statements:
                connection.execute(statement)

    def admin(self, *statements: Any) -> None:
        self.does(USER, *statements)


@pytest.fixture
def database(postgres: PostgresServer, schema: str) -> Iterator[Database]:
    """Yield a database of its own: all of a database's schemas share its `public` and its settings."""
    made = Database(postgres, schema)
    yield made
    with psycopg.connect(postgres.url(), autocommit=True) as admin:
        admin.execute(SQL("DROP DATABASE {} WITH (FORCE)").format(Identifier(schema)))


# --- functions and schemas that somebody else made ----------------------------------------------------------------------

SHADOW: LiteralString = """
CREATE FUNCTION public.{name}({takes}) RETURNS {gives} LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO public.stolen VALUES (current_user, {called});
    {back};
END $$
"""
CALLED = {
    "sha256": ("bytea", "bytea"),
    "convert_to": ("text, name", "bytea"),
    "pg_advisory_xact_lock_shared": ("bigint", "void"),
    "pg_advisory_xact_lock": ("bigint", "void"),
    "pg_notify": ("text, text", "void"),
    "now": ("", "timestamptz"),
    "cardinality": ("anyarray", "integer"),
    "set_config": ("text, text, boolean", "text"),
    "hashtext": ("text", "integer"),
    "to_regclass": ("text", "regclass"),
    "octet_length": ("text", "integer"),
}


async def test_no_function_or_operator_in_public_is_called_with_our_rights(database: Database, schema: str) -> None:
    """CVE-2018-1058, with the database's search path turned against us."""
    shadows = [
        SQL(SHADOW).format(
            name=Identifier(name),
            takes=SQL(takes),
            gives=SQL(gives),
            called=name,
            back=SQL("RETURN" if gives == "void" else "RETURN NULL"),
        )
        for name, (takes, gives) in CALLED.items()
    ]
    database.does(
        MALLORY,
        "CREATE TABLE public.stolen (role text, called text)",
        "GRANT ALL ON public.stolen TO PUBLIC",
        *shadows,
        "CREATE FUNCTION public.taken(bigint, integer) RETURNS bigint LANGUAGE plpgsql AS $$ BEGIN "
        "INSERT INTO public.stolen VALUES (current_user, '+'); RETURN 1; END $$",
        "CREATE OPERATOR public.+ (LEFTARG = bigint, RIGHTARG = integer, FUNCTION = public.taken)",
    )
    database.admin(SQL("ALTER DATABASE {} SET search_path = public, pg_catalog").format(Identifier(schema)))
    async with opened(database.url, schema) as store:
        await stand(store, trust_record(1.0), reason="first", by="ada")
        await store.publish("doc", ["a.md"])
        await store.size(), await store.held(), await store.check()
        assert len(await store.trust_records()) == 1
    with database.as_(USER) as admin:
        assert admin.execute("SELECT DISTINCT role, called FROM public.stolen").fetchall() == []


async def refused(database: Database, schema: str) -> str:
    with pytest.raises(StorageError) as caught:
        async with opened(database.url, schema):
            pass
    assert isinstance(caught.value, DatabaseRefused), caught.value
    return str(caught.value)


async def test_a_schema_made_by_another_role_is_refused(database: Database, schema: str) -> None:
    """Its owner could drop our tables and put others there, with level 5 for anyone."""
    database.does(
        MALLORY,
        within(schema, "CREATE SCHEMA {s}"),
        within(schema, "GRANT ALL ON SCHEMA {s} TO PUBLIC"),
    )
    told = await refused(database, schema)
    assert "it belongs to the role 'mallory'" in told
    assert "authorization" in told


async def test_our_own_tables_and_functions_made_by_another_role_are_refused(database: Database, schema: str) -> None:
    """Our schema as the migrations make it, with one function that takes our rights."""
    async with opened(f"{database._server.url(database.name, user=MALLORY)}", schema):
        pass
    database.does(
        MALLORY,
        within(schema, "GRANT ALL ON SCHEMA {s} TO PUBLIC"),
        within(schema, "GRANT ALL ON ALL TABLES IN SCHEMA {s} TO PUBLIC"),
    )
    assert "it belongs to the role 'mallory'" in await refused(database, schema)


async def test_a_schema_in_which_others_may_create_is_refused_with_their_objects(
    database: Database, schema: str
) -> None:
    async with opened(database.url, schema):
        pass
    database.does(FORGE, within(schema, "GRANT USAGE, CREATE ON SCHEMA {s} TO PUBLIC"))
    assert "objects in it may be created by anybody" in await refused(database, schema)
    database.does(FORGE, within(schema, "REVOKE CREATE ON SCHEMA {s} FROM PUBLIC"))
    database.does(FORGE, within(schema, "GRANT CREATE ON SCHEMA {s} TO mallory"))
    assert "objects in it may be created by the role 'mallory'" in await refused(database, schema)
    # An overload for the type that a small number has on the wire, which therefore fits better than ours.
    overload = "CREATE FUNCTION {s}.enter(bigint, smallint, boolean) RETURNS void LANGUAGE sql AS 'SELECT 1/0'"
    database.does(MALLORY, within(schema, overload))
    database.does(FORGE, within(schema, "REVOKE CREATE ON SCHEMA {s} FROM mallory"))
    assert "the function \"enter\" in it belongs to the role 'mallory'" in await refused(database, schema)


@pytest.mark.parametrize("owner", ["the administrator", "a group of ours"])
async def test_a_schema_that_an_administrator_or_our_own_group_made_for_us_is_used(
    owner: str, database: Database, schema: str
) -> None:
    if owner == "a group of ours":
        group = Identifier(f"group_{schema}")
        database.admin(SQL("CREATE ROLE {} ROLE {}").format(group, Identifier(FORGE)))
        database.admin(SQL("CREATE SCHEMA {} AUTHORIZATION {}").format(Identifier(schema), group))
    else:
        database.admin(within(schema, "CREATE SCHEMA {s}"))
        database.admin(within(schema, "GRANT USAGE, CREATE ON SCHEMA {s} TO forge_app"))
    for _ in range(2):
        async with opened(database.url, schema) as store:
            await store.publish("doc", ["a.md"])
    if owner == "a group of ours":
        database.admin(SQL("DROP OWNED BY {0} CASCADE; DROP ROLE {0}").format(group))


# --- notifications ------------------------------------------------------------------------------------------------------

PAYLOADS = ["", "x" * 7_999, "{", "999999999999999999999", "doc\nseq", "\u202e\x1b[2J", "'; DROP SCHEMA public; --"]


async def test_forged_notifications_change_nothing_and_a_flood_costs_a_few_queries(
    database: Database, schema: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks, first = [], anyio.Event()
    async with opened(database.url, schema) as store:
        seq, asked = await store.publish("doc", ["a.md"]), store.last_event

        async def look() -> int:
            looks.append(time.monotonic())
            first.set()
            return await asked()

        monkeypatch.setattr(store, "last_event", look)
        heard: list[int] = []
        done = anyio.Event()

        async def follow() -> None:
            await store.changed(seq)
            heard.append(await asked())
            done.set()

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(follow)
            await first.wait()
            began = time.monotonic()
            with closing(database.as_(MALLORY)) as other:
                for number in range(300):
                    for payload in PAYLOADS:
                        other.execute("SELECT pg_notify(%s, %s)", (schema, f"{payload}{number}"[:7_999]))
                    await anyio.lowlevel.checkpoint()
            took = time.monotonic() - began
            assert not heard, "nothing was published"
            # Never more than one per interval, however many notifications came.
            assert len(looks) <= 2 + took / postgres_ear.UNASKED_S
            await store.publish("doc", ["b.md"])
            with anyio.fail_after(60):
                await done.wait()
        assert [event.key for event in await store.events_after(seq)] == ["b.md"]


async def test_notifications_that_are_not_text_kill_no_listener(postgres: PostgresServer, schema: str) -> None:
    """Only a database without an encoding lets them through; the server then ends the listener's connection."""
    database = Database(postgres, f"raw_{schema}", "SQL_ASCII")
    async with opened(database.url, schema) as store:
        seq = await store.publish("doc", ["a.md"])
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(store.changed, seq)
            await anyio.sleep(0.2)
            with closing(database.as_(MALLORY)) as other:
                other.execute(SQL("NOTIFY {}, E'\\xff\\xfe'").format(Identifier(schema)))
            await anyio.sleep(0.3)
            with anyio.fail_after(60):
                await store.publish("doc", ["b.md"])


async def test_a_listener_whose_connection_is_ended_receives_the_next_event(database: Database, schema: str) -> None:
    async with opened(database.url, schema) as store:
        seq = await store.publish("doc", ["a.md"])
        for _ in range(3):
            with anyio.fail_after(60):
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(store.changed, seq)
                    await anyio.sleep(0.2)
                    database.admin(
                        SQL(
                            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = {} AND usename = {}"
                        ).format(schema, FORGE)
                    )
                    await anyio.sleep(0.1)
                    seq = await store.publish("doc", ["b.md"])
        assert len(await store.events_after(0)) == 4


# --- locks --------------------------------------------------------------------------------------------------------------


async def test_a_role_that_takes_our_locks_blocks_us_for_a_bounded_time_and_is_named(
    database: Database, schema: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Any role may take any advisory lock, and their numbers follow from the schema's name."""
    monkeypatch.setattr(postgres_schema, "LOCK_WAIT", "300ms")
    with closing(database.as_(MALLORY)) as squatter:
        squatter.execute("SELECT pg_advisory_lock(%s)", (PostgresSchema(schema).lock,))
        with anyio.fail_after(60), pytest.raises(DatabaseUnavailable, match=r"another session holds a lock.*pg_locks"):
            await PostgresStateStore.open(database.url, schema)
        squatter.execute("SELECT pg_advisory_unlock_all()")
        async with opened(database.url, schema) as store:
            squatter.execute("SELECT pg_advisory_lock(%s)", (PostgresSchema(schema).lock,))
            with anyio.fail_after(60), pytest.raises(StorageError, match=r"another session holds a lock.*pg_locks"):
                await store.publish("doc", ["a.md"])
            squatter.execute("SELECT pg_advisory_unlock_all()")
    async with opened(database.url, schema) as store:
        assert await store.publish("doc", ["a.md"]) == 1
