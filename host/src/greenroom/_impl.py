"""One implementation of a hook, checked and ready to be called."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from greenroom._context import CallContext
    from greenroom._feed import Feed
    from greenroom._kinds import Spec
    from greenroom._scope import Scope

OPTIONS_ATTRIBUTE = "greenroom_options"
"""Where `hookimpl` leaves the `Options` on the function."""


@dataclass(frozen=True, slots=True)
class Options:
    """What an implementation asks for with the arguments of `hookimpl`.

    Attributes:
        before, after: ids or short names of plugins; a missing one is satisfied.
        requires: like `after`, and the plugin must be there.
        timeout: seconds, up to the operator's `timeout_cap`.
        thread: run a blocking `def` in a worker thread, with the time-out.
        interactive: it asks a person, so no time-out applies.
        optional: no error when the host does not know the hook.
        hook: the hook's name where the function has another one.
        refused: options of pluggy that have another name here; the error at load
            names the replacement.
    """

    before: tuple[str, ...] = ()
    after: tuple[str, ...] = ()
    requires: tuple[str, ...] = ()
    timeout: float | None = None
    thread: bool = False
    interactive: bool = False
    optional: bool = False
    hook: str | None = None
    refused: tuple[str, ...] = ()


REPLACED: Final = {
    "tryfirst": 'before=("other-plugin",)',
    "trylast": 'after=("other-plugin",)',
    "wrapper": "a hook of kind wrap",
    "hookwrapper": "a hook of kind wrap",
    "optionalhook": "optional=True",
    "specname": 'hook="name"',
}
"""Options of pluggy that an author may try, and what says it here."""


def options_of(given: Mapping[str, object]) -> Options:
    """Return what the arguments of `hookimpl` ask for.

    Raises:
        TypeError: one of them means nothing, here or to pluggy.
    """
    known: dict[str, Any] = {name: value for name, value in given.items() if name not in REPLACED}
    unknown = sorted(known.keys() - Options.__slots__)
    if unknown:
        raise TypeError(f"hookimpl() got an unexpected keyword argument {unknown[0]!r}")
    for word in ("before", "after", "requires"):
        names = known.get(word, ())
        known[word] = (names,) if isinstance(names, str) else tuple(names)
    return Options(**known, refused=tuple(name for name in given if name in REPLACED and given[name]))


# eq=False: two generations of one plugin may hold equal parts, identity is what counts here.
@dataclass(frozen=True, slots=True, eq=False)
class Impl:
    """A function that implements a hook, with its owner and its resolved policy.

    Attributes:
        plugin: the id `distribution:name`.
        short: the plugin's short name.
        call: takes the arguments of the spec by position and passes on what the
            function names.
        is_async: whether `call` returns an awaitable.
        timeout: seconds for what is awaited, or None for no bound; nothing bounds a `def` on the loop.
        feed: the queue of an observer that a synchronous caller cannot wait for.
        named: hook, plugin and generation, for the trace, which must not hold the rest.
        scope: the agent's scope through which it was added; None hears all.
        where: `file:line`.
    """

    spec: Spec
    plugin: str
    short: str
    generation: int
    function: Callable[..., Any]  # any signature that the spec's arguments can fill
    call: Callable[..., Any]
    is_async: bool
    timeout: float | None
    options: Options
    where: str
    scope: Scope | None = None
    context_at: int | None = None
    feed: Feed | None = None
    named: tuple[str, str, int] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "named", (self.spec.name, self.plugin, self.generation))

    def bind(self, arguments: tuple[object, ...]) -> tuple[object, ...]:
        """Return the arguments with this plugin's own copy of the call context."""
        at = self.context_at
        if at is None:
            return arguments
        context: CallContext = arguments[at]  # type: ignore[assignment]  # the argument named ctx
        return (*arguments[:at], context.for_plugin(self.plugin, self.generation), *arguments[at + 1 :])

    def __str__(self) -> str:
        return f"{self.plugin} (generation {self.generation}, {self.where})"


def picker(function: Callable[..., Any], named: tuple[str, ...], offered: tuple[str, ...]) -> Callable[..., Any]:
    """Return a callable of the spec's arguments that gives `function` those it names."""
    if named == offered:
        return function
    places = tuple(offered.index(name) for name in named)
    if not places:
        return lambda *_offered: function()
    if len(places) == 1:
        place = places[0]
        return lambda *offered: function(offered[place])
    pick = itemgetter(*places)
    return lambda *offered: function(*pick(offered))
