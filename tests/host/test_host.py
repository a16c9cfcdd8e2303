"""A host loads plugins, shows broken ones as failed records, and unloads everything."""

from __future__ import annotations

import sys
import textwrap
import threading
from pathlib import Path
from types import SimpleNamespace

import anyio
import anyio.lowlevel
import pytest
from pydantic import BaseModel
from trio.testing import MockClock

from greenroom import Host, hookimpl, load_settings
from greenroom.errors import GreenroomError, NameTaken, PluginError
from greenroom.sessions import Medium, MemoryStore
from greenroom_testing import Footprint

pytestmark = pytest.mark.anyio


class Quiet:
    """Active, adds nothing."""

    @hookimpl
    def activate(self, scope):
        scope.undo(lambda: None, label="quiet")


def write(folder: Path, name: str, source: str) -> Path:
    path = folder / f"{name}.py"
    path.write_text(textwrap.dedent(source))
    return path


@pytest.fixture
def gate(monkeypatch):
    """A module `gate` whose `wait` hangs until the test is over; then the thread is joined."""
    opened = threading.Event()
    monkeypatch.setitem(sys.modules, "gate", SimpleNamespace(wait=opened.wait))
    yield
    opened.set()
    for thread in threading.enumerate():
        if thread.name.startswith("greenroom import"):
            thread.join()


def settings(**overrides):
    return load_settings(overrides=overrides)


async def test_a_plugin_object_is_active_until_it_is_unloaded(host):
    before = Footprint.of(host)
    record = await host.load(Quiet(), name="quiet")
    assert (record.state, record.id, record.generation) == ("active", "local:quiet", 1)
    assert "quiet" in str(host.effects())
    assert (await host.unload("quiet")).state == "unloaded"
    assert Footprint.of(host) == before


async def test_activate_is_called_with_the_validated_settings(anyio_backend, tmp_path):
    seen = []

    class Settings(BaseModel):
        level: int = 1

    class Plugin:
        @hookimpl
        def plugin_settings(self):
            return Settings

        @hookimpl
        async def activate(self, scope):
            seen.append(scope.settings)

    async with Host(settings(**{"plugins.p.level": 3}), discovery=False, plugins={"p": Plugin()}):
        pass
    assert seen == [Settings(level=3)]


async def test_plugin_settings_that_are_wrong_fail_the_plugin_with_file_table_and_key(tmp_path, anyio_backend):
    class Settings(BaseModel):
        level: int = 1

    class Plugin:
        @hookimpl
        def plugin_settings(self):
            return Settings

    file = tmp_path / "greenroom.toml"
    file.write_text('[plugins.p]\nlevel = "high"\n')
    async with Host(load_settings(user_file=file), discovery=False, plugins={"p": Plugin(), "q": Quiet()}) as host:
        record = host.plugin("p")
        assert (record.state, record.phase) == ("failed", "register")
        assert str(file) in record.error
        assert "[plugins.p] level" in record.error
        assert host.plugin("q").state == "active"


async def test_a_table_for_a_plugin_without_settings_is_an_error_that_names_the_key(anyio_backend):
    async with Host(settings(**{"plugins.q.level": 3}), discovery=False, plugins={"q": Quiet()}) as host:
        assert "takes no settings" in host.plugin("q").error
        assert "'level'" in host.plugin("q").error


