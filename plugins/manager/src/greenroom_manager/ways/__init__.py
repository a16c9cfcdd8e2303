"""The ways in and out of an agent's life: create, open, close, reload, archive, unarchive, detach, delete."""

from __future__ import annotations
