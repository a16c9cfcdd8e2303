"""Logs for the tests of the timeline: written by hand, or at random; and what they must look like, by brute force."""

from __future__ import annotations

import itertools
import random

import msgspec

from greenroom.providers import ShellDetail, UnknownDetail
from greenroom.sessions import MemoryStore, Ports, SessionRegistry, Vocabulary
from greenroom.sessions.vocabulary import (
    AssistantMessage,
    AssistantReasoning,
    Message,
    Notice,
    Reason,
    SteeringMessage,
    StepStart,
    SubagentItem,
    SubagentRemoved,
    SubagentUpserted,
    Text,
    ToolCall,
    ToolResult,
    ToolSettled,
    ToolUpdate,
    Trigger,
    TurnEnd,
    TurnStart,
    Usage,
    UsageUpdated,
    UserAcknowledged,
    UserMessage,
    UserSource,
)
from greenroom.timeline import Cursor, apply_patch
from greenroom_timeline import Timeline


class World:
    """One store, the hosts on it one after the other, and their timelines."""

    def __init__(self, sizes=None, medium=None):
        self.ids = (f"id-{number}" for number in itertools.count())
        self.store = MemoryStore(medium)
        self.vocabulary = Vocabulary()
        self.sizes = sizes
        self._registry()

    def _registry(self):
        ports = Ports(clock=itertools.count(1_000).__next__, new_id=lambda: next(self.ids))
        self.sessions = SessionRegistry(self.store, self.vocabulary, ports=ports)
        self.timeline = Timeline(self.sessions, **({} if self.sizes is None else {"sizes": self.sizes}))

    async def create(self, session_id="s"):
        self.entered = await self.sessions.create(self.sessions.new_header(session_id))
        return Log(self.entered.session)

    async def close(self):
        """The session leaves; only the store has it."""
        session = self.entered.session
        await self.entered.close()
        self.timeline.left(session)

    async def resume(self, session_id="s"):
        self.entered = self.sessions.enter(await self.sessions.prepare_resume(session_id))
        self.timeline.entered(self.entered.session)
        return Log(self.entered.session)

    async def crash(self, session_id="s"):
        """Kill the host, lose what was not flushed, and resume in another one."""
        medium = self.store._medium
        self.store.kill()
        self.timeline.close()
        self.store = MemoryStore(medium)
        self._registry()
        return await self.resume(session_id)

    async def events(self, session_id="s"):
        return list(await self.store.read_from(session_id, 0, limit=None))


class Log:
    """Short ways to write events into a session."""

    def __init__(self, session):
        self.session = session

    def write(self, type, data, **more):
        return self.session.append(type, data, **more).seq

    @property
    def at(self):
        state = self.session.state
        return max(state.last_turn, 1), max(state.last_step, 1)

    def turn(self):
        seq = self.write("turn/start", TurnStart(self.session.state.next_turn(), Trigger("message")))
        self.step()
        return seq

    def step(self):
        return self.write("step/start", StepStart(self.at[0], self.session.state.last_step + 1))

    def end(self, kind="completed", **more):
        return self.write("turn/end", TurnEnd(self.at[0], Reason(kind, **more)))

    def fail(self, message="broken"):
        return self.end("error", message=message, code="x")

    def user(self, id, text="hello"):
        return self.write("user/message", UserMessage(Message(id, (Text(text),), UserSource())), surface="append")

    def steer(self, id, text="and"):
        message = Message(id, (Text(text),), UserSource())
        return self.write("steering/message", SteeringMessage(message), surface="append")

    def acknowledge(self, id, provider_id="p"):
        return self.write("user/acknowledged", UserAcknowledged(id, provider_id))

    def piece(self, text, id=None, **more):
        surface = "append" if more.get("final") else None
        return self.write("assistant/message", AssistantMessage(*self.at, text, id, **more), surface=surface)

    def think(self, text, id=None, **more):
        return self.write("assistant/reasoning", AssistantReasoning(*self.at, text, id, **more))

    def call(self, id, command="ls", name="Bash"):
        return self.write("tool/call", ToolCall(*self.at, id, name, {"command": command}, ShellDetail(command)))

    def update(self, id, output=None, detail=None):
        return self.write("tool/update", ToolUpdate(id, detail or ShellDetail("ls", output=output)))

    def result(self, id, status="completed", detail=None, error=None):
        data = ToolResult(*self.at, id, status, detail or ShellDetail("ls", exit_code=0), error=error)
        return self.write("tool/result", data, surface="append")

    def settle(self, id, status="completed", output="late"):
        return self.write("tool/settled", ToolSettled(id, status, ShellDetail("ls", output=output)))

    def notice(self, text="note"):
        return self.write("notice", Notice("info", text))

    def usage(self):
        return self.write("usage/updated", UsageUpdated(Usage(input_tokens=1)))

    def child(self, id, call=None, **more):
        return self.write("subagent/upserted", SubagentUpserted(id, call, **more))

    def did(self, id, text):
        return self.write("subagent/item", SubagentItem(id, {"text": text}))

    def gone(self, id):
        return self.write("subagent/removed", SubagentRemoved(id))

    def recast(self, keep_before=None, reason="rewind"):
        return self.session.recast(reason, keep_before).seq


