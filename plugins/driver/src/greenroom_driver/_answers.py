"""Whether an answer fits its question. What the words of an answer mean is the provider's business."""

from __future__ import annotations

import json

import msgspec

from greenroom.agents import AgentError
from greenroom.providers import PermissionAllow, PermissionRequest, PermissionResponse
from greenroom.sessions import MAX_EVENT_BYTES


def check_answer(request: PermissionRequest, response: PermissionResponse) -> None:
    """Refuse what could not be logged, or names a button that the question does not have.

    Raises:
        AgentError: it does not fit; nobody was told of it.
    """
    wanted = "allow" if isinstance(response, PermissionAllow) else "deny"
    if response.action is not None:
        offered = {action.id: action.behavior for action in request.actions}
        if response.action not in offered:
            known = ", ".join(offered) or "none"
            raise AgentError(f"question {request.id!r} has no action {response.action!r}", hint=f"it has: {known}")
        if offered[response.action] != wanted:
            raise AgentError(f"the action {response.action!r} of question {request.id!r} does not {wanted}")
    try:
        text = json.dumps(msgspec.to_builtins(response), allow_nan=False, ensure_ascii=False)
        size = len(text.encode())
    except (ValueError, TypeError, RecursionError) as error:
        raise AgentError(f"the answer to question {request.id!r} is no JSON: {error}") from error
    if size > MAX_EVENT_BYTES // 2:  # the event around it needs room
        raise AgentError(f"the answer to question {request.id!r} has {size:,} bytes", hint="at most 512 KiB")
