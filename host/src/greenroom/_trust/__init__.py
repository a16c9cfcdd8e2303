"""Which projects the user trusts, by the content that was there when the user looked."""

from __future__ import annotations

from greenroom._trust.store import STORE_NAME, Trust, Trusted, check_project, compare, pin_project, printable, quoted

__all__ = ["STORE_NAME", "Trust", "Trusted", "check_project", "compare", "pin_project", "printable", "quoted"]
