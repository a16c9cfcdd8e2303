"""A plugin object that one agent has for itself."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from greenroom._scope import Scope
from greenroom._staging import Owner

if TYPE_CHECKING:
    from greenroom._hooks import Hooks
    from greenroom.agents._agent import Agent


async def mount_plugin(hooks: Hooks, agent: Agent, plugin: object, name: str | None) -> Scope:
    """Activate a plugin object under an agent's scope; its hooks hear the agent and its descendants.

    Cancelled or failed: nothing of it is left.

    Raises:
        PluginError: it is no plugin.
        HookError: its `activate` raised.
        ScopeClosed: the agent is going.
    """
    short = name or str(getattr(plugin, "__name__", None) or type(plugin).__name__).rpartition(".")[2].lower()
    owner = Owner(f"{agent.id}:{short}", short, f"mounted on agent {agent.id}")
    staged = hooks.check(plugin, owner, scope=agent.scope)
    above = agent.scope
    scope = Scope(f"plugin {short}", above.ground, parent=above, plugin=owner.plugin, generation=owner.generation)

    async def activate(own: Scope) -> None:
        impl = staged.impl("activate")
        if impl is not None:
            await hooks.activate.of(impl, own)
        for feed in hooks.feeds(staged):
            own.spawn(feed, name=f"observers of {short}")
        hooks.publish(staged)
        own.undo(partial(hooks.withdraw, staged), label="hooks")

    await scope.open(activate)
    return scope