_ACTIONS = {
    "turn": 6, "step": 3, "end": 4, "fail": 1, "user": 6, "steer": 2, "ack": 4, "piece": 14, "think": 6, "call": 8,
    "update": 8, "result": 7, "settle": 3, "notice": 2, "usage": 4, "child": 3, "did": 4, "gone": 1,
}  # fmt: skip


class Writer:
    """Writes events at random: mostly plausible, now and then astray (ids come again, updates come late)."""

    def __init__(self, seed, log):
        self.random = random.Random(seed)
        self.log = log
        self.users = []
        self.number = 0

    def write(self, count):
        choice = self.random.choices(list(_ACTIONS), list(_ACTIONS.values()), k=count)
        for action in choice:
            getattr(self, f"_{action}")()

    def recast(self):
        length = len(self.log.session)
        self.log.recast(self.random.choice([length, self.random.randint(0, length), max(length - 5, 0)]))

    def _new(self):
        self.number += 1
        return self.number

    def _call_id(self):
        return f"call-{self.random.randint(1, 3)}"

    def _turn(self):
        self.log.turn()

    def _step(self):
        self.log.step()

    def _end(self):
        self.log.end()

    def _fail(self):
        self.log.fail()

    def _user(self):
        self.users.append(f"u-{len(self.log.session)}-{self._new()}")
        self.log.user(self.users[-1])

    def _steer(self):
        self.users.append(f"u-{len(self.log.session)}-{self._new()}")
        self.log.steer(self.users[-1])

    def _ack(self):
        if self.users:
            self.log.acknowledge(self.random.choice(self.users[-4:]), f"p-{self._new()}")

    def _piece(self):
        name = self.random.choice([None, "m-1", "m-2"])
        self.log.piece(f"t{self._new()} ", name, final=self.random.random() < 0.2)

    def _think(self):
        self.log.think(f"r{self._new()} ", self.random.choice([None, "m-1"]), final=self.random.random() < 0.2)

    def _call(self):
        self.log.call(self._call_id(), f"run {self._new()}")

    def _update(self):
        detail = UnknownDetail(input=1) if self.random.random() < 0.2 else None
        self.log.update(self._call_id(), f"out {self._new()}", detail)

    def _result(self):
        if self.random.random() < 0.3:
            self.log.result(self._call_id(), "failed", error="no")
        else:
            self.log.result(self._call_id(), self.random.choice(["completed", "unknown", "canceled"]))

    def _settle(self):
        self.log.settle(self._call_id(), output=f"late {self._new()}")

    def _notice(self):
        self.log.notice(f"n{self._new()}")

    def _usage(self):
        self.log.usage()

    def _child(self):
        call = self._call_id() if self.random.random() < 0.7 else None
        self.log.child(f"child-{self.random.randint(1, 2)}", call, title=f"c{self._new()}")

    def _did(self):
        self.log.did(f"child-{self.random.randint(1, 2)}", f"d{self._new()}")

    def _gone(self):
        self.log.gone(f"child-{self.random.randint(1, 2)}")


