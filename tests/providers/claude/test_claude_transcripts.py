"""Recordings through translator, driver and companion: the log that they leave, and how `greenroom log` prints it.

The transcripts lie in `transcripts/`. Run with GREENROOM_WRITE_TRANSCRIPTS=1 to write them anew; a commit that changes
one says why.
"""

from __future__ import annotations

import difflib
import os
from pathlib import Path
from typing import Any

import anyio
import pytest
from claude_recordings import names, processes

import greenroom_driver
import greenroom_normalize
from greenroom import Host, hookimpl, load_settings
from greenroom import providers as p
from greenroom.agents import AgentOptions, AgentSpec
from greenroom.sessions import Message
from greenroom.sessions.vocabulary import Text, UserSource
from greenroom_claude import Translator
from greenroom_claude._spec import CAPABILITIES
from greenroom_claude._wire import object_at, text_at, user_text
from greenroom_driver.cli._transcript import Transcript
from greenroom_session_invariants import SessionInvariants

pytestmark = [pytest.mark.asyncio, pytest.mark.timeout(60)]
WRITE = os.environ.get("GREENROOM_WRITE_TRANSCRIPTS") == "1"
FOLDER = Path(__file__).with_name("transcripts")
PRINTED = (
    *("simple_text", "thinking_text", "multi_turn", "permission_allow", "permission_deny", "permission_deny_interrupt"),
    *("ask_user_question", "plan_mode", "edit_permission", "interrupt_text", "interrupt_tool"),
    *("interrupt_permission", "subagent_forward_text", "subagent_background", "bash_background", "todo_write"),
    *(
        "error_529",
        "error_429",
        "auto_compact",
        "task_list_tools",
        "mcp_stdio_server",
        "queued_message_next_turn",
        "stop_max_tokens",
    ),
)


class Recorded(p.ProviderSession, p.Provider):
    """A session that says what was recorded, when the player lets it."""

    def __init__(self) -> None:
        self.translator = Translator()
        self.begun: list[str] = []

    async def availability(self):
        return p.Availability(ok=True)

    async def open(self, request, link):
        self.link = link
        return self

    @property
    def handle(self):
        return p.Handle(native_id=self.translator.native_id) if self.translator.native_id else None

    async def start_turn(self, request):
        self.begun.append(request.messages[-1].id)
        return request.messages[-1].id

    async def steer(self, message):
        return p.Steered.ACCEPTED

    async def interrupt(self):
        return p.Interrupted()

    async def respond(self, request_id, response):
        return None

    async def aclose(self):
        return None

    @hookimpl
    def providers(self):
        able = CAPABILITIES - {p.Capability.OUT_OF_BAND}
        return [p.ProviderSpec(id="claude", label="x", steps="provider", load=lambda: self, capabilities=able)]


async def play(conversation: list[tuple[str, Any]]) -> tuple[list[Any], list[str]]:
    """The log of a recorded process, and what the companion refused of it."""
    recorded = Recorded()
    given = {"driver": greenroom_driver, "normalize": greenroom_normalize, "companion": SessionInvariants(),
             "claude": recorded}  # fmt: skip
    async with Host(load_settings(), discovery=False, plugins=given) as host:
        spec = AgentSpec(cwd=Path("/workspace"), options=AgentOptions(provider="claude"))
        agent = (await host.agents.create(spec, owner=host.scope)).agent
        for number, (direction, frame) in enumerate(conversation):
            if direction == "in" and isinstance(frame, dict) and frame.get("type") == "user":
                await _say(agent, recorded, frame, number)
            else:
                say = recorded.translator.feed if direction == "out" else recorded.translator.sent
                for event in say(frame) if direction == "out" or isinstance(frame, dict) else ():
                    recorded.link.emit(event)
                if text_at(frame, "type") in {"result", "command_lifecycle"}:
                    await anyio.wait_all_tasks_blocked()
        for event in recorded.translator.closed("the process ended", code="provider_exited"):
            recorded.link.emit(event)
        recorded.link.lost("the process ended")
        with anyio.fail_after(10):
            await agent.when_idle()
        await agent.flush()
        events = await agent.session.events(0)
        wrong = [f"{row.code}: {row.text}" for row in host.diagnostics.recent if row.code == "event_refused"]
        return events, wrong


async def _say(agent: Any, recorded: Recorded, frame: Any, number: int) -> None:
    ident = text_at(frame, "uuid") or f"prompt-{number}"
    said = Message(ident, (Text(user_text(object_at(frame, "message")) or "(a picture)"),), UserSource())
    frame = {**frame, "uuid": ident}
    steers = recorded.translator.open_turn is not None
    for event in recorded.translator.sent(frame, steer=steers):
        recorded.link.emit(event)
    if steers:
        agent.steer(said)
    else:
        agent.followup(said)
    await anyio.wait_all_tasks_blocked()


@pytest.mark.parametrize("name", names())
async def test_the_log_of_a_recording_passes_the_companion(name: str) -> None:
    for conversation in processes(name):
        events, wrong = await play(conversation)
        assert wrong == []
        starts = [event for event in events if event.type == "turn/start"]
        assert len(starts) == len([event for event in events if event.type == "turn/end"])


@pytest.mark.parametrize("name", PRINTED)
async def test_a_recording_reads_as_it_did(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    for conversation in processes(f"claude/{name}"):
        events, _ = await play(conversation)
        transcript = Transcript(echo_prompts=True)
        for event in events:
            transcript.show(event)
        transcript.finish()
    printed = capsys.readouterr().out
    path = FOLDER / f"{name}.txt"
    if WRITE:
        FOLDER.mkdir(exist_ok=True)
        path.write_text(printed)
    stored = path.read_text()
    assert printed == stored, "\n".join(difflib.unified_diff(stored.splitlines(), printed.splitlines(), lineterm=""))
