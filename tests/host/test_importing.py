"""Importing a plugin is bounded, leaves no trace when it fails, and says whose fault it is and what to do."""

from __future__ import annotations

import importlib
import os
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import anyio
import pytest

from greenroom._finding import importing
from greenroom._finding.discovery import Candidate, discover
from greenroom._finding.importing import Imported, forget, import_plugin, import_with_timeout
from greenroom._settings.layers import Origin
from greenroom._settings.settings import LoadEntry
from greenroom.errors import PluginError, PluginLeaked

if TYPE_CHECKING:
    from conftest import Site

GENEROUS = 30.0  # seconds; for imports that return at once


def local(path: Path) -> Candidate:
    (found,) = discover([LoadEntry(str(path), path.parent, False, Origin("user", "test"))], path=[])
    return found


def module(target: str, name: str = "mod") -> Candidate:
    return Candidate(id=f"local:{name}", name=name, origin="module", target=target)


def failure(candidate: Candidate) -> PluginError:
    with pytest.raises(PluginError) as caught:
        import_plugin(candidate)
    error = caught.value
    assert error.plugin == candidate.id
    assert error.args[0].startswith(f"{candidate.id}: ")
    return error


def only(site: Site) -> Candidate:
    (found,) = discover(path=site.path)
    return found


def traces(top: str) -> list[str]:
    return [name for name in sys.modules if name.partition(".")[0] == top]


# --- what a target gives ------------------------------------------------------------------


def test_a_module_is_a_plugin(site: Site) -> None:
    site.dist("acme", entries={"a": "acme_whole"}, modules={"acme_whole.py": "x = 1"})
    imported = import_plugin(only(site))
    assert imported.object is sys.modules["acme_whole"] is imported.module
    assert imported.modules == {"acme_whole"}
    forget(imported)


def test_an_object_in_a_module_is_a_plugin(site: Site) -> None:
    site.dist("acme", entries={"a": "acme_obj.inner:box.audit"})
    site.write("acme_obj/__init__.py", "")
    site.write("acme_obj/inner.py", "class Box: audit = 'the plugin'\nbox = Box()")
    imported = import_plugin(only(site))
    assert imported.object == "the plugin"
    assert imported.modules == {"acme_obj", "acme_obj.inner"}
    forget(imported)


def test_a_class_is_refused_where_an_instance_is_meant(site: Site) -> None:
    site.dist("acme", entries={"my-audit": "acme_class:Audit"}, modules={"acme_class.py": "class Audit: pass"})
    error = failure(only(site))
    assert "acme_class:Audit is a class where an instance is meant" in str(error)
    assert "my_audit = Audit()" in (error.hint or "")
    assert error.phase == "check"
    assert not traces("acme_class")


def test_a_missing_object_is_named_with_the_nearest_one(site: Site) -> None:
    site.dist("acme", entries={"a": "acme_attr:polcy"}, modules={"acme_attr.py": "policy = object()"})
    error = failure(only(site))
    assert "acme_attr has no 'polcy'" in str(error)
    assert error.hint == "did you mean 'policy'?"


def test_a_candidate_with_a_problem_is_not_imported() -> None:
    error = failure(Candidate(id="a:b", name="b", origin="module", target="json", problem="gone", hint="reinstall"))
    assert (error.phase, error.hint) == ("discover", "reinstall")


# --- what foreign code does at import -----------------------------------------------------


@pytest.mark.parametrize(
    ("code", "says"),
    [
        ("raise ValueError('no luck')", "ValueError: no luck"),
        ("import sys; sys.exit(3)", "it called sys.exit(3) while it was imported"),
        ("raise SystemExit", "it called sys.exit(None)"),
        ("raise GeneratorExit", "GeneratorExit"),
        ("class Odd(BaseException): pass\nraise Odd('odd')", "Odd: odd"),
        ("def f(): f()\nf()", "RecursionError"),
        ("class E(Exception):\n    def __str__(self): raise OSError\nraise E", "E"),
    ],
)
def test_whatever_an_import_raises_is_an_error_of_that_plugin_and_leaves_no_trace(
    site: Site, code: str, says: str
) -> None:
    site.dist("acme", entries={"a": "acme_raises.inner"})
    site.write("acme_raises/__init__.py", "from . import helper")
    site.write("acme_raises/helper.py", "")
    file = site.write("acme_raises/inner.py", f"\n{code}\n")
    error = failure(only(site))
    assert says in str(error)
    assert f"{file}:" in str(error)
    assert error.phase == "import"
    assert error.__cause__ is not None
    assert not traces("acme_raises")


