"""What answers the questions of a run where nobody can be asked, and that the log says who did."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from .terminal import FULL_SPEED, greenroom

RUN = ("run", "--provider", "replay", "show me")
POLICY = "plugins.manager.permissions"


def _answers(cwd: Path) -> list[tuple[str, str]]:
    done = greenroom("log", "last", "--json", cwd=cwd)
    events = [json.loads(line) for line in done.stdout.splitlines()]
    return [
        (event["data"]["response"]["behavior"], event["data"]["by"])
        for event in events
        if event["type"] == "permission/answered"
    ]


def test_run_and_log_say_that_the_policy_denied_and_not_a_person(tmp_path: Path) -> None:
    done = greenroom(*FULL_SPEED, *RUN, cwd=tmp_path)
    log = greenroom("log", "last", cwd=tmp_path)
    assert _answers(tmp_path) == [("deny", "policy")]
    for told in (done.stdout, log.stdout):
        assert "  denied by policy (nobody was asked): nobody can be asked" in told.splitlines()
        assert "by the user" not in told
    assert done.returncode == 0


@pytest.mark.parametrize(
    ("settings", "answer", "status"),
    [
        (('headless="allow-list"', 'allow=["Ed*"]'), "allow", 0),
        (('headless="allow-list"', 'allow=["Read"]'), "deny", 0),
        (('headless="fail"',), "deny", 1),
    ],
    ids=["on the list", "not on the list", "fail"],
)
def test_the_policy_of_the_settings_answers_at_once(
    tmp_path: Path, settings: tuple[str, ...], answer: str, status: int
) -> None:
    chosen = [word for setting in settings for word in ("--set", f"{POLICY}.{setting}")]
    done = greenroom(*FULL_SPEED, *chosen, *RUN, cwd=tmp_path)
    assert _answers(tmp_path) == [(answer, "policy")]
    assert done.returncode == status, done.stderr
    assert ("The test passes" in done.stdout) == (answer == "allow")
