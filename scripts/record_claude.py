"""Record scenarios of the real Claude Code again, and say which messages and fields are new or gone.

    uv run python scripts/record_claude.py [OUT] [--only NAME ...] [--binary PATH]

The model is scripted, on loopback. Without OUT nothing is kept. The recordings of the tests are the yardstick: what is
printed is what a new version says otherwise in the same scenario.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests/providers/claude"))

from claude_box import Box, Driver, real_binary  # noqa: E402 - the tests own the box and the scripted model
from stub_anthropic import Stub, error, text, thinking, tool_use, turn  # noqa: E402

from greenroom import providers as p  # noqa: E402
from greenroom_claude._arguments import BASE  # noqa: E402
from greenroom_claude._process import AgentProcess, Launch, spawn  # noqa: E402

STORED = ROOT / "tests/data/recordings/claude"
LONGEST = 400
"""Characters of a string that are kept: the agent's own prompts are not ours to publish."""
TOUCH = tool_use("Bash", {"command": "touch made.txt", "description": "Make a file"})
SLEEP = tool_use("Bash", {"command": "python3 -c 'import time; time.sleep(30)'", "description": "Sleep"})
AGENT = {"description": "Count files", "prompt": "Count the files here.", "subagent_type": "Explore"}
SWEEP = {"content": "Sweep", "status": "pending", "activeForm": "Sweeping"}
COLOURS = [{"label": "Red", "description": "Warm"}, {"label": "Blue", "description": "Cool"}]
COLOUR = {"question": "Which colour?", "header": "Colour", "options": COLOURS, "multiSelect": False}

