"""One conversation: a process, the translator of its frames, and what the driver asks of both."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Final

import anyio
import anyio.to_thread
import msgspec

from greenroom.providers import (
    TERMINAL,
    BackgroundWork,
    ConfigChanged,
    Handle,
    Interrupted,
    JsonObject,
    Mode,
    Notice,
    OutOfBand,
    OwnedProcess,
    PermissionRequested,
    PermissionResponse,
    ProviderError,
    ProviderEvent,
    ProviderLink,
    ProviderSession,
    RuntimeInfo,
    StaleSession,
    Steered,
    TurnFailed,
    TurnRequest,
    TurnStarted,
    UserEcho,
)
from greenroom.sessions import Message

from ._arguments import Options, arguments
from ._catalogue import REWIND, model_of, modes
from ._content import plain_text, rewound, user_frame
from ._files import find_session, read_history, read_rows
from ._history import before, last_prompt_id, stands
from ._process import AgentProcess, Launch, ProcessExited, spawn
from ._translate import Translator
from ._wire import Frame, object_at, text_at, texts_at

EXITED: Final = "provider_exited"
"""The code by which the driver knows that nothing runs any more."""
START: Final = 60.0
"""Seconds to the answer to `initialize`: a loaded machine, a cold cache, servers that are started first."""
ANSWER: Final = 60.0
"""Seconds to the answer to any other request."""
QUEUED: Final = 2.0
"""Seconds for the sign that a message was taken into the agent's queue; it takes milliseconds."""
SERVER: Final = "greenroom"
"""The name under which the agent sees the host's tools."""
_INTERRUPT: Final[JsonObject] = {"type": "control_request", "request": {"subtype": "interrupt"}}
_GONE: Final = "No conversation found"


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """What a session's processes are started with, apart from the options of the conversation.

    Attributes:
        config: the agent's configuration folder, where the histories are.
        prefix: arguments of the user's own command, in front of ours; `extra`: further ones, behind them.
    """

    binary: str
    cwd: Path
    env: dict[str, str]
    marker: dict[str, str]
    config: Path
    prefix: tuple[str, ...] = ()
    extra: tuple[str, ...] = ()

    def launch(self, options: Options) -> Launch:
        """How a process is started."""
        argv = [self.binary, *self.prefix, *arguments(options), *self.extra]
        return Launch(argv=argv, cwd=self.cwd, env=self.env, marker=self.marker)