@pytest.mark.parametrize(
    ("source", "phase", "text"),
    [
        ("import no_such_module_here", "import", "no_such_module_here"),
        ("def broken(:", "import", "SyntaxError"),
        ("import sys; sys.exit(3)", "import", "exit"),
        ("import gate; gate.wait()", "import", "did not"),
        ("", "check", "implements no hook"),
        (
            "from greenroom import hookimpl\n@hookimpl\ndef activat(scope): ...",
            "check",
            "there is no hook 'activat'",
        ),
        (
            "from greenroom import hookimpl\n@hookimpl\ndef activate(scope): raise RuntimeError('no luck')",
            "activate",
            "no luck",
        ),
        (
            "from greenroom import hookimpl\n@hookimpl\nasync def activate(scope): raise SystemExit(1)",
            "activate",
            "SystemExit",
        ),
        (
            "from greenroom import hookimpl\n@hookimpl\ndef plugin_settings(): raise RuntimeError('no luck')",
            "register",
            "no luck",
        ),
        ("greenroom_api = '99'\nfrom greenroom import hookimpl\n@hookimpl\ndef activate(scope): ...", "import", "99"),
    ],
)
async def test_a01_a_broken_plugin_is_a_failed_record_and_the_others_are_active(
    source, phase, text, tmp_path, gate, anyio_backend
):
    """Acceptance test A01: import error, sys.exit, a long sleep, ...: the host starts, the record says why."""
    path = write(tmp_path, "broken", source)
    before = set(sys.modules)
    loaded = settings(**{"plugins.load": [str(path)], "plugins.allow": ["broken"], "plugins.import_timeout": 0.3})
    async with Host(loaded, plugins={"good": Quiet()}) as host:
        record = host.plugin("broken")
        assert record.state == ("leaked" if "gate" in source else "failed")
        assert record.phase == phase or "99" in source
        assert text in record.error
        assert host.plugin("good").state == "active"
        left = [name for name in set(sys.modules) - before if "broken" in name]
        assert not left or record.state == "leaked"


async def test_a01_strict_refuses_to_start_and_names_the_plugin(tmp_path, anyio_backend):
    path = write(tmp_path, "broken", "import no_such_module_here")
    with pytest.raises(PluginError, match=r"strict.*local:broken is failed"):
        async with Host(settings(**{"plugins.load": [str(path)], "plugins.strict": True})):
            pass


async def test_a_required_plugin_that_fails_refuses_the_start(tmp_path, anyio_backend):
    path = write(tmp_path, "broken", "import no_such_module_here")
    with pytest.raises(PluginError, match=r"required.*local:broken"):
        async with Host(settings(**{"plugins.load": [str(path)], "plugins.broken.required": True})):
            pass


async def test_a_required_plugin_that_is_not_installed_refuses_the_start(anyio_backend):
    with pytest.raises(PluginError, match="audit is required and not installed"):
        async with Host(settings(**{"plugins.audit.required": True}), discovery=False):
            pass


async def test_a_leaked_plugin_is_not_loadable_again(tmp_path, gate, anyio_backend):
    path = write(tmp_path, "stuck", "import gate; gate.wait()")
    only = {"plugins.load": [str(path)], "plugins.allow": ["stuck"], "plugins.import_timeout": 0.2}
    async with Host(settings(**only)) as host:
        assert host.plugin("stuck").state == "leaked"
        with pytest.raises(PluginError, match="leaked"):
            await host.load("stuck")


async def test_an_activation_that_hangs_times_out_and_is_attributed(anyio_backend):
    class Stuck:
        @hookimpl(timeout=0.05)
        async def activate(self, scope):
            await anyio.sleep_forever()

    async with Host(discovery=False, plugins={"stuck": Stuck(), "good": Quiet()}) as host:
        assert host.plugin("stuck").state == "failed"
        assert "no answer within 0.05 s" in host.plugin("stuck").error
        assert host.plugin("good").state == "active"


async def test_a_plugin_that_does_not_load_is_named_in_its_diagnostic(tmp_path, anyio_backend):
    class Failing:
        @hookimpl
        def activate(self, scope):
            raise RuntimeError("halfway")

    path = write(tmp_path, "broken", "import no_such_module_here")
    only = {"plugins.load": [str(path)], "plugins.allow": ["broken"]}
    async with Host(settings(**only), plugins={"failing": Failing()}) as host:
        failed = [item for item in host.diagnostics.recent if item.code == "plugin_failed"]
    assert [(item.plugin, item.generation) for item in failed] == [("local:broken", 1), ("local:failing", 1)]


async def test_what_a_failed_activation_added_is_undone(host):
    class Half:
        @hookimpl
        def activate(self, scope):
            scope.undo(lambda: undone.append(1), label="half")
            raise RuntimeError("halfway")

    undone = []
    before = Footprint.of(host)
    assert (await host.load(Half(), name="half")).state == "failed"
    assert undone == [1]
    assert Footprint.of(host) == before


