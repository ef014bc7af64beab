"""Fixtures that several contracts share."""

from __future__ import annotations

from tests.support.state.stores import store, where

__all__ = ["store", "where"]
