"""Claude Code as a provider of greenroom."""

from __future__ import annotations

from ._translate import Translator

__all__ = ["Translator"]
