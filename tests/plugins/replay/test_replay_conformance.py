"""The replay does what every provider must do."""

from __future__ import annotations

import pytest

from greenroom.providers import ProviderSpec
from greenroom_replay import ReplayProvider, ReplaySettings
from greenroom_replay._plugin import CAPABILITIES
from greenroom_testing import ProviderConformance

QUICK = ('{"turn": "quick"}', '{"type": "text_delta", "text": "hello", "message_id": "m"}')
SLOW = (
    '{"turn": "slow"}',
    '{"type": "text_delta", "text": "wait", "message_id": "m"}',
    '{"after": 9e9, "type": "idle"}',
)


class TestReplay(ProviderConformance):
    slow = "any"  # what is played is decided by the script, not by the prompt

    @pytest.fixture
    def spec(self, request, tmp_path):
        waits = any(word in request.node.name for word in ("really_stops", "middle_of_a_turn"))
        file = tmp_path / "script.jsonl"
        file.write_text("\n".join(['{"script": 1}', *(SLOW if waits else ()), *QUICK]))
        provider = ReplayProvider(ReplaySettings(file=file), dict)
        return ProviderSpec(
            id="replay", label="Replay", steps="provider", load=lambda: provider, capabilities=CAPABILITIES
        )
