"""The service that runs checks: who registers, what is selected, how violations are told."""

from __future__ import annotations

import pytest

from greenroom.errors import GreenroomError, NameTaken, ScopeClosed, SettingsError
from greenroom.sessions import (
    EventRefused,
    EventType,
    Invariant,
    Invariants,
    InvariantSettings,
    InvariantsViolated,
    InvariantViolation,
    Session,
    SessionError,
    SessionRegistry,
    Violation,
)
from greenroom.sessions.vocabulary import Notice, TurnStart

NOTE = Notice("info", "hello")


def count(trace, event, data):
    return (trace or 0) + 1


def refuse(trace, event, data):
    return Violation(f"no {event.type}")


def counting(name="count") -> Invariant:
    return Invariant(name, count)


@pytest.fixture
def checked(header, vocabulary, ports):
    """A session judged by the service, and its checks."""

    def make(invariants: Invariants):
        checks = invariants.validator(header, vocabulary)
        return Session(header, vocabulary, validators=[checks], ports=ports), checks

    return make


def traces(checks) -> dict:
    return {slot.entry.invariant.name: slot.trace for slot in checks._slots}


@pytest.mark.behaviour("D-188")
@pytest.mark.parametrize("settings", [None, InvariantSettings(), InvariantSettings(True, (), ())])
def test_by_default_everything_is_enabled_and_nothing_excluded(settings):
    service = Invariants() if settings is None else Invariants(settings)
    service.register("audit", [counting()], distribution="acme-audit")
    assert [entry.plugin for entry in service.selected()] == ["audit"]


@pytest.mark.behaviour("D-189")
def test_a_disabled_service_runs_nothing_and_still_reserves_names(checked):
    service = Invariants(InvariantSettings(enabled=False))
    service.register("audit", [Invariant("no", refuse)])
    session, _ = checked(service)
    session.append("notice", NOTE)
    with pytest.raises(NameTaken):
        service.register("audit", [])


@pytest.mark.behaviour("D-190")
@pytest.mark.parametrize(
    ("pattern", "hit"),
    [("udi", True), ("^audit$", True), ("acme", True), ("Audit", False), ("^udit", False), ("a.d", True)],
)
def test_patterns_are_searched_anywhere_and_case_matters(pattern, hit):
    assert InvariantSettings(allow=(pattern,)).selects("audit", "acme-audit") is hit
    assert InvariantSettings(block=(pattern,)).selects("audit", "acme-audit") is not hit


@pytest.mark.behaviour("D-191")
def test_block_beats_allow_also_with_the_same_pattern():
    settings = InvariantSettings(allow=("audit", "other"), block=("audit",))
    assert not settings.selects("audit", None)
    assert settings.selects("other", None)


@pytest.mark.behaviour("D-192")
def test_a_pattern_that_matches_nothing_yet_is_fine():
    service = Invariants(InvariantSettings(allow=("later",), block=("never",)))
    service.register("audit", [counting()])
    assert service.selected() == ()
    service.register("later", [counting()])
    assert [entry.plugin for entry in service.selected()] == ["later"]


@pytest.mark.behaviour("D-193")
@pytest.mark.parametrize("patterns", [("",), ("  ",), (" a",), ("a ",), ("a", "b", "a"), ("(",), ("[z-a]",)], ids=repr)
@pytest.mark.parametrize("key", ["allow", "block"])
def test_a_bad_pattern_fails_when_the_settings_are_read(key, patterns):
    with pytest.raises(SettingsError, match=f"invariants.{key}"):
        InvariantSettings(**{key: patterns})


@pytest.mark.behaviour("D-194")
@pytest.mark.parametrize("name", ["", " ", "-audit", "a b", "audit\n", "ä"])
def test_malformed_names_are_refused_and_reserve_nothing(name):
    service = Invariants()
    with pytest.raises(SessionError, match="no name"):
        service.register(name, [counting()])
    with pytest.raises(SessionError, match="no name"):
        service.register("audit", [counting(name or "")])
    service.register("audit", [counting()])


@pytest.mark.behaviour("D-194")
def test_duplicate_registrations_are_refused():
    service = Invariants()
    service.register("audit", [counting()])
    with pytest.raises(NameTaken, match="registered already"):
        service.register("audit", [counting("other")])
    with pytest.raises(NameTaken, match="two checks of one name"):
        service.register("second", [counting(), counting()])


@pytest.mark.behaviour("D-196")
def test_a_violation_carries_its_check_and_the_plugin_and_distribution_that_registered_it(checked, vocabulary):
    service = Invariants()
    service.register("audit", [Invariant("audit/no", refuse)], distribution="acme-audit")
    vocabulary.add(EventType("memo/note", Notice, enclosure="free"), "memo")
    session, _ = checked(service)
    with pytest.raises(InvariantsViolated) as caught:
        session.append("memo/note", NOTE)
    (violation,) = caught.value.exceptions
    assert isinstance(violation, InvariantViolation)
    assert (violation.check, violation.plugin, violation.distribution) == ("audit/no", "audit", "acme-audit")
    assert violation.event_owner == "memo"
    assert "invariant audit/no of acme-audit violated: no memo/note (an event of memo)" in str(violation)
    assert caught.value.plugin == "audit"
    assert caught.value.session_id == "s1"


