"""Work that a test wants done by other processes, which it may kill or stop.

One warm process forks for each job that it reads from stdin, so that two hundred of them do
not cost two hundred starts of Python. A job talks through two named pipes.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sqlite3
import sys
from pathlib import Path

import anyio

from greenroom.errors import GreenroomError
from greenroom.sessions import SessionFenced, SessionRegistry, Vocabulary
from greenroom.sessions.vocabulary import (
    AssistantMessage,
    Reason,
    StepEnd,
    StepStart,
    Trigger,
    TurnEnd,
    TurnStart,
)
from greenroom_sqlite import SqliteStore
from greenroom_sqlite._rebuild import repair_file


class Job:
    """What a job gets: its arguments, and the pipes."""

    def __init__(self, arguments: dict) -> None:
        self.arguments = arguments
        self.path = Path(arguments["path"])
        self._out = os.open(arguments["out"], os.O_WRONLY)
        self._in = os.fdopen(os.open(arguments["in"], os.O_RDONLY), "r")

    def say(self, *words: object) -> None:
        os.write(self._out, (" ".join(str(word) for word in words) + "\n").encode())

    def hear(self) -> str:
        return self._in.readline().strip()


async def write_turns(job: Job) -> None:
    """Resume the session and write turns for ever; say how many events each flush has made durable."""
    chance = random.Random(job.arguments["seed"])
    store = SqliteStore(job.path, barrier="normal", window=chance.choice([0, 0.001, 0.2]))
    prepared = await SessionRegistry(store, Vocabulary()).prepare_resume("s")
    session = prepared.session
    prepared.registry.enter(prepared)
    job.say("ready", os.getpid())
    while True:
        turn = session.state.next_turn()
        session.append("turn/start", TurnStart(turn, Trigger("message")))
        for step in range(1, chance.randint(1, 3) + 1):
            session.append("step/start", StepStart(turn, step))
            for piece in range(chance.randint(0, 20)):
                message = f"m{turn}.{step}.{piece}"
                session.append("assistant/message", AssistantMessage(turn, step, str(len(session)), message))
                if chance.random() < 0.2:
                    await session.flush(chance.choice(["normal", "full"]))
                    job.say("durable", len(session))
            session.append("step/end", StepEnd(turn, step))
        session.append("turn/end", TurnEnd(turn, Reason("completed")))
        if chance.random() < 0.5:
            await session.flush()
            job.say("durable", len(session))


async def race(job: Job) -> None:
    """Try to take each of some sessions at the moment when the test says so."""
    store = SqliteStore(job.path, barrier="normal", owner=job.arguments["name"])
    await store.list()
    job.say("ready")
    while session_id := job.hear():
        try:
            lease = await store.acquire(session_id)
            job.say("owner", lease.token)
        except GreenroomError as error:
            job.say(type(error).__name__, str(error.args[0]))


async def own(job: Job) -> None:
    """Own a session, and write one event each time that the test says so."""
    store = SqliteStore(job.path, barrier="normal", owner="the old owner", window=60)
    prepared = await SessionRegistry(store, Vocabulary()).prepare_resume("s")
    session = prepared.session
    prepared.registry.enter(prepared)
    job.say("ready")
    while job.hear():
        session.append("turn/start", TurnStart(session.state.next_turn(), Trigger("message")))
        session.append("turn/end", TurnEnd(session.state.open_turn, Reason("completed")))
        try:
            await session.flush()
            job.say("written", len(session))
        except SessionFenced as error:
            job.say("fenced", str(error.args[0]))


async def lock(job: Job) -> None:
    """Stop in the middle of a transaction."""
    connection = sqlite3.connect(job.path, isolation_level=None)
    connection.execute("BEGIN IMMEDIATE")
    connection.execute("UPDATE counters SET value = value")
    job.say("ready")
    os.kill(os.getpid(), signal.SIGSTOP)


async def fork_and_end(job: Job) -> None:
    """Own a session, leave a forked child behind, and wait to be killed."""
    store = SqliteStore(job.path, barrier="normal")
    await store.acquire("s")
    if not (child := os.fork()):
        signal.pause()
    job.say("ready", child)
    job.hear()


async def repair(job: Job) -> None:
    """Repair the file, and be killed in front of the given step that changes the folder."""
    steps = iter(range(job.arguments["step"]))

    def kill_before(event: str, arguments: tuple) -> None:
        changes = event in ("os.rename", "os.remove", "os.link") or (event == "open" and arguments[2] & os.O_CREAT)
        if changes and str(arguments[0]).startswith(str(job.path)) and next(steps, None) is None:
            os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(kill_before)
    repair_file(job.path)
    job.say("done")


JOBS = {function.__name__: function for function in (write_turns, race, own, lock, fork_and_end, repair)}


def main() -> None:
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for the children, so none becomes a zombie
    for line in sys.stdin:
        arguments = json.loads(line)
        pid = os.fork()
        if not pid:
            try:
                anyio.run(JOBS[arguments["job"]], Job(arguments))
            finally:
                os._exit(0)
        print(pid, flush=True)  # noqa: T201 - the answer to the test


if __name__ == "__main__":
    main()
