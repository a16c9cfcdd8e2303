"""Questions of the provider: decided by hooks, asked of the user, answered once."""

from __future__ import annotations

from typing import TYPE_CHECKING

from greenroom import Decision, Verdict
from greenroom.agents import AgentError
from greenroom.providers import (
    PermissionAllow,
    PermissionDeny,
    PermissionRequest,
    PermissionResolved,
    PermissionResponse,
    ProviderError,
)
from greenroom.sessions import Message
from greenroom.sessions.vocabulary import SystemSource, Text

from ._answers import check_answer

if TYPE_CHECKING:
    from ._driver import AgentDriver


class Questions:
    """See `AgentDriver`, whose part it is. Nothing here waits in the pump: decisions run in a task of the agent."""

    def __init__(self, driver: AgentDriver) -> None:
        self._driver = driver
        self._deciding: set[str] = set()
        self._answering: set[str] = set()
        self._resolved: dict[str, PermissionResolved] = {}

    def asked(self, request: PermissionRequest) -> None:
        """The provider asks. With nobody who decides, the user is asked at once."""
        hooks = self._driver.host.hooks
        if hooks.permission_request.wanted or hooks.engine.guards:
            self._deciding.add(request.id)
            self._driver.scope.spawn(self._decide, request, self._driver.writer.turn, name="permission")
        else:
            self._driver.writer.asked(request)

    def resolved(self, event: PermissionResolved) -> None:
        """The provider closes a question; while our own answer is on its way, that one is logged."""
        self._deciding.discard(event.request_id)
        if event.request_id in self._answering:
            self._resolved[event.request_id] = event
        else:
            self._driver.writer.answered(event.request_id, event.response, event.by)

    async def respond(self, request_id: str, response: PermissionResponse, by: str) -> None:
        """See `Agent.respond`; raises what the provider raises, too.

        What the provider uses may have changed with the answer: it is asked for and logged first, so that whoever
        sees the question closed sees that as well.
        """
        driver = self._driver
        driver.pump.flush()
        if request_id in self._answering:
            raise ProviderError(f"question {request_id!r} is being answered")
        asked = driver.session.state.asked.get(request_id)
        if asked is None:
            await self._again(request_id, response)
            return
        check_answer(asked.request, response)
        self._answering.add(request_id)
        follow_up: str | None = None
        try:
            follow_up = await driver.connection.need().respond(request_id, response)
            driver.writer.given[request_id] = (response, by)
            if isinstance(response, PermissionAllow):
                driver.pump.flush()
                await driver.upkeep.refresh_contained()
        finally:
            driver.pump.post(lambda: self._close(request_id))
            driver.pump.flush()
        if follow_up is not None:  # a turn of its own, in place of what runs
            driver.control.replace(Message(driver.new_id(), (Text(follow_up),), SystemSource()))

    def _close(self, request_id: str) -> None:
        """Log our answer; if the provider did not take it, the one that it told of meanwhile."""
        self._answering.discard(request_id)
        told, writer = self._resolved.pop(request_id, None), self._driver.writer
        try:
            if request_id in writer.given:
                writer.answered(request_id, *writer.given[request_id])
            elif told is not None:
                writer.answered(request_id, told.response, told.by)
        finally:
            writer.given.pop(request_id, None)

    async def _again(self, request_id: str, response: PermissionResponse) -> None:
        """The question is not open: fine, if this is the answer that it got."""
        answers = await self._driver.session.events(0, types=["permission/answered"])
        given = next((e.data for e in reversed(answers) if e.data.request_id == request_id), None)
        if given is None:
            raise ProviderError(f"no question {request_id!r} is open")
        if given.response != response:
            word = "allowed" if isinstance(given.response, PermissionAllow) else "denied"
            raise AgentError(f"question {request_id!r} is answered: {word} by {given.by}")

    async def _decide(self, request: PermissionRequest, turn: int | None) -> None:
        driver = self._driver
        context = driver.context(turn, request.call_id)
        decision = await driver.host.hooks.permission_request(context, request)
        driver.pump.post(lambda: self._decided(request, turn, decision))

    def _decided(self, request: PermissionRequest, turn: int | None, decision: Decision | None) -> None:
        driver = self._driver
        if request.id not in self._deciding:
            return  # withdrawn meanwhile
        self._deciding.discard(request.id)
        if turn is not None and driver.writer.turn != turn:
            return  # its turn is over, and the question with it
        driver.writer.asked(request)
        if decision is None or decision.verdict is Verdict.ASK:
            return
        driver.scope.spawn(self._answer, request.id, _response(decision), f"hook:{decision.by}", name="answer")

    async def _answer(self, request_id: str, response: PermissionResponse, by: str) -> None:
        try:
            await self.respond(request_id, response, by)
        except Exception as error:  # noqa: BLE001 - the provider's code; the question stays open for the user
            self._driver.error(error, self._driver.writer.turn)


def _response(decision: Decision) -> PermissionResponse:
    """The answer that a hook's opinion stands for."""
    if isinstance(decision.answer, (PermissionAllow, PermissionDeny)):
        allows = isinstance(decision.answer, PermissionAllow)
        if allows == (decision.verdict is Verdict.ALLOW):
            return decision.answer
    if decision.verdict is Verdict.ALLOW:
        return PermissionAllow()
    return PermissionDeny(message=decision.reason or None)