def test_all_checks_run_and_all_violations_are_told_together(checked):
    service, ran = Invariants(), []

    def fine(trace, event, data):
        ran.append(event.seq)
        return trace

    service.register("one", [Invariant("a", refuse), Invariant("b", fine)])
    service.register("two", [Invariant("c", refuse), counting()])
    session, checks = checked(service)
    with pytest.raises(InvariantsViolated) as caught:
        session.append("notice", NOTE)
    assert [one.plugin for one in caught.value.exceptions] == ["one", "two"]
    assert ran == [0]
    assert traces(checks)["count"] is None
    assert isinstance(caught.value, (GreenroomError, EventRefused))
    with pytest.raises(ExceptionGroup):
        raise caught.value
    owned, others = caught.value.split(lambda error: getattr(error, "check", None) == "a")
    assert (len(owned.exceptions), len(others.exceptions)) == (1, 1)


def test_a_check_that_breaks_refuses_with_its_owners_name(checked):
    service = Invariants()
    service.register("audit", [Invariant("broken", lambda trace, event, data: 1 / 0)])
    session, _ = checked(service)
    with pytest.raises(InvariantsViolated, match="the check itself failed: ZeroDivisionError") as caught:
        session.append("notice", NOTE)
    assert caught.value.exceptions[0].plugin == "audit"


def test_a_check_sees_only_the_types_it_asks_for(checked):
    service = Invariants()
    service.register("audit", [Invariant("some", count, types=frozenset({"turn/start"}))])
    session, checks = checked(service)
    session.append("notice", NOTE)
    session.append("turn/start", {"turn": 1, "trigger": {"kind": "message"}})
    assert traces(checks) == {"some": 1}


@pytest.mark.behaviour("D-153", "D-154")
def test_a_trace_moves_only_when_the_event_is_committed(header, vocabulary, ports):
    service = Invariants()
    service.register("audit", [counting()])
    checks = service.validator(header, vocabulary)

    class Later:
        refuses = True

        def stage(self, event, data):
            if Later.refuses:
                raise EventRefused("a later veto")

        def commit(self):
            pass

    session = Session(header, vocabulary, validators=[checks, Later()], ports=ports)
    session.observe(lambda event: 1 / 0)
    with pytest.raises(EventRefused):
        session.append("notice", NOTE)
    assert traces(checks) == {"count": None}
    Later.refuses = False
    session.append("notice", NOTE)
    assert traces(checks) == {"count": 1}


@pytest.mark.behaviour("D-197")
def test_an_undo_takes_the_checks_out_at_once_and_frees_the_name(checked):
    service = Invariants()
    undo = service.register("audit", [Invariant("no", refuse)])
    session, _ = checked(service)
    with pytest.raises(InvariantsViolated):
        session.append("notice", NOTE)
    undo()
    session.append("notice", NOTE)
    again = service.register("audit", [counting()])
    undo()
    assert [entry.plugin for entry in service.selected()] == ["audit"]
    again()
    assert service.selected() == ()


@pytest.mark.behaviour("D-198")
@pytest.mark.parametrize("bad", [[counting(), counting()], [counting(), Invariant("b d", count)]])
def test_a_registration_that_fails_leaves_nothing(bad):
    service = Invariants()
    generation = service.generation
    with pytest.raises(GreenroomError):
        service.register("audit", bad)
    assert (service.selected(), service.generation) == ((), generation)
    service.register("audit", [counting()])


@pytest.mark.behaviour("D-199")
def test_a_closed_service_takes_no_registration_and_keeps_no_name(checked):
    service = Invariants()
    service.register("audit", [Invariant("no", refuse)])
    session, _ = checked(service)
    service.close()
    session.append("notice", NOTE)
    with pytest.raises(ScopeClosed):
        service.register("late", [counting()])
    assert service._plugins == {}


@pytest.mark.anyio
@pytest.mark.behaviour("D-163")
async def test_checks_that_come_later_are_told_the_past_of_live_sessions(store, vocabulary, ports, scripted):
    service = Invariants()
    registry = SessionRegistry(store, vocabulary, invariants=service, ports=ports)
    one = (await registry.create(registry.new_header("a"))).session
    two = (await registry.create(registry.new_header("b"))).session
    scripted(one).whole_turn()
    scripted(one).turn()

    def turns(trace, event, data):
        return (trace or 0) + isinstance(data, TurnStart)

    undo = service.register("audit", [Invariant("turns", turns)])
    assert one.validators[0].stale
    await registry.revalidate()
    assert [traces(session.validators[0])["turns"] for session in (one, two)] == [2, None]
    assert not one.validators[0].stale
    scripted(two).turn()
    assert [traces(session.validators[0])["turns"] for session in (one, two)] == [2, 1]
    undo()
    scripted(two).end()
    assert traces(two.validators[0]) == {}


@pytest.mark.behaviour("D-163")
def test_a_seeded_session_is_replayed(header, vocabulary, session, script):
    script.whole_turn()
    service = Invariants()
    service.register("audit", [counting()])
    checks = service.validator(header, vocabulary)
    again = Session(header, vocabulary, seed=session.tail, validators=[checks])
    assert traces(checks) == {"count": len(again)}


def test_a_past_that_breaks_the_rules_is_taken_as_it_is_and_told_by_judge(header, vocabulary, session, script):
    script.whole_turn()

    def no_notices(trace, event, data):
        return Violation("a notice") if event.type == "notice" else (trace or 0) + 1

    session.append("notice", NOTE)
    service = Invariants()
    service.register("audit", [Invariant("strict", no_notices)])
    checks = service.validator(header, vocabulary)
    checks.replay(session.tail)
    assert traces(checks) == {"strict": len(session) - 1}
    found = checks.judge(session.tail)
    assert [one.check for one in found] == ["strict"]
