"""The conformance class of providers: the scripted provider passes it, and broken ones do not."""

from __future__ import annotations

import pytest

from greenroom.providers import Capability, Interrupted, ProviderError, TurnCompleted
from greenroom.providers import ProviderSession as Plain
from greenroom_testing import EVERYTHING, ProviderConformance, ScriptedProvider, ScriptedSession
from greenroom_testing._scripted import answer


async def answer_or_go_on(session: ScriptedSession, request):
    if request.messages[-1].content[0].text != "slow":
        return await answer(session, request)
    return None


class Scripted(ProviderConformance):
    slow = "slow"
    steps = "provider"
    limit = 2.0

    @pytest.fixture
    def scripted(self):
        provider = ScriptedProvider(steps=self.steps, capabilities=EVERYTHING)
        provider.starting = answer_or_go_on
        provider.responding = refuse_unknown
        return provider

    @pytest.fixture
    def spec(self, scripted):
        return scripted.spec


async def refuse_unknown(session, request_id, response):
    raise ProviderError(f"no question {request_id}")


class TestProviderStepped(Scripted):
    pass


class TestHostStepped(Scripted):
    steps = "host"


class TestBare(Scripted):
    """One that names nothing: what it does not name is skipped or must be unsupported."""

    @pytest.fixture
    def spec(self, scripted):
        from dataclasses import replace

        class Bare(ScriptedSession):
            steer, set_mode, set_model = Plain.steer, Plain.set_mode, Plain.set_model
            set_thinking, set_feature, revert = Plain.set_thinking, Plain.set_feature, Plain.revert

        scripted.session_type = Bare
        return replace(scripted.spec, capabilities=frozenset())


class TestItCanFail:
    """Each broken provider fails the test that is about it."""

    @pytest.mark.anyio
    async def test_two_terminals_are_found(self, tmp_path):
        async def twice(session, request):
            session.say("x")
            session.emit(TurnCompleted(turn_id=session.turn), TurnCompleted(turn_id=session.turn))

        with pytest.raises(AssertionError):
            await self.run(
                "test_a_turn_says_something_and_ends_with_one_terminal_that_names_it", tmp_path, starting=twice
            )

    @pytest.mark.anyio
    async def test_an_interrupt_that_stops_nothing_is_found(self, tmp_path):
        async def ignore(session):
            return Interrupted()

        with pytest.raises(TimeoutError):
            await self.run("test_an_interrupt_really_stops", tmp_path, interrupting=ignore)

    @pytest.mark.anyio
    async def test_an_answer_to_anything_is_found(self, tmp_path):
        async def take(session, request_id, response):
            return None

        with pytest.raises(pytest.fail.Exception):
            await self.run("test_an_answer_to_no_question_is_an_error", tmp_path, responding=take)

    @pytest.mark.anyio
    async def test_a_conversation_that_is_not_known_is_found(self, tmp_path):
        with pytest.raises(AssertionError, match="native conversation"):
            await self.run("test_a_conversation_is_found_again_and_goes_on", tmp_path, reveals=False)

    async def run(self, name, tmp_path, **moves):
        provider = ScriptedProvider(capabilities=frozenset({Capability.RESUME}))
        provider.starting, provider.responding = answer_or_go_on, refuse_unknown
        for move, value in moves.items():
            setattr(provider, move, value)
        suite = Scripted()
        suite.limit = 0.2
        test = getattr(suite, name)
        names = test.__code__.co_varnames[: test.__code__.co_argcount]
        given = {"spec": provider.spec, "provider": provider, "tmp_path": tmp_path}
        await test(**{key: given[key] for key in names if key in given})