async def test_a_background_task_that_dies_drains_its_plugin_and_leaves_the_reason(host):
    class Fragile:
        @hookimpl
        def activate(self, scope):
            scope.undo(undone.set, label="fragile")
            scope.spawn(self.work)

        async def work(self):
            await go.wait()
            raise RuntimeError("lost the connection")

    undone, go = anyio.Event(), anyio.Event()
    await host.load(Quiet(), name="quiet")
    await host.load(Fragile(), name="fragile")
    assert host.plugin("fragile").state == "active"
    go.set()
    await undone.wait()
    await anyio.lowlevel.checkpoint()
    record = host.plugin("fragile")
    assert (record.state, "lost the connection" in record.error) == ("failed", True)
    assert host.plugin("quiet").state == "active"
    assert any(item.plugin == "local:fragile" for item in host.diagnostics.recent)


async def test_a_clean_up_that_fails_makes_the_plugin_failed_and_does_not_stop_the_others(host):
    class Sticky:
        @hookimpl
        def activate(self, scope):
            scope.undo(lambda: undone.append(1), label="first")
            scope.undo(lambda: 1 / 0, label="sticky")

    undone = []
    await host.load(Sticky(), name="sticky")
    record = await host.unload("sticky")
    assert record.state == "failed"
    assert "division by zero" in record.error
    assert undone == [1]


async def test_a_failed_plugin_can_be_loaded_again_when_it_is_mended(host, tmp_plugin):
    assert (await tmp_plugin.load("audit", "import no_such_module_here")).state == "failed"
    record = await tmp_plugin.load("audit", "from greenroom import hookimpl\n@hookimpl\ndef activate(scope): ...")
    assert (record.state, record.generation) == ("active", 2)


async def test_loading_a_plugin_that_is_alive_is_refused(host):
    await host.load(Quiet(), name="quiet")
    with pytest.raises(PluginError, match="is active"):
        await host.load(Quiet(), name="quiet")


async def test_plugins_activate_in_the_order_that_they_declare(anyio_backend):
    order = []

    def plugin(name, **options):
        class Plugin:
            @hookimpl(**options)
            def activate(self, scope):
                order.append(name)

        return Plugin()

    plugins = {"a": plugin("a", after=["c"]), "b": plugin("b", before=["c"]), "c": plugin("c")}
    async with Host(discovery=False, plugins=plugins):
        pass
    assert order == ["b", "c", "a"]


async def test_a_cycle_in_the_order_fails_one_plugin_and_names_the_cycle(anyio_backend):
    def plugin(**options):
        class Plugin:
            @hookimpl(**options)
            def activate(self, scope): ...

        return Plugin()

    plugins = {"a": plugin(after=["b"]), "b": plugin(after=["a"]), "c": plugin()}
    async with Host(discovery=False, plugins=plugins) as host:
        states = [host.plugin(name).state for name in "abc"]
        assert sorted(states) == ["active", "active", "failed"]
        failed = next(r for r in host.plugins() if r.state == "failed")
        assert "cycle" in failed.error
        assert "local:a" in failed.error
        assert "local:b" in failed.error


async def test_a_plugin_whose_requirement_is_missing_fails_and_says_which(anyio_backend):
    class Needy:
        @hookimpl(requires=["other"])
        def activate(self, scope): ...

    async with Host(discovery=False, plugins={"needy": Needy()}) as host:
        assert "requires other" in host.plugin("needy").error
    async with Host(discovery=False, plugins={"needy": Needy(), "other": Quiet()}) as host:
        assert host.plugin("needy").state == "active"


class Greeter:
    """A protocol for the test."""


async def test_a_service_is_found_while_its_plugin_is_active(host):
    class Offer:
        @hookimpl
        def activate(self, scope):
            scope.provide(Greeter, greeter)

    greeter = Greeter()
    assert host.service(Greeter) is None
    await host.load(Offer(), name="offer")
    assert host.service(Greeter) is greeter
    second = await host.load(Offer(), name="second")
    assert second.state == "failed"
    assert "local:offer" in second.error
    await host.unload("offer")
    assert host.service(Greeter) is None