Play = Callable[[Driver], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Scenario:
    """What the model says, how the agent is started, and what we do."""

    model: list[Any] | dict[str, list[Any]]
    play: Play
    arguments: tuple[str, ...] = ()
    env: dict[str, str] = field(default_factory=dict)


def prompts(*texts: str) -> Play:
    """Prompt after prompt, each to its end."""

    async def play(driver: Driver) -> None:
        for said in texts:
            await driver.turn(said)

    return play


def answers(*responses: p.PermissionResponse) -> Play:
    """One prompt, and an answer to each question."""

    async def play(driver: Driver) -> None:
        await driver.prompt("Go")
        for number, response in enumerate(responses, 1):
            await driver.until(lambda _, number=number: asked(driver) >= number)
            last = [event for event in driver.events if isinstance(event, p.PermissionRequested)][-1]
            await driver.write(driver.translator.answer(last.request.id, response))
        await driver.until(lambda event: isinstance(event, p.TERMINAL))

    return play


def asked(driver: Driver) -> int:
    """How many questions there were."""
    return sum(isinstance(event, p.PermissionRequested) for event in driver.events)


def interrupted(kind: type) -> Play:
    """One prompt, interrupted at the first event of a kind; then another."""

    async def play(driver: Driver) -> None:
        await driver.prompt("Go")
        await driver.until(lambda event: isinstance(event, kind))
        await driver.process.control("interrupt")
        await driver.until(lambda event: isinstance(event, p.TERMINAL))
        await driver.turn("Stopped?")

    return play


async def background(driver: Driver) -> None:
    """One prompt, and the turn that its helper causes."""
    await driver.turn("Count with a helper")
    await driver.until(lambda event: isinstance(event, p.TERMINAL) and event.turn_id == "auto-1")


async def choices(driver: Driver) -> None:
    """Another model and other modes."""
    await driver.turn("Hi")
    await driver.process.control("set_model", model="haiku")
    await driver.process.control("set_permission_mode", mode="acceptEdits")
    await driver.turn("Hi")


SCENARIOS = {
    "simple_text": Scenario([turn(text("Hello!"))], prompts("Say hello")),
    "thinking_text": Scenario([turn(thinking("A number."), text("Twelve."))], prompts("A number")),
    "multi_turn": Scenario([turn(text("1")), turn(text("2"))], prompts("one", "two")),
    "permission_allow": Scenario([turn(TOUCH), turn(text("Made."))], answers(p.PermissionAllow())),
    "permission_deny": Scenario([turn(TOUCH), turn(text("Not."))], answers(p.PermissionDeny(message="No."))),
    "permission_deny_interrupt": Scenario([turn(TOUCH)], answers(p.PermissionDeny(message="Stop.", interrupt=True))),
    "ask_user_question": Scenario(
        [turn(tool_use("AskUserQuestion", {"questions": [COLOUR]})), turn(text("Blue."))],
        answers(p.PermissionAllow(updated_input={"answers": {"Colour": "Blue"}})),
    ),
    "interrupt_text": Scenario([turn(text("Long. " * 60), hang=3), turn(text("Yes."))], interrupted(p.TextDelta)),
    "interrupt_tool": Scenario(
        [turn(SLEEP), turn(text("Yes."))], interrupted(p.ToolProgress), ("--allowedTools", "Bash")
    ),
    "interrupt_permission": Scenario([turn(TOUCH), turn(text("Yes."))], interrupted(p.PermissionRequested)),
    "error_529": Scenario([error(529, "overloaded_error", "Overloaded")] * 2, prompts("Say hello")),
    "error_401": Scenario([error(401, "authentication_error", "no")] * 2, prompts("Say hello")),
    "subagent_forward_text": Scenario(
        {
            "main": [turn(tool_use("Agent", {**AGENT, "run_in_background": False})), turn(text("None."))],
            "agent": [turn(text("There are 0 files."))],
        },
        prompts("Count"),
        ("--forward-subagent-text",),
    ),
    "subagent_background": Scenario(
        {
            "main": [turn(tool_use("Agent", {**AGENT, "run_in_background": True})), turn(text("Wait.")), turn("Back.")],
            "agent": [turn(text("There are 0 files."), first_delay=0.4)],
        },
        background,
    ),
    "set_model_and_mode": Scenario([turn(text("1")), turn(text("2"))], choices),
    "todo_write": Scenario(
        [turn(tool_use("TodoWrite", {"todos": [SWEEP]})), turn(text("On it."))],
        prompts("Plan"),
        ("--tools", "Bash,TodoWrite"),
        {"CLAUDE_CODE_ENABLE_TASKS": "0"},
    ),
}


class Recorder(Driver):
    """A driver that also writes down what crosses the pipe."""

    def __init__(self, process: AgentProcess) -> None:
        super().__init__(process)
        self.lines: list[dict[str, Any]] = []
        self.begun = time.monotonic()

    def line(self, direction: str, frame: object) -> None:
        """Write down a frame."""
        self.lines.append({"dir": direction, "t": round(time.monotonic() - self.begun, 4), "msg": frame})

    async def on_frame(self, frame: dict[str, Any]) -> None:
        """Write down what was read."""
        self.line("out", frame)
        await super().on_frame(frame)

    async def write(self, frame: dict[str, Any]) -> None:
        """Write down what is written."""
        self.line("in", frame)
        await super().write(frame)


async def record(scenario: Scenario, binary: str, root: Path) -> list[Any]:
    """The lines of a scenario, without places of this machine and without long texts."""
    with Stub(scenario.model) as stub:
        box = Box(root, stub)
        argv = [binary, *BASE, *scenario.arguments]
        env = box.env(**scenario.env)
        del env["CLAUDE_CODE_EMIT_SESSION_STATE_EVENTS"]  # the stored ones were made without
        launch = Launch(argv=argv, cwd=box.cwd, env=env, marker=box.marker)
        process = await spawn(launch)
        recorder = Recorder(process)
        recorder.line("meta", {"argv": ["claude", *argv[1:]]})
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(process.run, recorder.on_frame)
            try:
                recorder.line("in", {"type": "control_request", "request": {"subtype": "initialize"}})
                await process.control("initialize", hooks=None)
                await scenario.play(recorder)
            finally:
                await process.stop()
    places = {str(box.cwd): "/workspace", str(box.config): "/home/user/.claude", str(box.home): "/home/user"}
    return [cut(line, {**places, str(root): "/tmp", stub.url: "<stub>"}) for line in recorder.lines]  # noqa: S108 - a text


def cut(value: object, places: dict[str, str]) -> object:
    """`value` without places of this machine and without long texts."""
    if isinstance(value, dict):
        return {key: cut(item, places) for key, item in value.items()}
    if isinstance(value, list):
        return [cut(item, places) for item in value]
    if not isinstance(value, str):
        return value
    for place, name in places.items():
        value = value.replace(place, name)
    return value if len(value) <= LONGEST else f"{value[:60]}... [{len(value)} characters]"


def shapes(lines: Iterable[dict[str, Any]]) -> dict[str, set[str]]:
    """Kind of message to its fields, of what the agent has said."""
    found: dict[str, set[str]] = {}
    for line in lines:
        frame = line["msg"]
        if line["dir"] != "out" or not isinstance(frame, dict):
            continue
        inner = next((frame[key] for key in ("request", "response", "event") if isinstance(frame.get(key), dict)), {})
        sort = frame.get("subtype") or inner.get("subtype") or inner.get("type")
        kind = "/".join(filter(None, (frame.get("type"), sort if isinstance(sort, str) else None)))
        fields = found.setdefault(kind, set())
        fields.update(frame)
        fields.update(f"{key}.{name}" for key, part in frame.items() if isinstance(part, dict) for name in part)
    return found


def differences(old: dict[str, set[str]], new: dict[str, set[str]]) -> list[str]:
    """What is said otherwise."""
    told = [f"+ {kind}" for kind in sorted(new.keys() - old.keys())]
    told += [f"- {kind}" for kind in sorted(old.keys() - new.keys())]
    for kind in sorted(old.keys() & new.keys()):
        signs = {f"+{name}" for name in new[kind] - old[kind]} | {f"-{name}" for name in old[kind] - new[kind]}
        if signs:
            told.append(f"  {kind}: {' '.join(sorted(signs))}")
    return told


async def main(out: Path | None, only: list[str], binary: str) -> None:
    """Record, compare, print."""
    for name in only or SCENARIOS:
        with tempfile.TemporaryDirectory(prefix="record-") as root:
            lines = await record(SCENARIOS[name], binary, Path(root))
        stored = read(STORED / f"{name}.jsonl")
        told = differences(shapes(stored), shapes(lines))
        print(f"{name}: {len(lines)} lines, {'as before' if not told else 'changed'}")
        for line in told:
            print(f"  {line}")
        if out is not None:
            keep(out / f"{name}.jsonl", lines)


def read(path: Path) -> list[Any]:
    """The lines of a recording."""
    return [json.loads(line) for line in path.read_text().splitlines()]


def keep(path: Path, lines: list[Any]) -> None:
    """Write a recording."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path, nargs="?", help="folder for the recordings")
    parser.add_argument("--only", nargs="*", default=[], choices=list(SCENARIOS), help="names of scenarios")
    parser.add_argument("--binary", default=None, help="the program; default: the one in the wheel")
    given = parser.parse_args()
    anyio.run(main, given.out, given.only, given.binary or real_binary())