def test_a_keyboard_interrupt_of_the_main_thread_is_not_the_plugin_s(site: Site) -> None:
    site.dist("acme", entries={"a": "acme_ctrl_c"}, modules={"acme_ctrl_c.py": "raise KeyboardInterrupt"})
    with pytest.raises(KeyboardInterrupt):
        import_plugin(only(site))
    assert not traces("acme_ctrl_c")


def test_a_syntax_error_names_file_and_line(site: Site) -> None:
    site.dist("acme", entries={"a": "acme_syntax"})
    file = site.write("acme_syntax.py", "x = 1\ndef broken(:\n")
    error = failure(only(site))
    assert f"{file}:2: SyntaxError: " in str(error)
    assert error.hint == "upgrade acme"


def test_a_failed_import_can_be_tried_again_after_a_correction(site: Site) -> None:
    site.dist("acme", entries={"a": "acme_again"})
    site.write("acme_again.py", "x = 1 / 0  # long")
    failure(only(site))
    site.write("acme_again.py", "x = 1 / 1  # longer")
    imported = import_plugin(only(site))
    assert imported.module.x == 1
    forget(imported)


# --- hints --------------------------------------------------------------------------------


def test_a_missing_dependency_is_found_among_the_extras(site: Site) -> None:
    extras = ["Provides-Extra: big", "Requires-Dist: acme_torch>=2; extra == 'big'", "Requires-Dist: pluggy"]
    site.dist("acme", entries={"a": "acme_extra"}, metadata=extras, modules={"acme_extra.py": "import acme_torch.nn"})
    error = failure(only(site))
    assert "No module named 'acme_torch'" in str(error)
    assert error.hint == 'install its extra: pip install "acme[big]"'


def test_a_requirement_that_is_not_installed_is_named(site: Site) -> None:
    site.dist(
        "acme",
        entries={"a": "acme_req"},
        metadata=["Requires-Dist: Acme-PyYAML-Like>=6", "Requires-Dist: nope; python_version < '3'"],
        modules={"acme_req.py": "import acme_yaml"},
    )
    assert failure(only(site)).hint == "install what it requires: pip install Acme-PyYAML-Like"


def test_a_missing_module_that_nobody_declared_gives_a_guess(site: Site) -> None:
    site.dist("acme", entries={"a": "acme_guess"}, modules={"acme_guess.py": "import acme_undeclared"})
    assert "often: pip install acme_undeclared" in (failure(only(site)).hint or "")


def test_an_installed_plugin_without_its_files_is_to_be_reinstalled(site: Site) -> None:
    site.dist("acme", entries={"a": "acme_nowhere"})
    assert failure(only(site)).hint == "the installed files do not hold what its metadata names; reinstall acme"


def test_an_editable_install_that_points_at_a_missing_module_says_so(site: Site, tmp_path: Path) -> None:
    site.dist("acme", entries={"a": "acme_moved"}, editable=tmp_path)
    assert "its editable install points at a missing module" in (failure(only(site)).hint or "")


def test_a_plugin_for_another_python_says_so(site: Site) -> None:
    site.dist(
        "acme", entries={"a": "acme_py"}, metadata=["Requires-Python: >=4"], modules={"acme_py.py": "import acme_nope"}
    )
    assert (failure(only(site)).hint or "").startswith("acme needs Python >=4, and this is 3.")


def test_a_plugin_for_another_greenroom_says_so(site: Site) -> None:
    site.dist("acme", entries={"a": "acme_new"}, modules={"acme_new.py": "from greenroom.errors import Gone"})
    assert "written for another version of greenroom" in (failure(only(site)).hint or "")
    site.write("acme_new.py", "import greenroom.some_future_module")
    importlib.invalidate_caches()
    assert "written for another version of greenroom" in (failure(only(site)).hint or "")


