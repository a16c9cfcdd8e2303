"""What is typed behind `greenroom permissions`; the work is done in modules that are imported when a command runs."""

from __future__ import annotations

import click


@click.group()
def permissions() -> None:
    """List and answer the questions of agents."""
