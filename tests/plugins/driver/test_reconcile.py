"""Items of a log and of a history are matched, and what is missing is planned."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from greenroom_driver._reconcile import Item, match, reconcile


def named(kind: str, content: str, ident: str, turn: int = 0, *, whole: bool = True) -> Item:
    return Item(kind, content, turn, frozenset({ident}), named=True, whole=whole)


def plain(kind: str, content: str, turn: int = 0, *, whole: bool = True) -> Item:
    return Item(kind, content, turn, whole=whole)


@pytest.mark.behaviour("P-237")
def test_only_the_item_with_the_same_id_is_known_and_the_same_text_under_another_id_is_not():
    ours = [named("user", "hi", "a")]
    theirs = [named("user", "hi", "a", 0), named("user", "hi", "b", 1)]
    assert match(ours, theirs) == [0, None]
    assert list(reconcile(ours, theirs).add) == [1]


def test_an_id_counts_whatever_is_said_under_it():
    assert match([named("user", "/greet Ann", "a")], [named("user", "Hello Ann", "a")]) == [0]


def test_an_id_that_comes_again_is_another_item():
    ours = [named("tool", "Bash", "call-1")]
    theirs = [named("tool", "Bash", "call-1", 0), named("tool", "Bash", "call-1", 1)]
    assert match(ours, theirs) == [0, None]


def test_what_has_no_id_is_matched_by_content_without_regard_to_white_space_and_in_order():
    ours = [plain("user", "a"), plain("text", "one  two"), plain("user", "b", 1), plain("text", "done", 1)]
    theirs = [plain("user", "a "), plain("text", "one\ntwo"), plain("user", "b", 1), plain("text", "done", 1)]
    assert match(ours, theirs) == [0, 1, 2, 3]


def test_of_two_that_say_the_same_the_one_in_the_known_turn_is_matched():
    ours = [named("user", "second", "u2", 2), plain("text", "ok", 2)]
    theirs = [
        named("user", "first", "u1", 0), plain("text", "ok", 0),
        named("user", "second", "u2", 1), plain("text", "ok", 1),
    ]  # fmt: skip
    assert match(ours, theirs) == [None, None, 0, 1]
    assert list(reconcile(ours, theirs).add) == [0, 1]


def test_a_prompt_without_acknowledgement_is_known_by_its_words_and_completed():
    ours = [Item("user", "hello", 1, frozenset({"client"}), whole=False)]
    plan = reconcile(ours, [named("user", "hello", "theirs")])
    assert (list(plan.add), dict(plan.complete)) == ([], {0: 0})


def test_a_call_without_result_is_completed_and_one_with_a_result_is_left_alone():
    ours = [named("tool", "Bash", "c1", whole=False), named("tool", "Bash", "c2")]
    theirs = [named("tool", "Bash", "c1"), named("tool", "Bash", "c2")]
    assert dict(reconcile(ours, theirs).complete) == {0: 0}


def test_a_text_whose_rest_was_lost_is_completed_also_without_an_id():
    ours = [plain("user", "tell"), plain("text", "once upon", whole=False)]
    theirs = [plain("user", "tell"), plain("text", "once upon a time")]
    plan = reconcile(ours, theirs, frozenset({0}))
    assert (list(plan.add), dict(plan.complete)) == ([], {1: 1})


def test_a_prompt_that_went_along_with_context_just_before_a_crash_is_known():
    ours = [Item("user", "go  on", 4, frozenset({"client"}), whole=False)]
    theirs = [named("user", "the files have changed\n\ngo on", "u"), named("text", "I do", "m")]
    plan = reconcile(ours, theirs, frozenset({4}))
    assert (list(plan.add), dict(plan.complete)) == ([1], {0: 0})
    assert list(reconcile(ours, theirs).add) == [0, 1]  # one that was never delivered says nothing about theirs


def test_what_stands_between_known_items_was_told_in_another_way_and_is_left():
    ours = [named("user", "go", "u"), named("text", "end", "m2")]
    theirs = [named("user", "go", "u"), named("reasoning", "hidden", "m1"), named("text", "end", "m2")]
    assert list(reconcile(ours, theirs).add) == []


def test_the_end_of_a_turn_that_a_crash_cut_off_is_added():
    ours = [named("user", "go", "u", 7)]
    theirs = [named("user", "go", "u"), plain("text", "answer"), plain("notice", "n")]
    assert list(reconcile(ours, theirs, frozenset({7})).add) == [1, 2]
    assert list(reconcile(ours, theirs).add) == []


def test_what_the_provider_did_by_itself_behind_a_known_turn_is_added():
    ours = [named("user", "go", "u"), named("text", "started", "m1")]
    theirs = [*ours, named("tool", "task_notification", "t"), named("text", "it is done", "m2")]
    assert list(reconcile(ours, theirs).add) == [2, 3]


@pytest.mark.behaviour("P-236")
def test_everything_is_added_to_a_log_without_history():
    theirs = [named("user", "a", "u"), plain("notice", "n"), named("text", "b", "m"), plain("compaction", "", 1)]
    assert list(reconcile([], theirs).add) == [0, 1, 2, 3]


# --- properties ---------------------------------------------------------------------------

KINDS = ("user", "text", "reasoning", "tool", "notice", "todo")
contents = st.sampled_from(("yes", "ok", "go on", "a longer text", "yes ", "a longer text that goes on"))


@st.composite
def histories(draw: st.DrawFn, ids: bool | None = None) -> list[Item]:
    """A history: turns of items, with ids or without."""
    made: list[Item] = []
    for turn in range(draw(st.integers(0, 5))):
        for _ in range(draw(st.integers(1, 4))):
            kind = draw(st.sampled_from(KINDS))
            with_id = draw(st.booleans()) if ids is None else ids
            with_id = (with_id and kind not in ("notice", "todo")) or kind == "tool"
            ident = frozenset({f"id-{len(made)}"}) if with_id else frozenset()
            made.append(Item(kind, draw(contents), turn, ident, named=bool(ident)))
    return made


def carried_out(ours: list[Item], theirs: list[Item], unfinished: frozenset[int]) -> list[Item]:
    """Ours after what the plan says: what is missing stands at the end, what lacked its end has it."""
    plan = reconcile(ours, theirs, unfinished)
    after = list(ours)
    for place, mine in plan.complete.items():
        known, there = after[mine], theirs[place]
        content = there.content if known.kind in ("text", "reasoning") else known.content
        after[mine] = Item(known.kind, content, known.turn, known.ids | there.ids, there.named or known.named)
    base = max((item.turn for item in ours), default=0) + 1
    for place in plan.add:
        item = theirs[place]
        after.append(Item(item.kind, item.content, base + item.turn, item.ids, item.named, item.whole))
    return after


@st.composite
def parts(draw: st.DrawFn, theirs: list[Item]) -> tuple[list[Item], frozenset[int]]:
    """What a log may hold of a history: turns of it, some torn, and things that the history does not tell."""
    ours: list[Item] = []
    unfinished = set()
    turns = sorted({item.turn for item in theirs})
    for number, turn in enumerate(turn for turn in turns if draw(st.booleans())):
        items = [item for item in theirs if item.turn == turn]
        if draw(st.booleans()):
            items = items[: draw(st.integers(0, len(items)))]
            unfinished.add(number)
        for item in items:
            forgets = draw(st.booleans()) and item.kind != "tool"
            ids = frozenset() if forgets else item.ids
            torn = item.kind in ("text", "tool") and number in unfinished and draw(st.booleans())
            content = item.content[:4] if torn and item.kind == "text" else item.content
            ours.append(Item(item.kind, content, number, ids, bool(ids), not torn))
        if draw(st.booleans()):
            ours.append(Item("notice", "only live", number))
    return ours, frozenset(unfinished)


@given(st.data())
@settings(max_examples=500)
def test_carrying_a_plan_out_leaves_nothing_to_do(data: st.DataObject) -> None:
    theirs = data.draw(histories())
    ours, unfinished = data.draw(parts(theirs))
    after = carried_out(ours, theirs, unfinished)
    again = reconcile(after, theirs, unfinished)
    assert list(again.add) == []
    assert dict(again.complete) == {}


@given(st.data())
@settings(max_examples=300)
def test_no_item_of_ours_is_matched_twice_and_kinds_and_ids_agree(data: st.DataObject) -> None:
    theirs, ours = data.draw(histories()), data.draw(histories())
    found = match(ours, theirs)
    pairs = [(place, mine) for place, mine in enumerate(found) if mine is not None]
    assert len({mine for _, mine in pairs}) == len(pairs)
    for place, mine in pairs:
        there, here = theirs[place], ours[mine]
        assert there.kind == here.kind
        assert there.ids & here.ids or (there.key == here.key and not (there.named and here.named))


@given(st.data())
@settings(max_examples=300)
def test_a_log_that_holds_a_prefix_of_whole_turns_is_given_exactly_the_rest(data: st.DataObject) -> None:
    theirs = data.draw(histories(ids=data.draw(st.booleans())))
    stop = data.draw(st.integers(0, 5))
    ours = [item for item in theirs if item.turn < stop]
    rest = [place for place, item in enumerate(theirs) if item.turn >= stop]
    assert list(reconcile(ours, theirs).add) == rest


@given(histories())
def test_a_log_that_holds_the_whole_history_is_given_nothing(theirs: list[Item]) -> None:
    assert match(theirs, theirs) == list(range(len(theirs)))
    assert reconcile(theirs, theirs).add == []


def test_thousands_of_items_that_say_the_same_take_no_time():
    theirs = [plain("text", "ok", turn) for turn in range(5_000)]
    assert list(reconcile(theirs[1:], theirs).add) == [4_999]
