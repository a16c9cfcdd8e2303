"""What every provider must do, on the real binary; and what its plugin must do when it comes and goes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar

import pytest
from claude_box import Box
from claude_rig import ClaudePlugin
from stub_anthropic import Stub, turn
from stub_anthropic import text as says

import greenroom_claude
from greenroom.providers import ProviderSpec
from greenroom_claude import ClaudeSettings
from greenroom_testing import PluginConformance, ProviderConformance

pytestmark = pytest.mark.timeout(120)


class TestClaude(ProviderConformance):
    slow = "Take your time"

    @pytest.fixture
    def anyio_backend(self) -> str:
        return "asyncio"  # the seconds of a real process are spent once; the shell runs on both loops elsewhere

    @pytest.fixture
    def stub(self) -> Iterator[Stub]:
        slow = turn(says("A long answer. " * 50), hang=3, match=self.slow)
        with Stub([slow, slow], fallback=lambda _: turn(says("Hello."))) as stub:
            yield stub

    @pytest.fixture
    def spec(self, stub: Stub, tmp_path: Path) -> ProviderSpec:
        box = Box(tmp_path, stub)
        (spec,) = ClaudePlugin(box, ClaudeSettings(), box.given).providers()
        return spec


class TestPlugin(PluginConformance):
    plugin: ClassVar[object] = greenroom_claude
