"""greenroom: a plugin host for coding agents.

What stands in `__all__` here, in `greenroom.errors`, `greenroom.hookspecs` and in
the packages `greenroom.sessions`, `greenroom.agents`, `greenroom.providers` and
`greenroom.cli` is public; everything underscored may change at any time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from greenroom._version import API_VERSION, __version__

if TYPE_CHECKING:
    from greenroom._context import CallContext
    from greenroom._decision import Block, Decision, Verdict, allow, ask, block, deny
    from greenroom._effect import Effect, EffectTree
    from greenroom._hooks import Hooks, hookimpl, implements
    from greenroom._host import Host
    from greenroom._layers import Layers
    from greenroom._lifecycle import PluginState
    from greenroom._records import PluginRecord
    from greenroom._scope import Scope
    from greenroom._settings.settings import Settings, load_settings
    from greenroom._trace import Outcome

__all__ = [
    "API_VERSION",
    "Block",
    "CallContext",
    "Decision",
    "Effect",
    "EffectTree",
    "Hooks",
    "Host",
    "Layers",
    "Outcome",
    "PluginRecord",
    "PluginState",
    "Scope",
    "Settings",
    "Verdict",
    "__version__",
    "allow",
    "ask",
    "block",
    "deny",
    "hookimpl",
    "implements",
    "load_settings",
]

_HOME = {
    "_context": ("CallContext",),
    "_decision": ("Block", "Decision", "Verdict", "allow", "ask", "block", "deny"),
    "_effect": ("Effect", "EffectTree"),
    "_hooks": ("Hooks", "hookimpl", "implements"),
    "_host": ("Host",),
    "_layers": ("Layers",),
    "_lifecycle": ("PluginState",),
    "_records": ("PluginRecord",),
    "_scope": ("Scope",),
    "_settings.settings": ("Settings", "load_settings"),
    "_trace": ("Outcome",),
}


def __getattr__(name: str) -> object:
    """Import a public name when it is first used (PEP 562): `greenroom --version` needs none of them."""
    for module, names in _HOME.items():
        if name in names:
            from importlib import import_module

            value: object = getattr(import_module(f"greenroom.{module}"), name)
            globals()[name] = value
            return value
    raise AttributeError(f"module 'greenroom' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
