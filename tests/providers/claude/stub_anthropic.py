"""A loopback stub of the Anthropic Messages API, scripted turn by turn.

Standard library only.  It answers exactly what the scenario says, so that the
real Claude Code CLI (or any Anthropic client) can be driven without a network
and without a model.

In a test::

    from stub_anthropic import Stub, text, thinking, tool_use, turn, error

    stub = Stub([
        turn(thinking("Look first."), tool_use("Bash", {"command": "ls"})),
        turn(text("Two files.")),
    ])
    with stub:
        env["ANTHROPIC_BASE_URL"] = stub.url
        ...
    assert stub.requests[1]["body"]["messages"][-1]["role"] == "user"
    assert not stub.leftover()

A scenario is a list of turns for the main conversation, or a dict of lists,
one per *lane*.  A request is put in a lane by ``lane_of`` (see there): "main",
"agent" (a sub-agent's request), "side" (title, summaries and other helper
calls).  Each POST /v1/messages takes the next turn of its lane; an empty lane
answers with ``fallback(lane)``, so a scenario lists only what matters to it.

A turn is a dict (JSON-able, so a scenario may be a .json file)::

    {"blocks": [{"type": "text", "text": "Hi"}, ...],   # what to stream
     "stop_reason": "end_turn",      # default: tool_use if a block is one
     "usage": {"input_tokens": 12},  # merged over the defaults
     "chunk": 8,                     # characters per delta
     "delay": 0.01,                  # seconds between deltas
     "first_delay": 0.0,             # seconds before message_start
     "hang": 2,                      # after N deltas stop sending, hold the
                                     # socket until the client hangs up (or
                                     # hang_s seconds, 20 by default)
     "cut": 2,                       # after N deltas drop the connection
     "sse_error": ["overloaded_error", "Overloaded"],  # error in mid-stream
     "error": [529, "overloaded_error", "Overloaded"], # HTTP error instead
     "headers": {"retry-after": "0"},
     "match": "regex on the last user text"}  # taken only by such a request

or a callable ``f(body) -> turn``.
"""

from __future__ import annotations

import json
import re
import select
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

Turn = dict[str, Any]


# ---- writing scenarios ------------------------------------------------------
def text(s: str) -> dict[str, Any]:
    return {"type": "text", "text": s}


def thinking(s: str, signature: str = "c3R1Yi1zaWduYXR1cmU=") -> dict[str, Any]:
    return {"type": "thinking", "thinking": s, "signature": signature}


def tool_use(name: str, input: dict[str, Any], id: str | None = None) -> dict[str, Any]:
    block = {"type": "tool_use", "name": name, "input": input}
    return block if id is None else {**block, "id": id}


def turn(*blocks: dict[str, Any] | str, **options: Any) -> Turn:
    return {"blocks": [text(b) if isinstance(b, str) else b for b in blocks], **options}


def error(status: int, kind: str, message: str, **options: Any) -> Turn:
    return {"error": [status, kind, message], **options}


# ---- reading requests -------------------------------------------------------
def last_user_text(body: dict[str, Any]) -> str:
    """The text the newest user message ends with, system reminders left out."""
    for message in reversed(body.get("messages", [])):
        if message.get("role") != "user":
            continue
        content = message["content"]
        if isinstance(content, str):
            return content
        texts = [b["text"] for b in content if b.get("type") == "text"]
        texts = [t for t in texts if not t.lstrip().startswith("<system-reminder>")]
        return texts[-1] if texts else ""
    return ""


def system_text(body: dict[str, Any]) -> str:
    system = body.get("system") or ""
    if isinstance(system, str):
        return system
    return "\n".join(block.get("text", "") for block in system)


def tool_names(body: dict[str, Any]) -> list[str]:
    return [t.get("name", "") for t in body.get("tools") or []]


def lane_of(body: dict[str, Any], headers: dict[str, str] | None = None) -> str:
    """Which lane of the scenario a request belongs to.

    Claude Code marks a sub-agent's requests with the header
    ``x-claude-code-agent-id``.  Helper calls (session title, bash-prefix
    detection, ...) carry neither tools nor a conversation.
    """
    headers = headers or {}
    if headers.get("x-claude-code-agent-id"):
        return "agent"
    if not body.get("tools"):
        return "side"
    return "main"


