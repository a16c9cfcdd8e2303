"""What {{distribution}} adds to greenroom: a greeter that other plugins can use."""

from greenroom import Scope, hookimpl
from pydantic import BaseModel

greenroom_api = "{{api}}"


class Settings(BaseModel, extra="forbid"):
    """The table `[plugins.{{name}}]`."""

    greeting: str = "hello"


class Greeter:
    """What this plugin offers: `host.service(Greeter)` finds it."""

    def __init__(self, greeting: str) -> None:
        self._greeting = greeting

    def greet(self, name: str) -> str:
        """Return a greeting for somebody."""
        return f"{self._greeting}, {name}"


@hookimpl
def plugin_settings() -> type[BaseModel]:
    """Tell the host what our table may hold."""
    return Settings


@hookimpl
def activate(scope: Scope) -> None:
    """Add everything through the scope; it is taken back when the plugin leaves."""
    assert isinstance(scope.settings, Settings)
    scope.provide(Greeter, Greeter(scope.settings.greeting))
