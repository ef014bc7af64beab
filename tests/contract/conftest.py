"""Fixtures that several contracts share."""

from __future__ import annotations

from tests.state_stores import store, where

__all__ = ["store", "where"]
