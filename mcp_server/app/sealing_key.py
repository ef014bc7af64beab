"""The key that seals what a client carries: questions with their state, and sessions. All processes of a knowledge base share it.

It is a file in the state directory, or a row of the state database if that is PostgreSQL, which several machines share.
"""

from __future__ import annotations

import os
import secrets
import shlex
import stat
from pathlib import Path

import anyio.to_thread

from knowledge.errors import KnowledgeError
from knowledge.state.ownership import others_could_read, others_could_write
from knowledge.state.tables import StateTables

KEY_FILE = "questions.key"
KEY_BYTES = 32  # the fewest that the SDK takes
NAME = "questions"
_MAKE = "INSERT INTO forge.sealing_key (name, secret) VALUES (%s, %s) ON CONFLICT (name) DO NOTHING"
_READ = "SELECT secret FROM forge.sealing_key WHERE name = %s"


class BadKeyFile(KnowledgeError):
    """The key file can't be used: another account may know the key, or it is damaged."""

    def __init__(self, path: Path, reason: str) -> None:
        self.path, self.reason = path, reason
        command = f"rm {shlex.quote(str(path))}"
        super().__init__(f"{path} is not used: {reason}; remove it and start again to get a new one: {command}")


async def sealing_key(folder: Path, tables: StateTables, *, shared: bool) -> bytes:
    """Return the key: of the state database if machines share it, otherwise of the state directory `folder`.

    Raises:
        BadKeyFile: as `key_in_file`.
    """
    return await shared_key(tables) if shared else await anyio.to_thread.run_sync(key_in_file, folder / KEY_FILE)


def key_in_file(path: Path) -> bytes:
    """Return the key in the file; the first process creates the file.

    Raises:
        BadKeyFile: the file is a link, another account can write or read it, or it has the wrong length.
    """
    if not path.exists():
        staged = path.with_name(f"{path.name}.{secrets.token_hex(4)}")
        descriptor = os.open(staged, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            os.write(descriptor, secrets.token_bytes(KEY_BYTES))
        finally:
            os.close(descriptor)
        try:
            # A link appears with the whole key or fails, so exactly one of several processes makes the key.
            os.link(staged, path)
        except FileExistsError:
            pass
        finally:
            staged.unlink()
    try:
        # Follow no link, and do not block if somebody put a pipe there.
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0))
    except OSError as error:
        raise BadKeyFile(path, error.strerror or type(error).__name__) from error
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise BadKeyFile(path, "it is not a file")
        if exposed := others_could_write(path, descriptor) or others_could_read(path, descriptor):
            raise BadKeyFile(path, exposed.problem)
        key = os.read(descriptor, KEY_BYTES + 1)  # one more byte, to notice a longer file
    finally:
        os.close(descriptor)
    if len(key) != KEY_BYTES:
        raise BadKeyFile(path, f"it does not hold {KEY_BYTES} bytes")
    return key


async def shared_key(tables: StateTables) -> bytes:
    """Return the key in the PostgreSQL database; of several processes that start at once, one makes it.

    Everyone who can use the schema can read the key. They can also change there who may do what, so the key gives them
    nothing more.
    """
    rows = await tables.read(_READ, (NAME,))
    if not rows:
        rows = await tables.write((_MAKE, (NAME, secrets.token_bytes(KEY_BYTES))), (_READ, (NAME,)))
    return bytes(rows[0][0])
