"""What is answered where nobody can be asked; see `greenroom.agents.HeadlessPolicy`."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Final

import anyio

from greenroom.agents import Agent
from greenroom.errors import GreenroomError
from greenroom.providers import PermissionAllow, PermissionDeny, PermissionRequest, PermissionResponse

from ._settings import PermissionSettings

if TYPE_CHECKING:
    from ._context import Context

NOBODY: Final = "nobody can be asked"


class Policy:
    """Answers by the settings, the same for every agent of a host."""

    def __init__(self, settings: PermissionSettings) -> None:
        self._settings: Final = settings

    def answer(self, request: PermissionRequest) -> PermissionResponse:
        """See `HeadlessPolicy.answer`. What asks for more than yes or no is never allowed."""
        rule = self._settings.headless
        if rule == "fail":
            text = f"{NOBODY}, and the policy is to fail: {request.name}"
            return PermissionDeny(message=text, interrupt=True)
        if rule == "allow-list" and request.kind == "tool" and self._allows(request.name):
            return PermissionAllow()
        listed = rule == "allow-list"
        return PermissionDeny(message=f"{NOBODY}, and {request.name} is not on the list" if listed else NOBODY)

    def _allows(self, name: str) -> bool:
        return any(fnmatchcase(name, pattern) for pattern in self._settings.allow)


class Patience:
    """Gives a question that nobody answers in time to the policy.

    Args:
        wait: seconds.
    """

    def __init__(self, context: Context, policy: Policy, wait: float) -> None:
        self._context: Final = context
        self._policy: Final = policy
        self._wait: Final = wait
        self._waiting: set[tuple[str, str]] = set()
        context.asked.append(lambda agent, _before, _after: self._asked(agent))

    def _asked(self, agent: Agent) -> None:
        for request in agent.questions.values():
            key = (agent.id, request.id)
            if key not in self._waiting:
                self._waiting.add(key)
                agent.scope.spawn(self._answer, agent, request, name="patience")

    async def _answer(self, agent: Agent, request: PermissionRequest) -> None:
        try:
            await anyio.sleep(self._wait)
            if agent.questions.get(request.id) == request:
                await agent.respond(request.id, self._policy.answer(request), by="policy")
        except GreenroomError as error:  # somebody else was faster, or the agent leaves
            self._context.report("policy_not_answered", str(error), agent_id=agent.id)
        finally:
            self._waiting.discard((agent.id, request.id))
