"""The command line and the environment of a launch."""

from __future__ import annotations

import json

import pytest

from greenroom.providers import ProviderError
from greenroom_claude._arguments import Options, arguments
from greenroom_claude._environment import describe, launch_environment, redact
from greenroom_claude._files import config_dir


def test_a_plain_session_has_the_flags_of_the_protocol_only() -> None:
    argv = arguments(Options())
    assert argv[:5] == ["-p", "--output-format", "stream-json", "--input-format", "stream-json"]
    assert not [flag for flag in argv if "=" in flag]


def test_what_was_chosen_is_on_the_command_line() -> None:
    argv = arguments(Options(model="sonnet", mode="plan", effort="high", resume="abc-1", fork=True, isolated=True))
    assert {"--model=sonnet", "--permission-mode=plan", "--effort=high", "--resume=abc-1", "--fork-session"} <= set(
        argv
    )
    assert argv[-2:] == ["--setting-sources=", "--strict-mcp-config"]


@pytest.mark.behaviour("P-465")
def test_the_ability_to_bypass_survives_a_restart_with_another_thinking_level() -> None:
    options = Options(may_bypass=True, effort="low", resume="abc")
    assert "--allow-dangerously-skip-permissions" in arguments(options)
    assert "--allow-dangerously-skip-permissions" in arguments(Options(mode="bypassPermissions"))
    assert "--allow-dangerously-skip-permissions" not in arguments(Options(mode="default"))


@pytest.mark.parametrize("bad", ["--dangerously-skip-permissions", "-p", "", "a b", "x\n--y", "../../x;y", "a" * 200])
def test_a_stored_id_never_becomes_a_flag(bad: str) -> None:
    for field in ("resume", "resume_at", "session_id"):
        with pytest.raises(ProviderError):
            arguments(Options(**{field: bad}))


@pytest.mark.parametrize("bad", [{"model": "--print"}, {"effort": "a b"}, {"mode": "yolo"}])
def test_a_value_that_cannot_be_one_is_refused(bad: dict[str, str]) -> None:
    with pytest.raises(ProviderError):
        arguments(Options(**bad))


@pytest.mark.parametrize("model", ["sonnet", "claude-opus-4-8[1m]", "us.anthropic.claude-v1:0", "arn:aws:bedrock/x"])
def test_names_of_models_pass(model: str) -> None:
    assert f"--model={model}" in arguments(Options(model=model))


def test_servers_are_one_argument() -> None:
    server = {"type": "http", "url": "http://127.0.0.1:1/mcp"}
    (argument,) = [
        flag for flag in arguments(Options(mcp_servers={"host": server})) if flag.startswith("--mcp-config=")
    ]
    assert json.loads(argument.split("=", 1)[1]) == {"mcpServers": {"host": server}}


def test_only_listed_variables_pass() -> None:
    given = {"PATH": "/bin", "HOME": "/h", "LC_ALL": "C", "ANTHROPIC_API_KEY": "k", "PYTHONPATH": "/x", "SECRET": "s"}
    env = launch_environment(given, marker={})
    assert {name: env[name] for name in ("PATH", "HOME", "LC_ALL", "ANTHROPIC_API_KEY")} == {
        name: given[name] for name in ("PATH", "HOME", "LC_ALL", "ANTHROPIC_API_KEY")
    }
    assert not {"PYTHONPATH", "SECRET"} & env.keys()


@pytest.mark.parametrize(
    "name",
    ["CLAUDECODE", "CLAUDE_CODE_SESSION_ID", "CLAUDE_CODE_MESSAGING_SOCKET", "CLAUDE_CODE_CHILD_SESSION", "CLAUDE_PID"],
)
def test_what_marks_an_agent_inside_an_agent_does_not_pass(name: str) -> None:
    assert name not in launch_environment({name: "outer"}, marker={})


def test_settings_of_the_agent_pass() -> None:
    given = {"CLAUDE_CONFIG_DIR": "/c", "CLAUDE_CODE_MAX_RETRIES": "1", "CLAUDE_CODE_OAUTH_TOKEN": "t"}
    assert given.items() <= launch_environment(given, marker={}).items()


def test_a_setting_lets_more_variables_pass() -> None:
    env = launch_environment({"MY_A": "1", "MY_B": "2", "OTHER": "3"}, marker={}, passed=["MY_*"])
    assert (env["MY_A"], env["MY_B"], "OTHER" in env) == ("1", "2", False)


def test_the_mark_of_the_host_wins_and_the_users_time_outs_stay() -> None:
    env = launch_environment({"MCP_TIMEOUT": "5", "PATH": "/a"}, marker={"GREENROOM_AGENT_ID": "x:1", "PATH": "/b"})
    assert (env["GREENROOM_AGENT_ID"], env["PATH"], env["MCP_TIMEOUT"]) == ("x:1", "/b", "5")
    assert env["MCP_TOOL_TIMEOUT"] == "600000"


@pytest.mark.behaviour("P-458")
def test_a_report_of_an_environment_holds_no_secret() -> None:
    env = {"ANTHROPIC_API_KEY": "sk-ant-123456", "AWS_SECRET_ACCESS_KEY": "zzzzzzzz", "GH_TOKEN": "t", "HOME": "/h"}
    told = describe(env)
    assert told == {"ANTHROPIC_API_KEY": "***", "AWS_SECRET_ACCESS_KEY": "***", "GH_TOKEN": "***", "HOME": "/h"}
    assert redact("key sk-ant-123456 and zzzzzzzz in /h", env) == "key *** and *** in /h"


def test_a_short_secret_does_not_blacken_ordinary_text() -> None:
    assert redact("a 1 in a text", {"X_TOKEN": "1"}) == "a 1 in a text"


def test_the_configuration_folder_follows_the_environment(tmp_path) -> None:
    assert str(config_dir({"CLAUDE_CONFIG_DIR": "/c", "HOME": "/h"})) == "/c"
    assert str(config_dir({"HOME": "/h"})) == "/h/.claude"
