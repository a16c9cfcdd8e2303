"""Settings: every mistake is named with file, table and key, and every value knows where it came from."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from pydantic import BaseModel, ConfigDict, Field, field_validator

from greenroom._settings.layers import find_line, parse_key, parse_value
from greenroom._settings.model import validate_plugin
from greenroom._settings.rules import HOST_KEYS
from greenroom._settings.settings import RESERVED_NAMES, Settings, load_settings
from greenroom.cli._effective import effective
from greenroom.cli._settings_file import edit_user_settings
from greenroom.errors import PluginError, SettingsError


class Audit(BaseModel):
    limit: int = 3
    label: str = "x"
    nested: dict[str, str] = {}


def load(tmp_path: Path, user: str | None = None, project: str | None = None, **rest: object) -> Settings:
    files = {}
    for name, text in (("user", user), ("project", project)):
        if text is not None:
            folder = tmp_path / name
            folder.mkdir(exist_ok=True)
            (folder / "greenroom.toml").write_text(text)
            files[f"{name}_file"] = folder / "greenroom.toml"
    return load_settings(**files, cwd=tmp_path, **rest)  # type: ignore[arg-type]  # keywords of the test


def refusal(tmp_path: Path, user: str | None = None, project: str | None = None, **rest: object) -> SettingsError:
    with pytest.raises(SettingsError) as caught:
        load(tmp_path, user, project, **rest)
    assert caught.value.hint
    return caught.value


# Bad files


def test_broken_toml_is_named_with_file_line_and_column(tmp_path: Path) -> None:
    error = refusal(tmp_path, "[plugins]\nstrict = yes\n")
    assert f"{tmp_path}/user/greenroom.toml:2:10: broken TOML" in str(error)
    assert "line 2" in str(error.hint)


def test_a_file_that_ends_too_early_is_named_with_its_last_line(tmp_path: Path) -> None:
    assert "greenroom.toml:2:" in str(refusal(tmp_path, '[plugins]\nload = ["a"'))


def test_a_file_that_is_not_utf8_is_named_with_the_line(tmp_path: Path) -> None:
    (tmp_path / "greenroom.toml").write_bytes(b"[plugins]\n# caf\xe9\n")
    with pytest.raises(SettingsError, match=r"greenroom\.toml:2: not UTF-8"):
        load_settings(user_file=tmp_path / "greenroom.toml")


def test_a_byte_order_mark_does_not_matter(tmp_path: Path) -> None:
    (tmp_path / "greenroom.toml").write_bytes(b"\xef\xbb\xbf[plugins]\nstrict = true\n")
    assert load_settings(user_file=tmp_path / "greenroom.toml").plugins.strict


def test_a_folder_in_place_of_the_file_is_an_error_that_names_it(tmp_path: Path) -> None:
    (tmp_path / "greenroom.toml").mkdir()
    with pytest.raises(SettingsError, match=r"greenroom\.toml: the settings cannot be read"):
        load_settings(user_file=tmp_path / "greenroom.toml")


def test_a_missing_file_is_an_empty_layer(tmp_path: Path) -> None:
    settings = load_settings(user_file=tmp_path / "no" / "greenroom.toml", project_file=None)
    assert settings.plugins.load == ()
    assert settings.project_file is None


@pytest.mark.parametrize(
    ("text", "place", "hint"),
    [
        ("[plugin]\nload = []", ":1: [plugin]: unknown table", "did you mean 'plugins'?"),
        ("x = 1", ":1: [x]: unknown table", "hooks, invariants, plugins"),
        ("plugins = 1", ":1: [plugins]: must be a table", "[plugins]"),
        ("[plugins]\nstrct = true", ":2: [plugins] strct: unknown key", "did you mean 'strict'?"),
        ("[plugins]\naudit = true", ":2: [plugins] audit: unknown key", "[plugins.audit]"),
        ("[[plugins.audit]]\nx = 1", ":1: [plugins] audit: unknown key", "[plugins.audit]"),
        ("[hooks]\nordr = {}", ":2: [hooks] ordr: unknown key", "did you mean 'order'?"),
        ("[hooks]\norder = []", ":2: [hooks] order: must be a table", "[hooks.order]"),
        ("[hooks.order]\nactivate = 'a'", ":2: [hooks.order] activate: must be a list of non-empty texts", "["),
        ("[plugins]\nload = 'a'", ":2: [plugins] load: must be a list", "load = ["),
        ("[plugins]\nload = [1]", ":2: [plugins] load: must be a list", "load = ["),
        ("[plugins]\nload = ['']", ":2: [plugins] load: must be a list", "load = ["),
        ("[plugins]\ndeny = {}", ":2: [plugins] deny: must be a list", "deny = ["),
        ("[plugins]\nstrict = 'true'", ":2: [plugins] strict: must be true or false, not 'true'", "strict = true"),
        ("[plugins]\nstrict = 1", ":2: [plugins] strict: must be true or false, not 1", "strict = true"),
        ("[plugins]\nimport_timeout = true", ":2: [plugins] import_timeout: must be a number", "= 30"),
        ("[plugins]\nimport_timeout = 0", ":2: [plugins] import_timeout: must be a number", "= 30"),
        ("[plugins]\nimport_timeout = nan", ":2: [plugins] import_timeout: must be a number", "= 30"),
        ("[plugins.allow]\nx = 1", ":1: [plugins] allow: must be a list", "allow = ["),
    ],
)
def test_a_wrong_host_key_names_line_table_and_key(tmp_path: Path, text: str, place: str, hint: str) -> None:
    error = refusal(tmp_path, text)
    assert f"{tmp_path}/user/greenroom.toml{place}" in str(error)
    assert hint in str(error.hint)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("guard = 'yes'", "[plugins.audit] guard: must be true or false"),
        ("required = 1", "[plugins.audit] required: must be true or false"),
        ("timeout_cap = -1", "[plugins.audit] timeout_cap: must be a number of seconds above 0"),
    ],
)
def test_a_wrong_host_key_in_a_plugins_table_names_line_table_and_key(tmp_path: Path, text: str, message: str) -> None:
    settings = load(tmp_path, f"[plugins.audit]\n{text}")
    with pytest.raises(SettingsError) as caught:
        settings.plugin("dist:audit", "audit")
    assert f"greenroom.toml:2: {message}" in str(caught.value)


def test_values_nested_too_deeply_are_refused(tmp_path: Path) -> None:
    assert "nested" in str(refusal(tmp_path, "x = " + "[" * 5_000 + "]" * 5_000))


# Layers


def test_defaults_hold_without_any_layer() -> None:
    plugins = load_settings().plugins
    assert (plugins.load, plugins.allow, plugins.deny) == ((), None, ())
    assert (plugins.strict, plugins.import_timeout, plugins.disable_all) == (False, 10.0, False)
    section = load_settings().plugin("dist:audit", "audit")
    assert (section.values, section.guard, section.required, section.timeout_cap) == ({}, False, False, 120.0)


def test_a_nearer_layer_wins_and_every_value_knows_its_origin(tmp_path: Path) -> None:
    settings = load(
        tmp_path,
        "[plugins.audit]\na = 1\nb = 1\nc = 1\nd = 1\n",
        "[plugins.audit]\nb = 2\nc = 2\nd = 2\n",
        environ={"GREENROOM_PLUGINS__AUDIT__C": "3", "GREENROOM_PLUGINS__AUDIT__D": "3"},
        overrides={"plugins.audit.d": "4"},
    )
    section = settings.plugin("dist:audit", "audit")
    assert section.values == {"a": 1, "b": 2, "c": 3, "d": 4}
    assert {path[0]: str(origin) for path, origin in section.origins.items()} == {
        "a": f"{tmp_path}/user/greenroom.toml:2",
        "b": f"{tmp_path}/project/greenroom.toml:2",
        "c": "GREENROOM_PLUGINS__AUDIT__C",
        "d": "--set plugins.audit.d",
    }


def test_tables_are_merged_and_other_values_replaced(tmp_path: Path) -> None:
    settings = load(tmp_path, "[plugins.x]\nt = {a = 1, b = [1]}\ns = 1", "[plugins.x]\nt = {b = [2]}\ns = {k = 1}")
    section = settings.plugin("d:x", "x")
    assert section.values == {"t": {"a": 1, "b": [2]}, "s": {"k": 1}}
    assert set(section.origins) == {("t", "a"), ("t", "b"), ("s", "k")}


def test_a_value_may_replace_a_table(tmp_path: Path) -> None:
    section = load(tmp_path, "[plugins.x.t]\na = 1", "[plugins.x]\nt = 2").plugin("d:x", "x")
    assert section.values == {"t": 2}
    assert set(section.origins) == {("t",)}


def test_changing_what_was_handed_out_changes_no_settings(tmp_path: Path) -> None:
    settings = load(tmp_path, "[plugins.x]\nt = {a = [1]}")
    values = dict(settings.plugin("d:x", "x").values)
    values["t"]["a"].append(2)  # type: ignore[index]  # a table
    assert settings.plugin("d:x", "x").values == {"t": {"a": [1]}}


def test_load_adds_up_over_layers_and_paths_belong_to_their_file(tmp_path: Path) -> None:
    settings = load(
        tmp_path,
        "[plugins]\nload = ['./a.py', 'mod:attr']",
        "[plugins]\nload = ['./a.py', 'hooks/']",
        environ={"GREENROOM_PLUGINS__LOAD": "['../c.py']"},
    )
    assert [(e.text, e.path, e.from_project) for e in settings.plugins.load] == [
        ("./a.py", tmp_path / "user/a.py", False),
        ("mod:attr", None, False),
        ("./a.py", tmp_path / "project/a.py", True),
        ("hooks/", tmp_path / "project/hooks", True),
        ("../c.py", tmp_path / "../c.py", False),
    ]


def test_an_entry_of_load_that_is_given_twice_counts_once_where_it_was_first(tmp_path: Path) -> None:
    settings = load(tmp_path, "[plugins]\nload = ['a:b', 'c:d', 'a:b']")
    assert [entry.text for entry in settings.plugins.load] == ["a:b", "c:d"]


def test_deny_adds_up_over_layers(tmp_path: Path) -> None:
    settings = load(tmp_path, "[plugins]\ndeny = ['a']", "[plugins]\ndeny = ['b', 'a']")
    assert settings.plugins.deny == ("a", "b")


@pytest.mark.parametrize(
    ("user", "project", "expected"),
    [("['a', 'b']", "['b', 'c']", ("b",)), (None, "['b']", ("b",)), ("['a']", None, ("a",)), ("[]", "['b']", ())],
)
def test_a_project_may_narrow_the_allow_list_but_not_widen_it(
    tmp_path: Path, user: str | None, project: str | None, expected: tuple[str, ...]
) -> None:
    def text(value: str | None) -> str:
        return f"[plugins]\nallow = {value}" if value else ""

    assert load(tmp_path, text(user), text(project)).plugins.allow == expected


def test_a_project_cannot_relax_what_the_user_made_strict(tmp_path: Path) -> None:
    section = "[plugins.p]\nguard = {0}\nrequired = {0}\ntimeout_cap = {1}"
    strict = "[plugins]\nstrict = {}\n"
    user = strict.format("true") + section.format("true", 30)
    project = strict.format("false") + section.format("false", 600)
    settings = load(tmp_path, user, project)
    found = settings.plugin("d:p", "p")
    assert (settings.plugins.strict, found.guard, found.required, found.timeout_cap) == (True, True, True, 30.0)


def test_the_user_may_relax_it_for_one_command(tmp_path: Path) -> None:
    settings = load(
        tmp_path,
        "[plugins]\nstrict = true\n[plugins.p]\nguard = true",
        environ={"GREENROOM_PLUGINS__STRICT": "0"},
        overrides={"plugins.p.guard": "false"},
    )
    assert not settings.plugins.strict
    assert not settings.plugin("d:p", "p").guard


def test_the_order_of_hooks_is_read_per_hook(tmp_path: Path) -> None:
    settings = load(tmp_path, "[hooks.order]\na = ['x', 'y']\nb = ['x']", "[hooks.order]\nb = ['z']")
    assert settings.hook_order == {"a": ("x", "y"), "b": ("z",)}


@pytest.mark.parametrize(("text", "needs"), [("", False), ("# nothing\n", False), ("[plugins.x]\na = 1", True)])
def test_a_project_file_that_says_anything_needs_trust(tmp_path: Path, text: str, needs: bool) -> None:
    assert load(tmp_path, project=text).project_needs_trust is needs


def test_the_users_own_file_needs_no_trust(tmp_path: Path) -> None:
    assert not load(tmp_path, "[plugins]\nload = ['a:b']").project_needs_trust


# Names of plugins


@pytest.mark.parametrize("table", ["plugins.audit", 'plugins."dist:audit"'])
def test_a_plugins_table_is_found_under_either_name(tmp_path: Path, table: str) -> None:
    section = load(tmp_path, f"[{table}]\nlimit = 7\nguard = true").plugin("dist:audit", "audit")
    assert section.values == {"limit": 7}
    assert section.guard
    assert section.table == table


def test_one_plugin_under_two_names_is_an_error_that_names_both(tmp_path: Path) -> None:
    settings = load(tmp_path, "[plugins.audit]\na = 1", '[plugins."dist:audit"]\nb = 1')
    with pytest.raises(SettingsError) as caught:
        settings.plugin("dist:audit", "audit")
    assert f"[plugins.audit] ({tmp_path}/user/greenroom.toml:1)" in str(caught.value)
    assert f'[plugins."dist:audit"] ({tmp_path}/project/greenroom.toml:1)' in str(caught.value)
    assert caught.value.plugin == "dist:audit"


def test_a_table_that_no_plugin_claims_is_reported_with_its_place(tmp_path: Path) -> None:
    settings = load(
        tmp_path,
        '[plugins.audit]\n[plugins."d:other"]\n[plugins.typo]\n',
        environ={"GREENROOM_PLUGINS__AUDIT__X": "1", "GREENROOM_PLUGINS__GONE__X": "1"},
    )
    found = settings.unclaimed([("dist:audit", "audit"), ("d:other", "other")])
    assert [(name, str(origin)) for name, origin in found] == [
        ("typo", f"{tmp_path}/user/greenroom.toml:3"),
        ("GONE", "GREENROOM_PLUGINS__GONE__X"),
    ]


def test_the_hosts_keys_are_reserved_as_names() -> None:
    assert frozenset(HOST_KEYS) == RESERVED_NAMES == {"load", "allow", "deny", "strict", "import_timeout"}


# Environment and command line


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("3", 3),
        ("true", True),
        ("True", "True"),
        ("1.5", 1.5),
        ("[1, 'a']", [1, "a"]),
        ("{a = 1}", {"a": 1}),
        ("'quoted'", "quoted"),
        ("plain text", "plain text"),
        ("", ""),
        ("1\nw = 2", "1\nw = 2"),
        ("[" * 5_000, "[" * 5_000),
    ],
)
def test_a_text_is_a_toml_value_or_else_itself(text: str, value: object) -> None:
    assert parse_value(text) == value


def test_a_variable_reaches_nested_keys_and_hyphenated_names(tmp_path: Path) -> None:
    settings = load(tmp_path, environ={"GREENROOM_PLUGINS__MY_AUDIT__RULES__MAX_SIZE": "3"})
    assert settings.plugin("dist:my-audit", "my-audit").values == {"rules": {"max_size": 3}}
    assert settings.plugin("dist:other", "other").values == {}


def test_a_variable_applies_also_when_the_file_uses_the_full_id(tmp_path: Path) -> None:
    settings = load(tmp_path, '[plugins."d:audit"]\na = 1', environ={"GREENROOM_PLUGINS__AUDIT__A": "2"})
    assert settings.plugin("d:audit", "audit").values == {"a": 2}


def test_a_variable_sets_the_order_of_a_hook(tmp_path: Path) -> None:
    settings = load(tmp_path, environ={"GREENROOM_HOOKS__ORDER__TOOL_CALL": "['a', 'b']"})
    assert settings.hook_order == {"tool_call": ("a", "b")}


@pytest.mark.parametrize(
    ("variable", "hint"),
    [
        ("GREENROOM_PLUGINS__STRCT", "GREENROOM_PLUGINS__STRICT"),
        ("GREENROOM_PLUGINS__AUDIT__", "GREENROOM_PLUGINS__<PLUGIN>__<KEY>"),
        ("GREENROOM_PLUGINS__", "GREENROOM_PLUGINS__<PLUGIN>__<KEY>"),
        ("GREENROOM_PLUGINS__LOAD__X", "GREENROOM_PLUGINS__<PLUGIN>__<KEY>"),
        ("GREENROOM_PLUGIN__AUDIT__X", "GREENROOM_PLUGINS__<PLUGIN>__<KEY>"),
        ("GREENROOM_HOOKS__ORDER", "GREENROOM_HOOKS__ORDER__<HOOK>"),
    ],
)
def test_a_variable_that_means_nothing_is_refused_with_a_hint(tmp_path: Path, variable: str, hint: str) -> None:
    error = refusal(tmp_path, environ={variable: "1"})
    assert variable in str(error)
    assert hint in str(error.hint)


def test_variables_of_others_are_left_alone() -> None:
    load_settings(environ={"GREENROOM_AGENT_ID": "x:1", "GREENROOM_HOME": "/x", "PLUGINS__X": "1"})


def test_a_wrong_value_of_a_variable_names_the_variable(tmp_path: Path) -> None:
    error = refusal(tmp_path, environ={"GREENROOM_PLUGINS__DENY": "a,b"})
    assert str(error).startswith("GREENROOM_PLUGINS__DENY: [plugins] deny: must be a list")


@pytest.mark.parametrize("keys", [("plugins.x.a", "plugins.x.a.b"), ("plugins.x.a.b", "plugins.x.a")])
def test_one_key_cannot_be_a_value_and_a_table(keys: tuple[str, str]) -> None:
    with pytest.raises(SettingsError, match=f"--set {keys[1]}: 'a' "):
        load_settings(overrides=dict.fromkeys(keys, "1"))


@pytest.mark.parametrize(
    ("value", "everything", "deny"),
    [
        ("1", True, ()),
        ("true", True, ()),
        ("ALL", True, ()),
        ("", False, ()),
        ("0", False, ()),
        ("a, d:b,,", False, ("a", "d:b")),
    ],
)
@pytest.mark.parametrize("channel", ["variable", "option"])
def test_plugins_can_be_switched_off(value: str, everything: bool, deny: tuple[str, ...], channel: str) -> None:
    if channel == "variable":
        plugins = load_settings(environ={"GREENROOM_NO_PLUGINS": value}).plugins
    else:
        plugins = load_settings(overrides={"--no-plugins": value}).plugins
    assert plugins.disable_all is everything
    assert plugins.deny == deny


@pytest.mark.parametrize(("value", "strict"), [("1", True), ("true", True), ("0", False), ("", False)])
def test_strict_plugins_can_be_switched_on_by_variable(value: str, strict: bool) -> None:
    assert load_settings(environ={"GREENROOM_STRICT_PLUGINS": value}).plugins.strict is strict


def test_an_override_reaches_a_quoted_id() -> None:
    settings = load_settings(overrides={'plugins."dist:audit".limit': "3"})
    assert settings.plugin("dist:audit", "audit").values == {"limit": 3}


@pytest.mark.parametrize("key", ["", "a b", "a.", "a=1", "a\nb", "[a]", 'a."b'])
def test_an_override_that_is_no_key_is_refused(key: str) -> None:
    with pytest.raises(SettingsError, match="no key of the settings"):
        load_settings(overrides={key: "1"})


def test_keys_are_split_as_toml_does() -> None:
    assert parse_key("""plugins . "a:b.c" . 'd' """) == ("plugins", "a:b.c", "d")


def test_the_effective_values_name_defaults_and_layers(tmp_path: Path) -> None:
    settings = load(
        tmp_path,
        "[plugins]\nstrict = true\n[plugins.my-audit]\nlimit = 3\nguard = true\n[hooks.order]\nactivate = ['a']",
        environ={"GREENROOM_PLUGINS__MY_AUDIT__LABEL": "z", "GREENROOM_PLUGINS__OTHER__X": "1"},
    )
    rows = {".".join(row.key): (row.value, row.origin.layer) for row in effective(settings)}
    assert rows == {
        "plugins.load": ([], "default"),
        "plugins.allow": (None, "default"),
        "plugins.deny": ([], "default"),
        "plugins.strict": (True, "user"),
        "plugins.import_timeout": (10.0, "default"),
        "hooks.order.activate": (["a"], "user"),
        "plugins.my-audit.limit": (3, "user"),
        "plugins.my-audit.guard": (True, "user"),
        "plugins.my-audit.label": ("z", "environment"),
        "plugins.other.x": (1, "environment"),
    }


# Lines


def test_the_line_of_a_key_is_found_in_every_notation() -> None:
    text = '[plugins.a]\nx = 1\n[plugins]\n"b".y = 2\nc = { z = 3 }\n[ plugins . "d:e" ]\n# k = 0\nk = 4\n'
    places = {
        ("plugins", "a"): 1,
        ("plugins", "a", "x"): 2,
        ("plugins", "b", "y"): 4,
        ("plugins", "c", "z"): 5,
        ("plugins", "d:e", "k"): 8,
        ("plugins", "d:e", "gone"): 6,
        ("other",): None,
    }
    assert {path: find_line(text, path) for path in places} == places


# A plugin's model


def test_a_model_gets_the_values_and_its_defaults(tmp_path: Path) -> None:
    section = load(tmp_path, "[plugins.audit]\nlimit = 7\nrequired = true").plugin("d:audit", "audit")
    assert validate_plugin(section, Audit) == Audit(limit=7)


def test_every_wrong_value_is_named_with_file_line_table_and_key(tmp_path: Path) -> None:
    text = "[plugins.audit]\nlimit = 'many'\nlabel = 3\nlimt = 1\n[plugins.audit.nested]\na = 1\n"
    section = load(tmp_path, text).plugin("d:audit", "audit")
    with pytest.raises(SettingsError) as caught:
        validate_plugin(section, Audit)
    message = str(caught.value)
    file = f"{tmp_path}/user/greenroom.toml"
    assert f"{file}:2: [plugins.audit] limit: Input should be a valid integer" in message
    assert f"{file}:3: [plugins.audit] label: Input should be a valid string" in message
    assert f"{file}:4: [plugins.audit] limt: unknown key; did you mean 'limit'?" in message
    assert f"{file}:6: [plugins.audit] nested.a: Input should be a valid string" in message
    assert "many" not in message
    assert "settings schema d:audit" in message
    assert caught.value.plugin == "d:audit"


def test_a_missing_value_is_named_with_the_table() -> None:
    class Model(BaseModel):
        address: str

    with pytest.raises(SettingsError, match=r"\[plugins.audit\] address: Field required"):
        validate_plugin(load_settings().plugin("d:audit", "audit"), Model)


def test_a_wrong_variable_is_named(tmp_path: Path) -> None:
    section = load_settings(environ={"GREENROOM_PLUGINS__AUDIT__LIMIT": "lots"}).plugin("d:audit", "audit")
    with pytest.raises(SettingsError, match="GREENROOM_PLUGINS__AUDIT__LIMIT: "):
        validate_plugin(section, Audit)


@pytest.mark.parametrize("text", ["1.10", "true", "2024-01-01", "'quoted'"])
def test_a_variable_that_looks_like_another_type_is_text_where_text_is_wanted(text: str) -> None:
    settings = load_settings(
        environ={"GREENROOM_PLUGINS__AUDIT__LABEL": text}, overrides={"plugins.audit.nested.a": text}
    )
    found = validate_plugin(settings.plugin("d:audit", "audit"), Audit)
    assert found.label == text.strip("'")
    assert found.nested == {"a": text.strip("'")}


def test_a_number_in_a_file_is_not_taken_as_text(tmp_path: Path) -> None:
    settings = load(tmp_path, "[plugins.audit]\nlabel = 1")
    with pytest.raises(SettingsError, match="label"):
        validate_plugin(settings.plugin("d:audit", "audit"), Audit)


@pytest.mark.parametrize("extra", ["ignore", "allow"])
def test_a_model_may_take_unknown_keys_on_purpose(tmp_path: Path, extra: str) -> None:
    class Open(BaseModel):
        model_config = ConfigDict(extra=extra)  # type: ignore[typeddict-item]  # a parameter of the test

    validate_plugin(load(tmp_path, "[plugins.audit]\nanything = 1").plugin("d:audit", "audit"), Open)


def test_aliases_are_known_keys(tmp_path: Path) -> None:
    class Model(BaseModel):
        max_size: int = Field(1, alias="max-size")

    section = load(tmp_path, "[plugins.audit]\nmax-size = 3").plugin("d:audit", "audit")
    assert validate_plugin(section, Model).max_size == 3


@pytest.mark.parametrize("model", [dict, Audit(), None, int])
def test_a_model_that_is_none_is_the_plugins_fault(model: object) -> None:
    with pytest.raises(PluginError, match=r"plugin_settings\(\) of d:audit returned") as caught:
        validate_plugin(load_settings().plugin("d:audit", "audit"), model)  # type: ignore[type-var]  # on purpose
    assert caught.value.plugin == "d:audit"


def test_a_validator_that_breaks_is_the_plugins_fault() -> None:
    class Model(BaseModel):
        x: int = 1

        @field_validator("x")
        @classmethod
        def check(cls, value: int) -> int:
            raise RuntimeError("boom")

    section = load_settings(overrides={"plugins.audit.x": "2"}).plugin("d:audit", "audit")
    with pytest.raises(PluginError, match="RuntimeError: boom"):
        validate_plugin(section, Model)


# Edits


def test_an_edit_keeps_comments_order_and_line_ends(tmp_path: Path) -> None:
    file = tmp_path / "greenroom.toml"
    file.write_bytes(b"# mine\r\n[plugins]\r\ndeny = ['a'] # why\r\n\r\n[plugins.x]\r\ny = 1\r\n")

    edit_user_settings(file, lambda document: document["plugins"]["deny"].append("b"))  # type: ignore[index,union-attr]
    assert file.read_bytes() == b"# mine\r\n[plugins]\r\ndeny = ['a', \"b\"] # why\r\n\r\n[plugins.x]\r\ny = 1\r\n"


def test_an_edit_creates_file_and_folder(tmp_path: Path) -> None:
    file = tmp_path / "a" / "b" / "greenroom.toml"
    edit_user_settings(file, lambda document: document.update({"plugins": {"strict": True}}))
    assert load_settings(user_file=file).plugins.strict


def test_an_edit_of_a_broken_file_changes_nothing(tmp_path: Path) -> None:
    file = tmp_path / "greenroom.toml"
    file.write_text("[plugins\n")
    with pytest.raises(SettingsError, match=r"greenroom\.toml:1:\d+: broken TOML"):
        edit_user_settings(file, lambda document: document.clear())
    assert file.read_text() == "[plugins\n"


def test_an_edit_that_raises_changes_nothing(tmp_path: Path) -> None:
    file = tmp_path / "greenroom.toml"
    file.write_text("[plugins]\n")

    def change(document: object) -> None:
        document.clear()  # type: ignore[attr-defined]  # a TOMLDocument
        raise KeyError("x")

    with pytest.raises(KeyError):
        edit_user_settings(file, change)
    assert file.read_text() == "[plugins]\n"


def test_an_edit_that_cannot_be_written_says_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(SettingsError, match="cannot be written") as caught:
        edit_user_settings(tmp_path / "file" / "greenroom.toml", lambda document: None)
    assert "GREENROOM_CONFIG_DIR" in str(caught.value.hint)


def test_edits_at_the_same_time_are_all_kept(tmp_path: Path) -> None:
    file = tmp_path / "greenroom.toml"
    file.write_text("[plugins]\ndeny = []\n")

    def edit(name: str) -> None:
        for _ in range(5):
            edit_user_settings(file, lambda document: document["plugins"]["deny"].append(name))  # type: ignore[index,union-attr]

    with ThreadPoolExecutor(3) as pool:
        list(pool.map(edit, "012"))
    assert sorted(load_settings(user_file=file).plugins.deny) == ["0", "1", "2"]
    assert sorted(tomllib.loads(file.read_text())["plugins"]["deny"]) == sorted("012" * 5)


def test_reading_settings_imports_neither_pydantic_nor_tomlkit() -> None:
    code = (
        "import sys, greenroom._settings.settings as s; s.load_settings(); "
        "print(*({'pydantic', 'tomlkit', 'filelock', 'pluggy', 'anyio'} & sys.modules.keys()))"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split() == []