class Stub:
    """The server.  ``with Stub(scenario) as stub:`` serves until the block ends."""

    def __init__(
        self,
        scenario: list[Turn] | dict[str, list[Turn]] | None = None,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        lane: Callable[[dict[str, Any], dict[str, str]], str] = lane_of,
        fallback: Callable[[str], Turn] | None = None,
        api_key: str | None = None,
    ) -> None:
        if not host.startswith("127.") and host != "::1":
            raise ValueError("the stub serves the loopback interface only")
        lanes = scenario if isinstance(scenario, dict) else {"main": scenario or []}
        self.lanes: dict[str, list[Turn]] = {k: list(v) for k, v in lanes.items()}
        self.lane = lane
        self.fallback = fallback or (lambda name: turn(f"(stub: no turn left for {name})"))
        self.requests: list[dict[str, Any]] = []  # everything asked, in order
        self.api_key = api_key  # when set, any other key gets a 401
        self.closing = threading.Event()
        self._lock = threading.Lock()
        self._serial = 0
        stub = self

        class Handler(_Handler):
            owner = stub

        self.server = ThreadingHTTPServer((host, port), Handler)
        self.server.daemon_threads = True
        self._thread: threading.Thread | None = None

    # -- life cycle
    @property
    def url(self) -> str:
        return f"http://{self.server.server_address[0]}:{self.server.server_address[1]}"

    def __enter__(self) -> Self:
        self._thread = threading.Thread(target=self.server.serve_forever, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.closing.set()
        self.server.shutdown()
        self.server.server_close()

    # -- scenario
    def add(self, *turns: Turn, lane: str = "main") -> None:
        with self._lock:
            self.lanes.setdefault(lane, []).extend(turns)

    def leftover(self) -> dict[str, int]:
        with self._lock:
            return {name: len(turns) for name, turns in self.lanes.items() if turns}

    def messages(self, lane: str = "main") -> list[dict[str, Any]]:
        """The bodies of the /v1/messages requests a lane has had."""
        return [r["body"] for r in self.requests if r.get("lane") == lane]

    def take(self, body: dict[str, Any], lane: str) -> Turn:
        with self._lock:
            turns = self.lanes.get(lane, [])
            said = last_user_text(body)
            for i, candidate in enumerate(turns):
                pattern = candidate.get("match") if isinstance(candidate, dict) else None
                if pattern is None or re.search(pattern, said):
                    chosen = turns.pop(i)
                    break
            else:
                chosen = self.fallback(lane)
        return chosen(body) if callable(chosen) else chosen

    def serial(self) -> int:
        with self._lock:
            self._serial += 1
            return self._serial

    def note(self, entry: dict[str, Any]) -> None:
        with self._lock:
            self.requests.append(entry)


# ---- building responses -----------------------------------------------------
USAGE = {
    "input_tokens": 100,
    "cache_creation_input_tokens": 0,
    "cache_read_input_tokens": 0,
    "output_tokens": 1,
    "service_tier": "standard",
}


def _blocks(t: Turn, serial: int) -> list[dict[str, Any]]:
    out = []
    for n, block in enumerate(t.get("blocks", [])):
        minted = {"id": f"toolu_stub{serial:04d}{n:02d}", "input": {}} if block["type"] == "tool_use" else {}
        out.append({**minted, **block})
    return out


def _stop_reason(t: Turn, blocks: list[dict[str, Any]]) -> str:
    if "stop_reason" in t:
        return t["stop_reason"]
    return "tool_use" if any(b["type"] == "tool_use" for b in blocks) else "end_turn"


def _usage(t: Turn, blocks: list[dict[str, Any]]) -> dict[str, Any]:
    out = sum(len(json.dumps(b)) // 4 for b in blocks) + 1
    return {**USAGE, "output_tokens": out, **t.get("usage", {})}


def _cut(s: str, size: int) -> Iterator[str]:
    for i in range(0, len(s), size):
        yield s[i : i + size]


def events(t: Turn, model: str, serial: int) -> Iterator[tuple[str, dict[str, Any]]]:
    """The SSE events of a turn, in the order of the Messages API."""
    blocks = _blocks(t, serial)
    usage = _usage(t, blocks)
    size = int(t.get("chunk", 12))
    yield (
        "message_start",
        {
            "message": {
                "id": f"msg_stub{serial:04d}",
                "type": "message",
                "role": "assistant",
                "model": model,
                "content": [],
                "stop_reason": None,
                "stop_sequence": None,
                "usage": {**usage, "output_tokens": 1},
            }
        },
    )
    yield "ping", {}
    for i, b in enumerate(blocks):
        if b["type"] == "text":
            start, deltas = (
                {"type": "text", "text": ""},
                [{"type": "text_delta", "text": s} for s in _cut(b["text"], size)],
            )
        elif b["type"] == "thinking":
            start = {"type": "thinking", "thinking": "", "signature": ""}
            deltas = [{"type": "thinking_delta", "thinking": s} for s in _cut(b["thinking"], size)]
            deltas.append({"type": "signature_delta", "signature": b["signature"]})
        elif b["type"] == "tool_use":
            start = {"type": "tool_use", "id": b["id"], "name": b["name"], "input": {}}
            deltas = [{"type": "input_json_delta", "partial_json": ""}] + [
                {"type": "input_json_delta", "partial_json": s} for s in _cut(json.dumps(b["input"]), size)
            ]
        else:  # redacted_thinking, server_tool_use, ...: sent whole
            start, deltas = b, []
        yield "content_block_start", {"index": i, "content_block": start}
        for d in deltas:
            yield "content_block_delta", {"index": i, "delta": d}
        yield "content_block_stop", {"index": i}
    yield (
        "message_delta",
        {
            "delta": {"stop_reason": _stop_reason(t, blocks), "stop_sequence": None},
            "usage": usage,
        },
    )
    yield "message_stop", {}


def whole(t: Turn, model: str, serial: int) -> dict[str, Any]:
    """The same turn as one JSON answer, for a request without ``stream``."""
    blocks = _blocks(t, serial)
    return {
        "id": f"msg_stub{serial:04d}",
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": blocks,
        "stop_reason": _stop_reason(t, blocks),
        "stop_sequence": None,
        "usage": _usage(t, blocks),
    }


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    owner: Stub

    def log_message(self, *_: Any) -> None:
        pass

    # -- helpers
    def _json(self, status: int, body: dict[str, Any], headers: dict[str, str] | None = None) -> None:
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(data)))
        self.send_header("request-id", f"req_stub{self.owner.serial():04d}")
        for k, v in (headers or {}).items():
            self.send_header(k, v)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)

    def _fail(self, status: int, kind: str, message: str, headers: dict[str, str] | None = None) -> None:
        self._json(status, {"type": "error", "error": {"type": kind, "message": message}}, headers)

    def _note(self, body: Any, **more: Any) -> dict[str, Any]:
        entry = {
            "t": round(time.time(), 4),
            "method": self.command,
            "path": self.path,
            "headers": {k.lower(): v for k, v in self.headers.items()},
            "body": body,
            **more,
        }
        self.owner.note(entry)
        return entry

    # -- methods
    def do_HEAD(self) -> None:
        self._note(None)
        self._json(200, {})

    def do_GET(self) -> None:
        self._note(None)
        if self.path.startswith("/v1/models"):
            self._json(200, {"data": [], "has_more": False, "first_id": None, "last_id": None})
        else:
            self._fail(404, "not_found_error", f"stub: no {self.path}")

    def do_POST(self) -> None:
        raw = self.rfile.read(int(self.headers.get("content-length") or 0))
        try:
            body = json.loads(raw or b"{}")
        except ValueError:
            body = {"_raw": raw.decode("utf-8", "replace")}
        path = self.path.split("?")[0]
        if path == "/v1/messages/count_tokens":
            self._note(body)
            self._json(200, {"input_tokens": max(1, len(raw) // 4)})
            return
        if path != "/v1/messages":
            self._note(body)
            self._json(200, {})
            return
        headers = {k.lower(): v for k, v in self.headers.items()}
        lane = self.owner.lane(body, headers)
        self._note(body, lane=lane)
        if self.owner.api_key is not None and headers.get("x-api-key") != self.owner.api_key:
            self._fail(401, "authentication_error", "invalid x-api-key")
            return
        t = self.owner.take(body, lane)
        if t.get("first_delay"):
            self.owner.closing.wait(t["first_delay"])
        if "error" in t:
            status, kind, message = t["error"]
            self._fail(status, kind, message, t.get("headers"))
            return
        serial = self.owner.serial()
        model = t.get("model") or body.get("model", "stub")
        if not body.get("stream"):
            self._json(200, whole(t, model, serial), t.get("headers"))
            return
        self._stream(t, model, serial)

    def _stream(self, t: Turn, model: str, serial: int) -> None:
        self.send_response(200)
        self.send_header("content-type", "text/event-stream; charset=utf-8")
        self.send_header("cache-control", "no-cache")
        self.send_header("request-id", f"req_stub{serial:04d}")
        self.send_header("transfer-encoding", "chunked")
        for k, v in (t.get("headers") or {}).items():
            self.send_header(k, v)
        self.end_headers()
        deltas = 0
        try:
            for name, data in events(t, model, serial):
                self._event(name, data)
                if name != "content_block_delta":
                    continue
                deltas += 1
                if t.get("delay"):
                    self.owner.closing.wait(t["delay"])
                if deltas == t.get("hang"):
                    return self._hold(float(t.get("hang_s", 20)))
                if deltas == t.get("cut"):
                    self.close_connection = True
                    return None
                if "sse_error" in t and deltas == t.get("sse_error_after", 1):
                    kind, message = t["sse_error"]
                    self._event("error", {"error": {"type": kind, "message": message}})
                    break
            self.wfile.write(b"0\r\n\r\n")
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True

    def _hold(self, seconds: float) -> None:
        """Send nothing more; return when the client hangs up."""
        self.close_connection = True
        until = time.monotonic() + seconds
        while time.monotonic() < until and not self.owner.closing.is_set():
            readable, _, _ = select.select([self.connection], [], [], 0.05)
            if readable:
                return

    def _event(self, name: str, data: dict[str, Any]) -> None:
        chunk = f"event: {name}\ndata: {json.dumps({'type': name, **data})}\n\n".encode()
        self.wfile.write(b"%x\r\n%s\r\n" % (len(chunk), chunk))
        self.wfile.flush()