ROWS = {
    "user/message", "context/message", "steering/message", "assistant/message", "assistant/reasoning", "tool/call",
    "tool/update", "tool/result", "todo/write", "compaction/start", "compaction/end", "notice",
}  # fmt: skip


def expected_rows(events):
    """The rows that a log shows, as seq -> (type, item): the rules, written down once more without any index."""
    hidden = set()
    for event in events:
        if event.type == "session/recast":
            hidden.update(range(event.data.keep_before, event.seq))
    rows = {}
    keys = []
    parents = {}
    for event in events:
        data = msgspec.json.decode(event.raw)
        failed = event.type == "turn/end" and data["reason"]["kind"] in ("error", "interrupted")
        if event.type in ROWS or failed:
            if event.seq not in hidden:
                rows[event.seq] = (event.type, data)
            if "message" in data and event.type.endswith("/message"):
                keys.append((event.seq, data["message"]["id"], "message"))
            elif event.type == "tool/call":
                keys.append((event.seq, data["call_id"], "call"))
            continue
        patch = _patch(event.type, data, parents)
        if patch is not None:
            kind, key, fields = patch
            targets = [seq for seq, name, k in keys if (name, k) == (key, kind)]
            if targets and targets[-1] in rows:
                shown, item = rows[targets[-1]]
                rows[targets[-1]] = (shown, apply_patch(item, fields))
    return rows


def _patch(type, data, parents):
    if type == "user/acknowledged":
        return "message", data["message_id"], {"provider_message_id": data["provider_message_id"]}
    if type == "tool/settled":
        fields = {"status": data["status"], "detail": data["detail"], "error": data.get("error")}
        return "call", data["call_id"], fields
    if type.startswith("subagent/"):
        child = data.pop("child_id")
        if data.get("call_id"):
            parents.setdefault(child, data["call_id"])
        data.pop("call_id", None)
        if child not in parents:
            return None
        change = None if type == "subagent/removed" else data
        if type == "subagent/item":
            change = {"items": [data["item"]]}
        return "call", parents[child], {"children": {child: change}}
    return None


def items(rows):
    """Rows or entries as seq -> (type, item)."""
    return {row.seq: (row.type, row.data) for row in rows}


class Client:
    """What a client knows, by the protocol alone: it takes pages and updates, and complains about a broken chain."""

    def __init__(self):
        self.forget()
        self.cursor = None
        self.lags = self.recasts = self.resets = 0

    def forget(self):
        self.rows = {}
        self.marks = {}
        self.oldest = None
        self.wants_older = False

    def take(self, update):
        kind = type(update).__name__
        if kind == "Snapshot":
            self.newer(update.page)
        elif kind == "RowAdded":
            assert update.prev == self.cursor.seq
            self._row(update.row)
            self.cursor = Cursor(self.cursor.epoch, update.row.seq)
        elif kind == "Patched":
            assert update.prev == self.cursor.seq
            self._patch(update.patch)
            self.cursor = Cursor(self.cursor.epoch, update.patch.seq)
        elif kind == "Recast":
            self.recasts += 1
            assert update.epoch != self.cursor.epoch
        else:
            self.lags += 1
            assert update.cursor == self.cursor

    def newer(self, page):
        first = self.cursor is None or page.reset
        self.resets += page.reset
        if first:
            self.forget()
        else:
            assert page.epoch == self.cursor.epoch
        for row in page.rows:
            self._row(row)
        for patch in page.patches:
            assert patch.seq > self.cursor.seq
            self._patch(patch)
        if first:
            self.oldest, self.wants_older = page.start, page.has_older
        self.cursor = page.end

    def older(self, page):
        for row in page.rows:
            self._row(row)
        self.oldest, self.wants_older = page.start, page.has_older

    def _row(self, row):
        assert row.seq not in self.rows, f"row {row.seq} came twice"
        self.rows[row.seq] = (row.type, row.data)
        self.marks[row.seq] = -1 if row.patched is None else row.patched

    def _patch(self, patch):
        if patch.update in self.rows and patch.seq > self.marks[patch.update]:
            shown, item = self.rows[patch.update]
            self.rows[patch.update] = (shown, apply_patch(item, patch.data))
            self.marks[patch.update] = patch.seq