def test_a_name_that_an_installed_module_lacks_gives_its_version(site: Site) -> None:
    site.dist("acme", entries={"a": "acme_old"}, modules={"acme_old.py": "from pluggy import Gone"})
    assert "another version of pluggy; pluggy 1." in (failure(only(site)).hint or "")


def test_broken_metadata_does_not_hide_the_error_that_it_should_explain(site: Site) -> None:
    site.dist(
        "acme",
        entries={"a": "acme_meta"},
        metadata=["Provides-Extra: x", "Requires-Dist: ((("],
        modules={"acme_meta.py": "import acme_gone"},
    )
    error = failure(only(site))
    assert "No module named 'acme_gone'" in str(error)


# --- API range ----------------------------------------------------------------------------


@pytest.mark.parametrize("wanted", ["'1'", "'>=1,<2'", "'>=1'", "'1.0'", "None"])
def test_an_api_range_that_holds_this_host_is_accepted(site: Site, wanted: str) -> None:
    site.dist("acme", entries={"a": "acme_api"}, modules={"acme_api.py": f"greenroom_api = {wanted}"})
    forget(import_plugin(only(site)))


@pytest.mark.parametrize("wanted", ["'2'", "'>=2'", "'<1'", "'one'", "1", "'10'"])
def test_an_api_range_without_this_host_is_an_error_that_says_both(site: Site, wanted: str) -> None:
    site.dist("acme", entries={"a": "acme_api2"}, modules={"acme_api2.py": f"greenroom_api = {wanted}"})
    error = failure(only(site))
    assert f"it is written for the plugin API {wanted}, and this host offers '1'" in str(error)
    assert error.phase == "check"
    assert not traces("acme_api2")


def test_the_api_range_may_stand_on_the_object_or_on_its_module(site: Site) -> None:
    code = "class P: pass\nplain = P()\nfuture = P()\nfuture.greenroom_api = '2'\n"
    site.dist("acme", entries={"a": "acme_api3:future"}, modules={"acme_api3.py": code})
    failure(only(site))
    site.write("acme_api3.py", f"{code}greenroom_api = '2'\n")
    importlib.invalidate_caches()
    failure(module("acme_api3:plain"))


# --- files and folders --------------------------------------------------------------------


def test_a_file_is_imported_under_a_private_name(tmp_path: Path) -> None:
    (tmp_path / "audit-log.py").write_text("who = __name__")
    imported = import_plugin(local(tmp_path / "audit-log.py"))
    assert imported.module.who == "greenroom_local_audit_log"
    assert imported.module.__file__ == str(tmp_path / "audit-log.py")
    forget(imported)
    assert not traces("greenroom_local_audit_log")


def test_a_folder_is_a_package_with_relative_imports(tmp_path: Path) -> None:
    folder = tmp_path / "guard"
    (folder / "sub").mkdir(parents=True)
    (folder / "__init__.py").write_text("from . import rules\nfrom .sub import deep\nvalue = rules.value + deep.value")
    (folder / "rules.py").write_text("value = 1")
    (folder / "sub/deep.py").write_text("from ..rules import value as v\nvalue = v + 1")
    imported = import_plugin(local(folder))
    assert imported.module.value == 3
    top = "greenroom_local_guard"
    assert imported.modules == {top, f"{top}.rules", f"{top}.sub", f"{top}.sub.deep"}
    forget(imported)
    assert not traces(top)


