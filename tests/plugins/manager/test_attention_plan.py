"""Whom to tell, from what the clients report."""

from __future__ import annotations

import pytest

from greenroom.agents import ClientReport
from greenroom_manager._attention_plan import PRESENT, Plan, plan

NOW = 10_000_000
AGENT = "agent-1"
STALE = PRESENT + 1


def client(ago: int = 0, *, kind="web", visible=True, focus=None) -> ClientReport:
    return ClientReport(kind=kind, active_at=NOW - ago, visible=visible, focus=focus)


def whom(*clients: ClientReport | None, reason="finished") -> Plan:
    return plan(clients, AGENT, reason, NOW)


@pytest.mark.behaviour("P-342")
def test_a_client_that_looks_at_it_but_is_stale_suppresses_nothing():
    assert whom(client(STALE, focus=AGENT)) == Plan(push=True)
    assert whom(client(STALE, focus=AGENT), client(5)) == Plan(client=1)


@pytest.mark.behaviour("P-343")
@pytest.mark.parametrize("reason", ["finished", "error", "permission"])
def test_somebody_who_is_there_and_looks_at_it_suppresses_everything(reason):
    others = (client(0), client(0, kind="mobile"))
    assert whom(*others, client(PRESENT, focus=AGENT), reason=reason) == Plan(seen=True)


@pytest.mark.behaviour("P-344")
def test_a_client_in_the_background_does_not_suppress_although_it_shows_it():
    assert whom(client(0, visible=False, focus=AGENT)) == Plan(client=0)
    assert whom(client(0, kind="mobile", visible=False, focus=AGENT)) == Plan(push=True)


@pytest.mark.behaviour("P-345")
def test_somebody_who_looks_at_something_else_is_told():
    assert whom(client(10, focus="agent-2")) == Plan(client=0)
    assert whom(client(10, focus=None)) == Plan(client=0)


@pytest.mark.behaviour("P-346")
def test_the_client_that_was_active_last_is_told():
    assert whom(client(300), client(20), client(100)) == Plan(client=1)


@pytest.mark.behaviour("P-347")
def test_of_several_that_were_active_last_the_first_is_told():
    assert whom(client(50), client(20), client(20)) == Plan(client=1)


@pytest.mark.behaviour("P-348")
def test_a_clock_that_is_ahead_counts_as_now():
    ahead, now = client(-3_600_000), client(0)
    assert whom(now, ahead) == Plan(client=0)
    assert whom(ahead, now) == Plan(client=0)
    assert whom(client(1), ahead) == Plan(client=1)


@pytest.mark.behaviour("P-349", "P-357")
def test_a_client_that_never_sent_a_heartbeat_is_not_there():
    assert whom(None) == Plan(push=True)
    assert whom(None, client(PRESENT)) == Plan(client=1)


@pytest.mark.behaviour("P-350")
@pytest.mark.parametrize("reason", ["finished", "permission"])
@pytest.mark.parametrize("clients", [(), (client(STALE),)])
def test_with_nobody_there_it_is_pushed(reason, clients):
    assert whom(*clients, reason=reason) == Plan(push=True)


@pytest.mark.behaviour("P-351", "P-358")
@pytest.mark.parametrize("clients", [(), (None,), (client(STALE),)])
def test_with_nobody_there_an_error_is_not_pushed(clients):
    assert whom(*clients, reason="error") == Plan()


@pytest.mark.behaviour("P-352")
def test_a_phone_in_the_foreground_that_was_used_last_is_told():
    assert whom(client(60_000, kind="desktop"), client(1_000, kind="mobile")) == Plan(client=1)


@pytest.mark.behaviour("P-353")
def test_two_stale_pages_are_not_told_but_it_is_pushed():
    assert whom(client(STALE), client(STALE * 2)) == Plan(push=True)


@pytest.mark.behaviour("P-356")
def test_a_hidden_stale_page_that_shows_it_is_passed_over_for_a_desktop_client_that_is_there():
    page = client(STALE, visible=False, focus=AGENT)
    assert whom(page, client(30_000, kind="desktop")) == Plan(client=1)
