"""How the user's own way to start Claude Code reaches its processes."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import anyio
import pytest

from greenroom import providers as p
from greenroom_claude._settings import ClaudeSettings
from greenroom_claude._spec import spec
from greenroom_testing import RecordingLink

pytestmark = pytest.mark.asyncio

RECORDER = """#!{python}
import json, os, sys
with open({log!r}, "a") as log:
    log.write(json.dumps([sys.argv[1:], dict(os.environ)]) + "\\n")
print("9.9.9" if "--version" in sys.argv else '{{"loggedIn": true}}')
sys.exit(0 if "--version" in sys.argv or "auth" in sys.argv else 4)
"""


class Recorder:
    """A program that notes how it was started, and ends."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.log = folder / "log.jsonl"
        self.path = folder / "wrapper"
        self.path.write_text(RECORDER.format(python=sys.executable, log=str(self.log)))
        self.path.chmod(0o755)
        self.folder = folder
        monkeypatch.setenv("HOME", str(folder))
        monkeypatch.setenv("CLAUDECODE", "1")
        monkeypatch.setenv("CLAUDE_CODE_SESSION_ID", "outer")

    def starts(self) -> list[tuple[list[str], dict[str, str]]]:
        return [tuple(json.loads(line)) for line in self.log.read_text().splitlines()]

    async def open(self, launch: p.Launch, env: dict[str, str], **settings: object) -> tuple[list[str], dict[str, str]]:
        made = spec(ClaudeSettings(**settings)).launched
        assert made is not None

        async with anyio.create_task_group() as tasks:
            link = RecordingLink(tasks)
            link.env = env
            with pytest.raises(p.ProviderError):
                await made(launch).open(p.OpenRequest(session_id="s", cwd=self.folder), link)
        return self.starts()[-1]


@pytest.fixture
def recorder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Recorder:
    return Recorder(tmp_path, monkeypatch)


@pytest.mark.behaviour("P-505")
async def test_a_command_replaces_ours_and_arguments_are_appended(recorder) -> None:
    launch = p.Launch(command=(str(recorder.path), "--wrapped"), arguments=("--debug",))
    argv, _ = await recorder.open(launch, {})
    assert argv[:2] == ["--wrapped", "-p"]
    assert argv[-1] == "--debug"
    default, _ = await recorder.open(p.Launch(), {}, binary=str(recorder.path))
    assert default == [word for word in argv if word not in ("--wrapped", "--debug")]


@pytest.mark.behaviour("P-505")
async def test_variables_merge_the_agents_own_win_and_marks_of_an_outer_agent_are_stripped(recorder) -> None:
    launch = p.Launch(command=(str(recorder.path),), env={"A": "settings", "B": "settings", "HOME": "/elsewhere"})
    _, env = await recorder.open(launch, {"B": "agent", "GREENROOM_AGENT_ID": "s:1"})
    assert (env["A"], env["B"], env["HOME"], env["GREENROOM_AGENT_ID"]) == ("settings", "agent", "/elsewhere", "s:1")
    assert not {"CLAUDECODE", "CLAUDE_CODE_SESSION_ID"} & env.keys()
    assert "PATH" in env


@pytest.mark.behaviour("P-503")
async def test_tools_that_are_ruled_out_are_named_to_the_program_beside_the_users_arguments(recorder) -> None:
    launch = p.Launch(disallowed_tools=("Bash", "WebFetch"))
    argv, _ = await recorder.open(launch, {}, binary=str(recorder.path), arguments=("--disallowedTools=Write",))
    assert [word for word in argv if word.startswith("--disallowedTools")] == [
        "--disallowedTools=Write",
        "--disallowedTools=Bash,WebFetch",
    ]


async def test_a_probe_uses_the_same_command(recorder) -> None:
    made = spec(ClaudeSettings()).launched
    found = await made(p.Launch(command=(str(recorder.path), "--wrapped"), env={"A": "1"})).availability()
    assert (found.ok, found.version) == (True, "9.9.9")
    assert [argv for argv, _ in recorder.starts()] == [["--wrapped", "--version"], ["--wrapped", "auth", "status"]]
    assert all(env["A"] == "1" for _, env in recorder.starts())
