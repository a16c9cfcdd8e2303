"""What is typed behind `greenroom permissions`; the work is done in modules that are imported when a command runs."""

from __future__ import annotations

import click

from greenroom.cli import CliState
from greenroom_manager.cli import _frame

_question = click.argument("question", required=False)
_action = click.option("--action", metavar="NAME", help="The action of the question that is meant, by its name.")


@click.group(epilog="Example: greenroom permissions list")
def permissions() -> None:
    """List and answer the questions of agents.

    ID is an agent's id, the beginning of one, `last`, or the id of its provider's conversation. The answer is given
    in the greenroom that drives the agent. QUESTION may be left out if only one waits.
    """


@permissions.command("list", epilog="Example: greenroom permissions list --json")
@click.argument("agent", metavar="[ID|last]", required=False)
@_frame.as_json
@click.pass_obj
def list_(state: CliState, *, agent: str | None, as_json: bool) -> None:
    """List the questions that wait for an answer, of one agent or of all."""
    from ._answers import list_questions

    _frame.run(list_questions, state, agent, as_json)


@permissions.command(epilog="Example: greenroom permissions allow last")
@_frame.agent
@_question
@_action
@click.option("--input", "given", metavar="JSON", help="The input that is allowed, in place of the one that was asked.")
@click.option("--answer", "answers", metavar="NAME=TEXT", multiple=True, help="An answer to a question in it.")
@_frame.as_json
@click.pass_obj
def allow(
    state: CliState,
    *,
    agent: str,
    question: str | None,
    action: str | None,
    given: str | None,
    answers: tuple[str, ...],
    as_json: bool,
) -> None:
    """Allow what an agent asks for."""
    from ._answers import Answer, give, input_of

    _frame.run(
        give, state, agent, question, Answer("allow", action=action, updated_input=input_of(given, answers)), as_json
    )


@permissions.command(epilog='Example: greenroom permissions deny last --message "use the test database"')
@_frame.agent
@_question
@_action
@click.option("--message", metavar="TEXT", help="Why; the model reads it.")
@click.option("--interrupt", is_flag=True, help="End the turn as well.")
@_frame.as_json
@click.pass_obj
def deny(
    state: CliState,
    *,
    agent: str,
    question: str | None,
    action: str | None,
    message: str | None,
    interrupt: bool,
    as_json: bool,
) -> None:
    """Deny what an agent asks for."""
    from ._answers import Answer, give

    _frame.run(
        give, state, agent, question, Answer("deny", action=action, message=message, interrupt=interrupt), as_json
    )
