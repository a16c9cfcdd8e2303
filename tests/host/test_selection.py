"""The lists decide what may load before anything is imported, and a name clash says how to resolve it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from greenroom._finding.discovery import Candidate, discover
from greenroom._finding.selection import Selection, find, matches, select

if TYPE_CHECKING:
    from conftest import Site


def plugin(dist: str, name: str, **more: object) -> Candidate:
    return Candidate(
        id=f"{dist}:{name}", name=name, distribution=dist, version="1.0", origin="entry-point", target=name, **more
    )


def local(name: str) -> Candidate:
    return Candidate(id=f"local:{name}", name=name, origin="file", target=f"/{name}.py")


def chosen(selection: Selection) -> list[str]:
    return [c.id for c in selection.chosen if not c.problem]


FOUND = [plugin("acme-audit", "audit"), plugin("acme-guard", "guard"), local("policy")]


def test_without_lists_everything_is_chosen() -> None:
    assert chosen(select(FOUND)) == ["acme-audit:audit", "acme-guard:guard", "local:policy"]


@pytest.mark.parametrize("name", ["acme-audit:audit", "audit", "acme-audit", "Acme_Audit", "ACME.audit:audit"])
def test_ids_short_names_and_distributions_are_all_accepted(name: str) -> None:
    selection = select(FOUND, deny=[name])
    assert chosen(selection) == ["acme-guard:guard", "local:policy"]
    assert [(c.id, why) for c, why in selection.blocked] == [
        ("acme-audit:audit", "denied ([plugins] deny or --no-plugins)")
    ]
    assert chosen(select(FOUND, allow=[name])) == ["acme-audit:audit"]


def test_a_local_plugin_can_be_denied() -> None:
    assert "local:policy" not in chosen(select(FOUND, deny=["local:policy"]))
    assert "local:policy" not in chosen(select(FOUND, deny=["policy"]))


def test_deny_wins_over_allow() -> None:
    assert chosen(select(FOUND, allow=["audit", "guard"], deny=["audit"])) == ["acme-guard:guard"]


def test_an_allow_list_without_names_allows_nothing() -> None:
    assert select(FOUND, allow=[]).chosen == ()


def test_no_plugins_blocks_all_and_says_who_did_it() -> None:
    selection = select(FOUND, no_plugins=True)
    assert selection.chosen == ()
    assert {why for _, why in selection.blocked} == {"all plugins are off (GREENROOM_NO_PLUGINS or --no-plugins)"}


def test_unknown_names_are_warned_about_and_change_nothing() -> None:
    selection = select(FOUND, allow=["audit", "guard", "policy"], deny=["acme-adit"])
    assert chosen(selection) == [c.id for c in FOUND]
    assert selection.warnings == ("deny names 'acme-adit', which is not installed; did you mean 'acme-audit'?",)


def test_a_shadowed_plugin_is_neither_chosen_nor_blocked() -> None:
    stale = plugin("acme-old", "old", shadowed_by="acme-old 2.0")
    selection = select([*FOUND, stale], deny=["old"])
    assert selection.shadowed == (stale,)
    assert stale.id not in chosen(selection)
    assert selection.blocked == ()
    assert selection.warnings == ()


def test_a04_two_distributions_with_one_entry_name_conflict_and_a_full_id_resolves_it(site: Site) -> None:
    site.dist("acme-audit", entries={"audit": "acme_audit"})
    site.dist("other-audit", "3.0", entries={"audit": "other_audit"})
    found = discover(path=site.path)
    both = select(found).chosen
    assert len(both) == 2
    for candidate in both:
        assert "acme-audit:audit (acme-audit 1.0)" in (candidate.problem or "")
        assert "other-audit:audit (other-audit 3.0)" in (candidate.problem or "")
        assert '"acme-audit:audit"' in (candidate.hint or "")
        assert '"other-audit:audit"' in (candidate.hint or "")
    assert chosen(select(found, deny=["acme-audit:audit"])) == ["other-audit:audit"]
    assert chosen(select(found, allow=["acme-audit:audit"])) == ["acme-audit:audit"]


def test_names_that_differ_only_in_dashes_and_case_clash() -> None:
    assert chosen(select([plugin("a", "my_plugin"), plugin("b", "My-Plugin")])) == []


def test_a_local_file_and_an_installed_plugin_of_one_name_clash() -> None:
    both = select([plugin("acme", "policy"), local("policy")]).chosen
    assert all("local:policy (/policy.py)" in (c.problem or "") for c in both)


def test_a_plugin_that_cannot_load_takes_no_name() -> None:
    broken = plugin("acme", "audit", problem="its folder is gone")
    selection = select([broken, plugin("other", "audit")])
    assert chosen(selection) == ["other:audit"]
    assert selection.chosen[0].problem == "its folder is gone"


def test_a_full_id_finds_that_plugin_only() -> None:
    found = [plugin("a", "x"), plugin("b", "x")]
    assert [c.id for c in find(found, "b:x")] == ["b:x"]
    assert [c.id for c in find(found, "x")] == ["a:x", "b:x"]
    assert not matches(found[0], "y")
