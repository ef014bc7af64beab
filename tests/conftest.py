"""Fixtures that several folders of tests share."""

from __future__ import annotations

from tests.postgres import fragile_postgres, postgres, schema

__all__ = ["fragile_postgres", "postgres", "schema"]