class Stubborn:
    """Has a task that ignores its cancellation until it is told."""

    def __init__(self):
        self.over = anyio.Event()

    @hookimpl
    async def activate(self, scope):
        began = anyio.Event()

        async def work():
            with anyio.CancelScope(shield=True):
                began.set()
                await self.over.wait()

        scope.spawn(work, name="indexer")
        await began.wait()


AT_ONCE = ("trio", {"clock": MockClock(autojump_threshold=0)})


@pytest.mark.parametrize("anyio_backend", [AT_ONCE])
async def test_a_task_that_ignores_its_cancellation_keeps_no_unload_and_is_named(host, anyio_backend):
    await host.load(plugin := Stubborn(), name="stubborn")
    record = await host.unload("stubborn")
    assert record.state == "failed"
    said = "background task 'indexer' of plugin local:stubborn ignores its cancellation for 15 s"
    assert said in record.error
    found = [(d.code, d.plugin) for d in host.diagnostics.recent if said in d.text]
    assert found == [("cleanup_failed", "local:stubborn")]
    plugin.over.set()


@pytest.mark.parametrize("anyio_backend", [AT_ONCE])
async def test_who_leaves_a_host_is_told_what_keeps_it(anyio_backend):
    told = []

    def stuck(tasks):
        told.extend(tasks)
        plugin.over.set()

    plugin = Stubborn()
    async with Host(plugins={"good": Quiet(), "stubborn": plugin}) as host:
        host.stuck = stuck
    assert told == ["'indexer' of plugin local:stubborn does not end"]


async def test_leaving_the_host_unloads_in_reverse_order(anyio_backend):
    undone = []

    def plugin(name):
        class Plugin:
            @hookimpl
            def activate(self, scope):
                scope.undo(lambda: undone.append(name), label=name)

        return Plugin()

    async with Host(discovery=False, plugins={"a": plugin("a"), "b": plugin("b")}):
        pass
    assert undone == ["b", "a"]


class Keeper:
    """Brings a store and adds nothing by itself, as the plugin of a durable one does."""

    def __init__(self):
        self.store = MemoryStore(Medium())

    @hookimpl
    def session_store(self):
        return self.store


async def test_what_only_brings_something_leaves_after_everybody_who_uses_it(anyio_backend):
    keeper = Keeper()
    seen = []

    class Using:
        @hookimpl
        def activate(self, scope):
            async def last_look() -> None:
                seen.append((scope.host.plugin("keeper").state, list(await scope.host.sessions.store.list())))

            scope.undo(last_look, label="last look")

    for names in (("keeper", "using"), ("using", "keeper")):
        made = {"keeper": keeper, "using": Using()}
        async with Host(load_settings(), discovery=False, plugins={name: made[name] for name in names}):
            pass
    assert seen == [("active", []), ("active", [])]


async def test_cancelling_the_start_undoes_what_was_loaded(anyio_backend):
    class Slow:
        @hookimpl
        async def activate(self, scope):
            scope.undo(lambda: undone.append("slow"), label="slow")
            started.set()
            await anyio.sleep_forever()

    class First:
        @hookimpl
        def activate(self, scope):
            scope.undo(lambda: undone.append("first"), label="first")

    undone, started = [], anyio.Event()

    async def run():
        async with Host(discovery=False, plugins={"first": First(), "slow": Slow()}):
            raise AssertionError("never entered")

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(run)
        await started.wait()
        tasks.cancel_scope.cancel()
    assert undone == ["slow", "first"]


async def test_unloading_while_it_activates_stops_it(host):
    class Slow:
        @hookimpl
        async def activate(self, scope):
            started.set()
            await anyio.sleep_forever()

    started = anyio.Event()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(lambda: host.load(Slow(), name="slow"))
        await started.wait()
        record = await host.unload("slow")
    assert record.state == "unloaded"


class PolicySpecs:
    """A guarded decide hook, as `tool_call` will be."""


