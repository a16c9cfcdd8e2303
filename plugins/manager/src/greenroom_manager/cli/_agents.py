"""What is typed behind `greenroom agents`; the work is done in modules that are imported when a command runs."""

from __future__ import annotations

import click


@click.group()
def agents() -> None:
    """List agents, end them, bring them back, look into them."""
