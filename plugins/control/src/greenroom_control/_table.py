"""All methods by name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from . import _agents, _methods
from ._call import Method

METHODS: Final[Mapping[str, Method[Any]]] = {  # each has parameters of its own
    method.name: method for method in (*_methods.METHODS, *_agents.METHODS)
}