class ClaudeSession(ProviderSession):
    """See `ProviderSession`. Made, and then started with `launch`."""

    def __init__(self, setting: Setting, options: Options, link: ProviderLink, new_id: Callable[[], str]) -> None:
        self._setting = setting
        self._options = options
        self._link = link
        self._new_id = new_id
        self._translator = Translator(options.resume)
        self._process: AgentProcess | None = None
        self._initialized: JsonObject = {}
        self._thinking = options.effort
        self._cut: str | None = None  # the message in front of which the conversation was cut
        self._prompts: dict[str, str] = {}  # uuid on the wire to the id of our message, until it is echoed
        self._starts: dict[str, anyio.Event] = {}  # uuid of a prompt to the first sign that it has begun
        self._steers: dict[str, anyio.Event] = {}  # uuid of a steering message to the sign that it was taken
        self._ready = self._stopping = False
        self._gone: str | None = None
        self._complaint: str | None = None

    # its process

    async def launch(self) -> None:
        """Start the process and wait until it is ready. Cancelled or raised: no process is left.

        Raises:
            StaleSession: the conversation to resume does not exist.
            ProviderError: it cannot be started, or says why it does not start.
        """
        process = await spawn(self._setting.launch(self._options))
        self._process, self._ready, self._stopping, self._gone = process, False, False, None
        try:
            self._link.spawn(partial(self._run, process), name=f"frames of process {process.pid}")
            await self._link.owns(OwnedProcess(pid=process.pid, group=process.pid))
            about = {"appendSystemPrompt": self._link.prompt} if self._link.prompt else {}
            self._initialized = await process.control(
                "initialize", timeout=START, hooks=None, forwardSubagentText=True, **about
            )
            await self._offer_tools()
        except BaseException as error:
            self._stopping = True
            await process.stop(interrupt=False)
            if isinstance(error, ProcessExited):
                raise self._refusal(process) from error
            if isinstance(error, TimeoutError):
                raise ProviderError(f"Claude Code did not answer within {START:g} s of its start") from error
            raise
        self._ready = True

    def _refusal(self, process: AgentProcess) -> ProviderError:
        said = self._complaint or process.stderr_tail.strip() or "it said nothing"
        if _GONE in said:
            return StaleSession(said, hint="start a new session")
        hint = None
        if "root" in said and "permissions" in said:
            hint = "the mode that never asks is refused to root; use another mode, or IS_SANDBOX=1 in a sandbox"
        return ProviderError(f"Claude Code did not start: {said} ({process.obituary()})", hint=hint)

    async def _offer_tools(self) -> None:
        """Name the host's tools to the agent, over its pipe: a command line can be read by everybody."""
        tools = self._link.tools
        if tools is not None:
            headers = {"Authorization": f"Bearer {tools.token}"}
            server = {"type": "http", "url": tools.url, "headers": headers}
            await self._control("mcp_set_servers", servers={SERVER: server})

    async def _run(self, process: AgentProcess) -> None:
        await process.run(self._on_frame)
        if process is not self._process or self._stopping or not self._ready:
            return
        error, diagnostic = process.obituary(), process.stderr_tail.strip() or None
        for event in self._translator.closed(error, code=EXITED, diagnostic=diagnostic):
            self._emit(event)
        self._gone = error
        self._link.lost(error, code=EXITED, diagnostic=diagnostic)
        for sign in (*self._starts.values(), *self._steers.values()):
            sign.set()
        await process.stop()  # what it has started still works

    async def aclose(self) -> None:
        """See `ProviderSession.aclose`."""
        process, self._stopping = self._process, True
        if process is None:
            return
        if self._gone is None:
            self._note(_INTERRUPT)
        stopped = await process.stop()
        if stopped.left:
            pids = ", ".join(map(str, stopped.left))
            raise ProviderError(f"processes of Claude Code could not be ended: {pids}", hint="end them by hand")

    def _live(self) -> AgentProcess:
        if self._process is None or self._gone is not None or self._stopping:
            raise StaleSession(self._gone or "the session is closed")
        return self._process

    # frames

    async def _on_frame(self, frame: Frame) -> None:
        for event in self._translator.feed(frame):
            self._emit(event)
        kind = frame.get("type")
        if kind == "command_lifecycle":
            _set(self._steers, text_at(frame, "command_uuid"))
        elif kind == "control_request" and text_at(frame, "request_id") not in self._translator.questions:
            await self._decline(frame)
        await self._link.room()

    async def _decline(self, frame: Frame) -> None:
        """Answer a request that nobody here understands: the agent would wait for ever."""
        subtype = text_at(object_at(frame, "request"), "subtype")
        error = f"Unsupported control request subtype: {subtype}"
        answer: JsonObject = {"subtype": "error", "request_id": frame.get("request_id"), "error": error}
        try:
            await self._live().write({"type": "control_response", "response": answer})
        except ProviderError:
            return  # it is gone, and so is its question

    def _note(self, frame: Frame, *, steer: bool = False) -> None:
        for event in self._translator.sent(frame, steer=steer):
            self._emit(event)

    def _emit(self, event: ProviderEvent) -> None:
        if isinstance(event, UserEcho) and event.client_message_id in self._prompts:
            event = msgspec.structs.replace(event, client_message_id=self._prompts.pop(event.client_message_id))
        elif isinstance(event, ConfigChanged) and event.model is not None:
            model = model_of(event.model, self._initialized) or event.model
            event = msgspec.structs.replace(event, model=model)
        elif isinstance(event, TurnFailed) and event.turn_id is None and self._starts:
            event = msgspec.structs.replace(event, turn_id=next(iter(self._starts)))
        if isinstance(event, Notice) and event.level == "error":
            self._complaint = event.message
        self._link.emit(event)
        self._see(event)

    def _see(self, event: ProviderEvent) -> None:
        """Whether an event is a sign that a prompt has begun: its turn, its echo, or a question of any turn."""
        if isinstance(event, PermissionRequested):
            for sign in self._starts.values():
                sign.set()
        elif isinstance(event, UserEcho):
            _set(self._starts, event.provider_message_id)
        elif isinstance(event, (TurnStarted, *TERMINAL)):
            _set(self._starts, event.turn_id)

    # turns

    @property
    def handle(self) -> Handle | None:
        """See `ProviderSession.handle`."""
        native = self._translator.native_id
        return Handle(native_id=native) if native is not None else None

    async def start_turn(self, request: TurnRequest) -> str:
        """See `ProviderSession.start_turn`; the uuid of the prompt on the wire is the id of the turn."""
        process, ident = self._live(), self._new_id()  # never used before: the agent skips an id that it knows
        frame = user_frame(ident, request.messages)
        self._prompts[ident] = request.messages[-1].id
        begun = self._starts[ident] = anyio.Event()
        try:
            self._note(frame)
            try:
                await process.write(frame)
            except ProcessExited as error:
                raise StaleSession(str(error)) from error
            await begun.wait()
        finally:
            del self._starts[ident]
        if self._gone is not None:
            raise ProviderError(self._gone)
        return ident

    async def steer(self, message: Message) -> Steered:
        """See `ProviderSession.steer`: accepted means that it is in the agent's queue for the next model request."""
        try:
            process, ident = self._live(), self._new_id()
            frame = user_frame(ident, (message,))
        except ProviderError:
            return Steered.UNAVAILABLE
        self._prompts[ident] = message.id
        taken = self._steers[ident] = anyio.Event()
        try:
            self._note(frame, steer=True)
            await process.write(frame)
            with anyio.move_on_after(QUEUED):  # an old version takes it without a word
                await taken.wait()
        except ProcessExited:
            return Steered.UNAVAILABLE
        finally:
            del self._steers[ident]
        return Steered.ACCEPTED if self._gone is None else Steered.AMBIGUOUS

    async def interrupt(self) -> Interrupted:
        """See `ProviderSession.interrupt`; what waits in the agent's queue is taken back too."""
        self._note(_INTERRUPT)
        answer = await self._control("interrupt", cancel_queued=True)
        return Interrupted(withdrawn=tuple(self._prompts.get(i, i) for i in texts_at(answer, "cancelled")))

    async def respond(self, request_id: str, response: PermissionResponse) -> str | None:
        """See `ProviderSession.respond`; nothing follows an answer, the agent goes on by itself."""
        process, answer = self._live(), self._translator.answer(request_id, response)
        self._note(answer)
        await process.write(answer)
        return None

    def background(self) -> Sequence[BackgroundWork]:
        """See `ProviderSession.background`."""
        rows = self._translator.background if self._gone is None else ()
        return [
            BackgroundWork(id=text_at(row, "task_id") or "", description=text_at(row, "description") or "")
            for row in rows
        ]

    # what it uses

    async def set_mode(self, mode: str) -> str | None:
        """See `ProviderSession.set_mode`."""
        await self._control("set_permission_mode", mode=mode)
        self._options = replace(self._options, mode=mode)
        return None

    async def set_model(self, model: str | None) -> None:
        """See `ProviderSession.set_model`; a name that nobody knows fails with the next turn."""
        await self._control("set_model", model=model)
        self._options = replace(self._options, model=model)

    async def set_thinking(self, level: str | None) -> None:
        """See `ProviderSession.set_thinking`: the effort."""
        await self._control("apply_flag_settings", settings={"effortLevel": level})
        self._thinking = level
        self._options = replace(self._options, effort=level)

    async def runtime_info(self) -> RuntimeInfo:
        """See `ProviderSession.runtime_info`; before the first turn the agent only tells its mode."""
        told = self._translator
        return RuntimeInfo(
            model=(model_of(told.model, self._initialized) or told.model) if told.model else None,
            mode=told.mode or text_at(self._initialized, "current_permission_mode"),
            thinking=self._thinking,
            context_window=told.context_max,
        )

    async def modes(self) -> Sequence[Mode]:
        """See `ProviderSession.modes`."""
        return modes(bypass=self._options.may_bypass or self._options.mode == "bypassPermissions")

    async def _control(self, subtype: str, **fields: object) -> JsonObject:
        process = self._process
        if process is None:
            raise ProviderError("the session is closed")
        try:
            return await process.control(subtype, timeout=ANSWER, **fields)
        except TimeoutError as error:
            raise ProviderError(f"Claude Code did not answer to {subtype}") from error

    # its past

    def history(self) -> AsyncIterator[ProviderEvent]:
        """See `ProviderSession.history`; reads the file and changes nothing."""
        return self._history()

    async def _history(self) -> AsyncIterator[ProviderEvent]:
        if (path := self._file()) is not None:
            for event in await anyio.to_thread.run_sync(read_history, path, self._cut):
                yield event

    async def revert(self, provider_message_id: str) -> None:
        """See `ProviderSession.revert`: the agent is started again with what came before.

        It writes the new branch with its next prompt; if it dies before, the message is on the branch again.
        """
        path, native = self._file(), self._translator.native_id
        rows = await anyio.to_thread.run_sync(read_rows, path) if path is not None else []
        if not stands(rows, provider_message_id):
            return
        cut = before(rows, provider_message_id)
        if self._process is not None:
            self._stopping = True
            await self._process.stop()
        if cut is None:
            self._options = replace(self._options, resume=None, resume_at=None)
            self._translator = Translator()
        else:
            self._options = replace(self._options, resume=native, resume_at=cut)
            self._translator = Translator(native)
        await self.launch()
        self._cut = provider_message_id

    def out_of_band(self, message: Message) -> OutOfBand | None:
        """See `ProviderSession.out_of_band`: `/rewind [id]` takes back what was done to files since a message."""
        words = (plain_text(message) or "").split()
        if not words or words[0] != f"/{REWIND.name}" or len(words) > 2:  # noqa: PLR2004 - the command and its argument
            return None
        return OutOfBand(run=partial(self._rewind, words[1] if len(words) > 1 else None))

    async def _rewind(self, target: str | None) -> None:
        path = self._file()
        if target is None and path is not None:
            target = last_prompt_id(await anyio.to_thread.run_sync(read_rows, path))
        if target is None:
            raise ProviderError("there is no message to go back to")
        self._link.emit(rewound(await self._control("rewind_files", user_message_id=target)))

    def _file(self) -> Path | None:
        native = self._translator.native_id
        return find_session(self._setting.config, native) if native is not None else None


def _set(signs: dict[str, anyio.Event], ident: str | None) -> None:
    sign = signs.get(ident or "")
    if sign is not None:
        sign.set()