def test_an_edit_of_the_same_size_within_one_tick_is_seen(tmp_path: Path) -> None:
    folder = tmp_path / "guard"
    folder.mkdir()
    (folder / "__init__.py").write_text("from . import rules")
    file = folder / "rules.py"
    file.write_text("value = 1")
    stat = file.stat()
    first = import_plugin(local(folder))
    assert first.module.rules.value == 1
    forget(first)
    file.write_text("value = 2")
    os.utime(file, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    second = import_plugin(local(folder))
    assert second.module.rules.value == 2
    forget(second)
    assert not list(folder.rglob("*.pyc"))


def test_two_files_of_one_name_live_side_by_side(tmp_path: Path) -> None:
    loaded = []
    for number, folder in enumerate([tmp_path / "a", tmp_path / "b"]):
        folder.mkdir()
        (folder / "audit.py").write_text(f"value = {number}")
        loaded.append(import_plugin(local(folder / "audit.py")))
    assert [i.module.value for i in loaded] == [0, 1]
    assert len({i.module.__name__ for i in loaded}) == 2
    for imported in loaded:
        forget(imported)
    assert not [name for name in sys.modules if name.startswith("greenroom_local_audit")]


def test_the_import_system_is_as_before_when_the_last_local_plugin_is_gone(tmp_path: Path) -> None:
    before = list(sys.meta_path)
    (tmp_path / "one.py").write_text("")
    (tmp_path / "two.py").write_text("raise ValueError")
    imported = import_plugin(local(tmp_path / "one.py"))
    failure(local(tmp_path / "two.py"))
    assert len(sys.meta_path) == len(before) + 1
    forget(imported)
    assert sys.meta_path == before


def test_a_folder_that_imports_itself_absolutely_is_told_to_import_relatively(tmp_path: Path) -> None:
    (tmp_path / "guard").mkdir()
    (tmp_path / "guard/__init__.py").write_text("import my_own_rules")
    (tmp_path / "guard/my_own_rules.py").write_text("")
    assert "from . import my_own_rules" in (failure(local(tmp_path / "guard")).hint or "")
    (tmp_path / "alone.py").write_text("import guard")
    assert "name a folder" in (failure(local(tmp_path / "alone.py")).hint or "")


# --- what unloading takes back ------------------------------------------------------------


def test_forget_drops_what_the_plugin_imported_later(site: Site) -> None:
    site.dist("acme", entries={"a": "acme_lazy"})
    site.write("acme_lazy/__init__.py", "")
    site.write("acme_lazy/provider.py", "")
    imported = import_plugin(only(site))
    importlib.import_module("acme_lazy.provider")
    forget(imported)
    assert not traces("acme_lazy")


def test_forget_keeps_what_was_there_before_the_load(site: Site) -> None:
    site.write("acme_shared/__init__.py", "")
    site.write("acme_shared/plugin.py", "")
    shared = importlib.import_module("acme_shared")
    site.dist("acme", entries={"a": "acme_shared.plugin"})
    forget(import_plugin(only(site)))
    assert traces("acme_shared") == ["acme_shared"]
    assert not hasattr(shared, "plugin")


def test_modules_stay_while_another_live_plugin_stands_on_the_same_package(site: Site) -> None:
    site.write("acme_two/__init__.py", "")
    for name in "ab":
        site.write(f"acme_two/{name}.py", "from . import util")
    site.write("acme_two/util.py", "")
    first, second = (import_plugin(module(f"acme_two.{name}")) for name in "ab")
    forget(first)
    assert "acme_two.util" in sys.modules
    assert sys.modules["acme_two.b"] is second.module
    forget(second)
    assert not traces("acme_two")


def test_a_failed_import_takes_back_its_own_modules_only(site: Site) -> None:
    site.write("acme_half/__init__.py", "")
    site.write("acme_half/good.py", "")
    site.write("acme_half/bad.py", "from . import extra\nraise ValueError")
    site.write("acme_half/extra.py", "")
    good = import_plugin(module("acme_half.good"))
    failure(module("acme_half.bad"))
    assert set(traces("acme_half")) == {"acme_half", "acme_half.good"}
    forget(good)


def test_a_plugin_in_the_standard_library_s_name_space_pulls_nothing_down() -> None:
    for name in [n for n in sys.modules if n.partition(".")[0] == "wsgiref"]:
        del sys.modules[name]
    forget(import_plugin(module("wsgiref.util")))
    assert "wsgiref.util" in sys.modules


def test_a_thousand_loads_leave_the_import_system_as_it_was(site: Site, tmp_path: Path) -> None:
    site.dist("acme", entries={"a": "acme_many:plugin"}, modules={"acme_many.py": "plugin = object()"})
    (tmp_path / "one.py").write_text("")
    candidates = [only(site), local(tmp_path / "one.py")]
    packages = importing._PACKAGES  # what earlier tests left hanging on purpose may still stand there
    before = set(sys.modules), list(sys.meta_path), dict(packages._users), set(packages._before)
    for _ in range(500):
        for candidate in candidates:
            forget(import_plugin(candidate))
    assert (set(sys.modules), list(sys.meta_path), packages._users, set(packages._before)) == before


# --- time ---------------------------------------------------------------------------------


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """Give an event that the code of a plugin can wait for, instead of sleeping; it is set at the end."""
    event = threading.Event()
    monkeypatch.setattr(threading, "acme_gate", event, raising=False)
    yield event
    event.set()


HANGS = "import threading\nthreading.acme_gate.wait()\n"


def importers() -> list[threading.Thread]:
    return [t for t in threading.enumerate() if t.name.startswith("greenroom import")]


@pytest.mark.anyio
async def test_an_import_runs_in_a_daemon_thread_and_the_loop_goes_on(site: Site, gate: threading.Event) -> None:
    site.dist("acme", entries={"a": "acme_slow"})
    site.write("acme_slow.py", "import threading\nwho = threading.current_thread()\nthreading.acme_gate.wait()")
    got: list[Imported] = []

    async def load() -> None:
        got.append(await import_with_timeout(only(site), GENEROUS))

    async with anyio.create_task_group() as group:
        group.start_soon(load)
        await anyio.wait_all_tasks_blocked()
        assert not got
        gate.set()
    assert got[0].module.who.daemon
    assert got[0].module.who is not threading.main_thread()
    forget(got[0])


@pytest.mark.anyio
@pytest.mark.parametrize(
    "code",
    [
        "raise ValueError('no')",
        "raise KeyboardInterrupt",
        "raise SystemExit(1)",
        "class R:\n    def __repr__(self): raise OSError\nraise SystemExit(R())",
    ],
)
async def test_what_the_thread_raises_comes_back_as_the_plugin_s_error(site: Site, code: str) -> None:
    site.dist("acme", entries={"a": "acme_thread_raise"}, modules={"acme_thread_raise.py": code})
    with pytest.raises(PluginError) as caught:
        await import_with_timeout(only(site), GENEROUS)
    assert not isinstance(caught.value, PluginLeaked)
    assert caught.value.phase == "import"


@pytest.mark.anyio
async def test_an_import_that_hangs_is_leaked_names_the_place_and_is_refused_until_a_restart(
    site: Site, gate: threading.Event, anyio_backend: str
) -> None:
    top = f"acme_hang_{anyio_backend}"
    site.dist("acme", entries={"a": top})
    site.write(f"{top}.py", HANGS)
    with pytest.raises(PluginLeaked, match=r"did not return within 0.05 s and hangs in .*:\d+") as caught:
        await import_with_timeout(only(site), 0.05)
    assert caught.value.plugin == "acme:a"
    assert caught.value.phase == "import"
    assert "before a restart" in (caught.value.hint or "")
    threads = len(importers())
    with pytest.raises(PluginLeaked, match="an earlier import of it hangs"):
        await import_with_timeout(only(site), GENEROUS)
    assert len(importers()) <= threads
    gate.set()
    for thread in importers():
        thread.join(GENEROUS)
    assert not traces(top), "an import that ends too late takes itself back"
    with pytest.raises(PluginLeaked):
        import_plugin(only(site))


@pytest.mark.anyio
async def test_a_cancelled_import_ends_at_once_and_takes_itself_back_when_it_returns(
    site: Site, gate: threading.Event
) -> None:
    site.dist("acme", entries={"a": "acme_cancelled"}, modules={"acme_cancelled.py": HANGS})
    async with anyio.create_task_group() as group:
        group.start_soon(import_with_timeout, only(site), GENEROUS)
        await anyio.wait_all_tasks_blocked()
        group.cancel_scope.cancel()
    gate.set()
    for thread in importers():
        thread.join(GENEROUS)
    assert not traces("acme_cancelled")
    imported = await import_with_timeout(only(site), GENEROUS)
    forget(imported)