def policy_host(**overrides):
    from greenroom._kinds import Kind
    from greenroom.hookspecs import hookspec

    @hookspec(Kind.DECIDE, guarded=True)
    def may_pass(what): ...

    return Host(settings(**overrides), discovery=False, specs=[SimpleNamespace(may_pass=may_pass)])


async def test_a_guard_that_is_not_active_denies_with_its_name(anyio_backend):
    async with policy_host(**{"plugins.wall.guard": True}) as host:
        decision = await host.hooks.caller("may_pass")("x")
        assert (decision.verdict.name, decision.by) == ("DENY", "wall")
        await host.load(Quiet(), name="wall")
        assert await host.hooks.caller("may_pass")("x") is None
        await host.unload("wall")
        assert (await host.hooks.caller("may_pass")("x")).by == "local:wall"


async def test_a_policy_that_crashes_denies_until_it_is_back_and_one_that_is_unloaded_does_not(anyio_backend):
    class Policy:
        @hookimpl
        def activate(self, scope):
            scope.spawn(self.work)

        async def work(self):
            await go.wait()
            raise RuntimeError("gone")

        @hookimpl
        def may_pass(self, what): ...

    async with policy_host() as host:
        go = anyio.Event()
        await host.load(Policy(), name="policy")
        assert await host.hooks.caller("may_pass")("x") is None
        go.set()
        while host.plugin("policy").state != "failed":
            await anyio.lowlevel.checkpoint()
        assert (await host.hooks.caller("may_pass")("x")).by == "local:policy"
        go = anyio.Event()
        await host.load(Policy(), name="policy")
        assert await host.hooks.caller("may_pass")("x") is None
        await host.unload("policy")
        assert await host.hooks.caller("may_pass")("x") is None


async def test_a_newly_installed_distribution_is_loadable_without_a_restart(site, anyio_backend):
    async with Host() as host:
        with pytest.raises(PluginError, match="no one plugin 'fresh'"):
            await host.load("fresh")
        source = "from greenroom import hookimpl\n@hookimpl\ndef activate(scope): ..."
        site.dist("acme-fresh", entries={"fresh": "acme_fresh"}, modules={"acme_fresh.py": source})
        record = await host.load("fresh")
        assert (record.id, record.state) == ("acme-fresh:fresh", "active")


async def test_a03_a_denied_plugin_is_not_imported(site, anyio_backend):
    site.dist(
        "acme-noisy", entries={"noisy": "acme_noisy"}, modules={"acme_noisy.py": "raise RuntimeError('imported')"}
    )
    async with Host(settings(**{"plugins.deny": ["noisy"]})) as host:
        assert host.plugin("noisy").state == "blocked"
        assert "acme_noisy" not in sys.modules


async def test_a04_two_distributions_with_one_entry_name_fail_naming_both_until_one_is_denied(site, anyio_backend):
    source = "from greenroom import hookimpl\n@hookimpl\ndef activate(scope): ..."
    site.dist("acme-one", entries={"same": "acme_one"}, modules={"acme_one.py": source})
    site.dist("acme-two", entries={"same": "acme_two"}, modules={"acme_two.py": source})
    async with Host() as host:
        for name in ("acme-one:same", "acme-two:same"):
            record = host.plugin(name)
            assert record.state == "failed"
            assert "acme-one:same" in record.error
            assert "acme-two:same" in record.error
        with pytest.raises(PluginError, match="may mean"):
            host.plugin("same")
    async with Host(settings(**{"plugins.deny": ["acme-two:same"]})) as host:
        assert host.plugin("acme-one:same").state == "active"


async def test_two_services_of_one_protocol_name_both_owners(host):
    host.scope.provide(Greeter, Greeter())
    with pytest.raises(NameTaken, match=r"Greeter.*host"):
        host.scope.provide(Greeter, Greeter())


async def test_a_data_directory_that_is_a_file_is_an_error_that_says_what_to_set(tmp_path, anyio_backend):
    (tmp_path / "data").write_text("not a folder")
    with pytest.raises(GreenroomError, match=r"data.* cannot be used") as caught:
        async with Host(discovery=False, data_directory=tmp_path / "data"):
            pass
    assert "GREENROOM_HOME" in caught.value.hint
