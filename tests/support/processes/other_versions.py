"""Other versions of the program than this checkout: an older one from its history, and a later one with one more migration."""

from __future__ import annotations

import io
import shutil
import subprocess
import tarfile
from pathlib import Path

from knowledge.state.postgres.schema import MIGRATIONS, migrations
from tests.support.processes.http_workers import ROOT

PARTS = ("mcp_server", "knowledge", "agents", "kb")
SCRIPTS = MIGRATIONS.relative_to(ROOT)


def newest_migration() -> str:
    """Return the name of the last script."""
    return max(file.name for file in MIGRATIONS.glob("*.sql"))


def before(migration: str, folder: Path) -> Path:
    """Unpack into `folder` the version before this migration of PostgreSQL's schema.

    Raises:
        FileNotFoundError: the history of this checkout lacks it.
    """
    added = _git("log", "--diff-filter=A", "--format=%H", "--", str(SCRIPTS / migration)).decode().split()
    parent = _git("rev-parse", "--verify", "--quiet", f"{added[-1]}^").decode().strip() if added else ""
    if not parent:
        raise FileNotFoundError(f"the history of this checkout has no version before {migration}; clone it whole")
    with tarfile.open(fileobj=io.BytesIO(_git("archive", "--format=tar", parent, *PARTS))) as packed:
        packed.extractall(folder, filter="data")
    return folder


def after(script: str, folder: Path) -> Path:
    """Make in `folder` a version with one more migration of PostgreSQL's schema than this checkout."""
    for part in PARTS:
        shutil.copytree(ROOT / part, folder / part, ignore=shutil.ignore_patterns("__pycache__"))
    (folder / SCRIPTS / f"{len(migrations()) + 1:04}_later.sql").write_text(script, encoding="utf-8")
    return folder


def _git(*arguments: str) -> bytes:
    done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, check=False)
    return done.stdout if done.returncode == 0 else b""
