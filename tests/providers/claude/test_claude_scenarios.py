"""The real binary behind host, driver and companion: what a person does with one agent."""

from __future__ import annotations

import json
from pathlib import Path

import anyio
import pytest
from claude_rig import NOTHING_ASKED, hosted
from stub_anthropic import Stub, thinking, tool_use, turn
from stub_anthropic import text as says

from greenroom import providers as p
from greenroom.agents import Canceled, TurnFailed
from greenroom.sessions import Message
from greenroom.sessions.vocabulary import Attachment, Image, Text, UserSource
from greenroom_claude import ClaudeSettings

pytestmark = [pytest.mark.asyncio, pytest.mark.timeout(60)]
TOUCH = tool_use("Bash", {"command": "touch made.txt", "description": "Make a file"})
WAIT = "python3 -c 'import time; time.sleep({})'; echo waited"
PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="


def wait(seconds: float, **more: object) -> dict:
    return tool_use("Bash", {"command": WAIT.format(seconds), "description": "Wait", **more})


def sent(rig) -> str:
    """What the model was given last."""
    return json.dumps(rig.stub.messages()[-1]["messages"])


class TestTurns:
    @pytest.mark.behaviour("P-440", "P-467")
    async def test_a_prompt_is_answered_in_one_turn(self, tmp_path: Path) -> None:
        async with hosted(tmp_path, turn(thinking("Hm."), says("Hello from the loopback."))) as rig:
            await rig.create()
            result = await rig.agent.run("Hi")
            assert (result.text, result.reason.kind) == ("Hello from the loopback.", "completed")
            assert result.usage.context_used > 0
            assert len(rig.of("user/message")) == len(rig.of("user/acknowledged")) == 1
            assert rig.of("provider/session")[0].data.native_id == rig.live.handle.native_id

    @pytest.mark.behaviour("P-442", "P-445")
    async def test_after_each_of_ten_turns_the_agent_is_at_rest(self, tmp_path: Path) -> None:
        async with hosted(tmp_path, *(turn(says(f"answer {n}")) for n in range(10))) as rig:
            await rig.create()
            process = rig.process
            for number in range(10):
                assert (await rig.agent.run(f"question {number}")).text == f"answer {number}"
                await rig.agent.when_idle()
                assert (rig.agent.status, rig.live._translator.open_turn) == ("idle", None)
            assert rig.process is process
            assert len({event.data.provider_turn for event in rig.of("turn/accepted")}) == 10

    async def test_two_prompts_in_a_row_are_two_turns_in_order(self, tmp_path: Path) -> None:
        async with hosted(tmp_path, turn(says("one")), turn(says("two"))) as rig:
            await rig.create()
            rig.agent.followup("first")
            rig.agent.followup("second")
            await rig.agent.when_idle()
            assert rig.texts() == ["one", "two"]
            assert rig.reasons() == ["completed", "completed"]

    async def test_thinking_is_logged_as_reasoning(self, tmp_path: Path) -> None:
        async with hosted(tmp_path, turn(thinking("Twelve is a fine number."), says("12"))) as rig:
            await rig.create()
            await rig.agent.run("A number")
            assert "".join(e.data.text for e in rig.of("assistant/reasoning")) == "Twelve is a fine number."

    async def test_an_image_and_an_attachment_reach_the_model(self, tmp_path: Path) -> None:
        parts = (Image("image/png", PIXEL), Attachment("file", "notes.txt", "Remember the milk."), Text("See these"))
        async with hosted(tmp_path, turn(says("Seen."))) as rig:
            await rig.create()
            await rig.agent.run(Message("11111111-1111-4111-8111-111111111111", parts, UserSource()))
            assert PIXEL[:40] in sent(rig)
            assert "Remember the milk." in sent(rig)

    async def test_half_an_emoji_in_an_answer_breaks_nothing(self, tmp_path: Path) -> None:
        async with hosted(tmp_path, turn(says("cut \ud83d here"), chunk=20)) as rig:
            await rig.create()
            assert (await rig.agent.run("Hi")).text == "cut \ufffd here"

    async def test_context_that_was_injected_goes_before_the_prompt(self, tmp_path: Path) -> None:
        async with hosted(tmp_path, turn(says("Ok."))) as rig:
            await rig.create()
            rig.agent.inject("The build is red.", plugin="ci")
            await rig.agent.run("What now?")
            assert sent(rig).index("The build is red.") < sent(rig).index("What now?")

    async def test_an_answer_that_is_cut_at_its_limit_says_so(self, tmp_path: Path) -> None:
        async with hosted(tmp_path, *[turn(says("And then"), stop_reason="max_tokens")] * 8) as rig:
            await rig.create()
            with pytest.raises(TurnFailed, match=r"exceeded the .* output token maximum"):
                await rig.agent.run("Go on")

    async def test_the_limit_of_an_answer_is_told_to_the_model(self, tmp_path: Path) -> None:
        async with hosted(tmp_path, turn(says("Ok."))) as rig:
            await rig.create(max_output_tokens=1234)
            await rig.agent.run("Hi")
            assert rig.stub.messages()[-1]["max_tokens"] == 1234

    @pytest.mark.parametrize("command", ["/context", "/compact", "/clear"])
    async def test_a_slash_command_is_a_turn_that_ends(self, tmp_path: Path, command: str) -> None:
        async with hosted(tmp_path, turn(says("Hello.")), turn(says("A summary."))) as rig:
            await rig.create()
            await rig.agent.run("Hi")
            await rig.agent.stream(command).finish()
            await rig.agent.when_idle()
            assert len(rig.of("turn/end")) == 2


class TestTools:
    async def test_a_call_is_asked_for_run_and_logged_with_its_detail(self, tmp_path: Path) -> None:
        async with hosted(tmp_path, turn(TOUCH), turn(says("Made."))) as rig:
            await rig.create()
            rig.agent.followup("Make a file")
            asked = await rig.answer()
            await rig.agent.when_idle()
            assert (rig.box.cwd / "made.txt").exists()
            (result,) = rig.of("tool/result")
            assert (result.data.status, result.data.detail.command) == ("completed", "touch made.txt")
            assert asked.call_id == result.data.call_id
            assert rig.of("permission/answered")[0].data.by == "user"

    async def test_a_denied_call_is_not_run_and_the_model_hears_why(self, tmp_path: Path) -> None:
        async with hosted(tmp_path, turn(TOUCH), turn(says("Then not."))) as rig:
            await rig.create()
            rig.agent.followup("Make a file")
            await rig.answer(p.PermissionDeny(message="Files are holy."))
            await rig.agent.when_idle()
            assert not (rig.box.cwd / "made.txt").exists()
            assert "Files are holy." in sent(rig)
            assert rig.reasons() == ["completed"]

    async def test_a_denial_that_interrupts_ends_the_turn(self, tmp_path: Path) -> None:
        async with hosted(tmp_path, turn(TOUCH), turn(says("Next."))) as rig:
            await rig.create()
            rig.agent.followup("Make a file")
            await rig.answer(p.PermissionDeny(message="Stop.", interrupt=True))
            await rig.agent.when_idle()
            assert rig.reasons() == ["aborted"]
            assert (await rig.agent.run("And now?")).reason.kind == "completed"

    async def test_an_answer_may_rewrite_the_input(self, tmp_path: Path) -> None:
        async with hosted(tmp_path, turn(TOUCH), turn(says("Made."))) as rig:
            await rig.create()
            rig.agent.followup("Make a file")
            await rig.answer(p.PermissionAllow(updated_input={"command": "touch other.txt", "description": "x"}))
            await rig.agent.when_idle()
            assert (rig.box.cwd / "other.txt").exists()
            assert not (rig.box.cwd / "made.txt").exists()

    async def test_what_is_to_be_remembered_is_not_asked_again(self, tmp_path: Path) -> None:
        other = tool_use("Bash", {"command": "touch made2.txt", "description": "Make another"})
        async with hosted(tmp_path, turn(TOUCH), turn(other), turn(says("Made."))) as rig:
            await rig.create()
            rig.agent.followup("Make files")
            rule = {"type": "addRules", "rules": [{"toolName": "Bash", "ruleContent": "touch:*"}],
                    "behavior": "allow", "destination": "session"}  # fmt: skip
            await rig.answer(p.PermissionAllow(updated_permissions=(rule,)))
            await rig.agent.when_idle()
            assert (rig.box.cwd / "made2.txt").exists()
            assert len(rig.of("permission/asked")) == 1

    async def test_a_question_of_the_model_gets_its_answer(self, tmp_path: Path) -> None:
        options = [{"label": "Red", "description": "Warm"}, {"label": "Blue", "description": "Cool"}]
        question = {"question": "Which colour?", "header": "Colour", "options": options, "multiSelect": False}
        ask = tool_use("AskUserQuestion", {"questions": [question]})
        async with hosted(tmp_path, turn(ask), turn(says("Blue it is."))) as rig:
            await rig.create()
            rig.agent.followup("Paint it")
            asked = await rig.asked()
            assert asked.kind == "question"
            with pytest.raises(p.ProviderError, match="Size"):
                await rig.agent.respond(asked.id, p.PermissionAllow(updated_input={"answers": {"Size": "S"}}))
            await rig.answer(p.PermissionAllow(updated_input={"answers": {"Colour": "Blue"}}))
            await rig.agent.when_idle()
            assert "Which colour?" in sent(rig)
            assert "Blue" in rig.of("tool/result")[0].data.output

    async def test_a_plan_that_is_accepted_lets_it_edit(self, tmp_path: Path) -> None:
        leave = tool_use("ExitPlanMode", {"plan": "# Plan\n1. Write a.txt"})
        write = tool_use("Write", {"file_path": str(tmp_path / "ws" / "a.txt"), "content": "a"})
        async with hosted(tmp_path, turn(leave), turn(write), turn(says("Done."))) as rig:
            await rig.create(mode="plan")
            rig.agent.followup("Plan it, then do it")
            asked = await rig.asked()
            assert asked.kind == "plan"
            assert [action.id for action in asked.actions] == ["reject", "implement"]
            await rig.answer(p.PermissionAllow(action="implement"))
            await rig.agent.when_idle()
            assert (rig.box.cwd / "a.txt").read_text() == "a"
            assert rig.agent.session.state.config.mode == "acceptEdits"

    async def test_a_plan_that_is_rejected_keeps_it_planning(self, tmp_path: Path) -> None:
        leave = tool_use("ExitPlanMode", {"plan": "# Plan"})
        async with hosted(tmp_path, turn(leave), turn(says("I think again."))) as rig:
            await rig.create(mode="plan")
            rig.agent.followup("Plan it")
            await rig.answer(p.PermissionDeny(message="Too short.", action="reject"))
            await rig.agent.when_idle()
            assert "Too short." in sent(rig)
            assert rig.agent.session.state.config.mode == "plan"

    async def test_a_failing_command_is_a_failed_call_of_a_turn_that_completes(self, tmp_path: Path) -> None:
        fail = tool_use("Bash", {"command": "echo oops; exit 3", "description": "Fail"})
        async with hosted(tmp_path, turn(fail), turn(says("It failed.")), env=NOTHING_ASKED) as rig:
            await rig.create(mode="bypassPermissions")
            await rig.agent.run("Try")
            (result,) = rig.of("tool/result")
            assert result.data.status == "failed"
            assert "oops" in result.data.error

    async def test_tasks_are_a_todo_list(self, tmp_path: Path) -> None:
        create = tool_use("TaskCreate", {"subject": "Sweep", "description": "Sweep the floor"})
        chosen = ClaudeSettings(arguments=("--tools", "Bash,TaskCreate"))
        async with hosted(tmp_path, turn(create), turn(says("Listed.")), settings=chosen) as rig:
            await rig.create()
            await rig.agent.run("List it")
            assert [item.text for item in rig.of("todo/write")[-1].data.items] == ["Sweep"]

    async def test_a_frame_of_two_megabytes_arrives(self, tmp_path: Path) -> None:
        content = "0123456789" * 200_000
        write = tool_use("Write", {"file_path": str(tmp_path / "ws" / "big.txt"), "content": content})
        async with hosted(tmp_path, turn(write, chunk=100_000), turn(says("Written."))) as rig:
            await rig.create(mode="acceptEdits")
            await rig.agent.run("Write much")
            assert (rig.box.cwd / "big.txt").stat().st_size == 2_000_000
            assert rig.of("tool/result")[0].data.status == "completed"

    async def test_a_sub_agent_reports_into_its_call(self, tmp_path: Path) -> None:
        call = tool_use("Agent", {"description": "Count", "prompt": "Count the files.", "subagent_type": "Explore",
                                  "run_in_background": False})  # fmt: skip
        lanes = {"main": [turn(call), turn(says("None."))], "agent": [turn(says("There are 0 files."))]}
        async with hosted(tmp_path, stub=Stub(lanes)) as rig:
            await rig.create()
            await rig.agent.run("Count")
            first = rig.of("subagent/upserted")[0].data
            assert first.agent_type == "Explore"
            assert any("0 files" in repr(event.data) for event in rig.of("subagent/item"))
            assert rig.of("tool/result")[0].data.detail.child_id == first.child_id


class TestFromOutside:
    @pytest.mark.behaviour("P-444", "P-451")
    async def test_a_cancel_ends_the_turn_and_the_process_goes_on(self, tmp_path: Path) -> None:
        async with hosted(tmp_path, turn(says("A long answer. " * 50), hang=3), turn(says("Still here."))) as rig:
            await rig.create()
            process = rig.process
            rig.agent.followup("Tell me something long")
            await rig.logged("assistant/message")
            assert await rig.agent.cancel() is Canceled.SETTLED
            assert (await rig.agent.run("Still here?")).text == "Still here."
            assert rig.reasons() == ["aborted", "completed"]
            assert rig.process is process

    async def test_a_cancel_withdraws_the_question_that_is_open(self, tmp_path: Path) -> None:
        async with hosted(tmp_path, turn(TOUCH), turn(says("Fine."))) as rig:
            await rig.create()
            rig.agent.followup("Make a file")
            await rig.asked()
            assert await rig.agent.cancel() is Canceled.SETTLED
            assert [event.data.by for event in rig.of("permission/answered")] == ["system"]
            assert not rig.agent.questions
            assert (await rig.agent.run("Next")).reason.kind == "completed"

    async def test_a_cancel_in_a_tool_call_ends_the_tool(self, tmp_path: Path) -> None:
        async with hosted(tmp_path, turn(wait(60)), turn(says("Fine.")), env=NOTHING_ASKED) as rig:
            await rig.create(mode="bypassPermissions")
            rig.agent.followup("Wait")
            await rig.logged("tool/call")
            assert await rig.agent.cancel() is Canceled.SETTLED
            assert rig.of("tool/result")[0].data.status in {"canceled", "unknown"}
            assert (await rig.agent.run("Next")).text == "Fine."

    async def test_a_cancel_at_rest_does_nothing(self, tmp_path: Path) -> None:
        async with hosted(tmp_path, turn(says("Fine."))) as rig:
            await rig.create()
            assert await rig.agent.cancel() is Canceled.NOT_RUNNING
            assert (await rig.agent.run("Hi")).text == "Fine."

    async def test_a_prompt_that_replaces_ends_the_running_turn(self, tmp_path: Path) -> None:
        async with hosted(tmp_path, turn(says("A long answer. " * 50), hang=3), turn(says("The new one."))) as rig:
            await rig.create()
            rig.agent.followup("Tell me something long")
            await rig.logged("assistant/message")
            await rig.agent.replace("Something else")
            await rig.agent.when_idle()
            assert rig.reasons() == ["aborted", "completed"]
            assert rig.texts()[-1] == "The new one."

    async def test_a_message_joins_the_running_turn(self, tmp_path: Path) -> None:
        async with hosted(tmp_path, turn(wait(1)), turn(says("I saw your note.")), env=NOTHING_ASKED) as rig:
            await rig.create(mode="bypassPermissions")
            rig.agent.followup("Wait a little")
            await rig.logged("tool/call")
            assert await rig.agent.steer("By the way: be brief.") == "accepted"
            await rig.agent.when_idle()
            assert "By the way: be brief." in sent(rig)
            assert rig.reasons() == ["completed"]
            assert len(rig.of("steering/message")) == 1
            assert len(rig.of("user/acknowledged")) == 2

    async def test_a_message_that_came_too_late_opens_a_turn_and_is_shown_once(self, tmp_path: Path) -> None:
        slow = turn(says("A slow answer of some words."), chunk=4, delay=0.1)
        async with hosted(tmp_path, slow, turn(says("To your note."))) as rig:
            await rig.create()
            rig.agent.followup("Slowly")
            await rig.logged("assistant/message")
            assert await rig.agent.steer("One more thing") == "accepted"
            await rig.until(lambda: "To your note." in rig.texts())
            await rig.agent.when_idle()
            said = [*rig.of("user/message"), *rig.of("steering/message")]
            assert sum("One more thing" in repr(event.data) for event in said) == 1

    async def test_another_model_between_turns_leaves_nothing_running(self, tmp_path: Path) -> None:
        async with hosted(tmp_path, turn(says("1")), turn(says("2"))) as rig:
            await rig.create()
            await rig.agent.run("Hi")
            await rig.agent.set_model("haiku")
            await rig.logged("notice")
            assert (rig.agent.status, len(rig.of("turn/start"))) == ("idle", 1)
            await rig.agent.run("Hi")
            assert "haiku" in rig.stub.messages()[-1]["model"]
            assert rig.agent.session.state.config.model == "haiku"

    async def test_another_mode_changes_what_is_asked(self, tmp_path: Path) -> None:
        write = tool_use("Write", {"file_path": str(tmp_path / "ws" / "a.txt"), "content": "a"})
        async with hosted(tmp_path, turn(write), turn(says("Done."))) as rig:
            await rig.create()
            await rig.agent.set_mode("acceptEdits")
            await rig.agent.run("Write")
            assert not rig.of("permission/asked")
            assert (rig.box.cwd / "a.txt").exists()

    async def test_a_mode_that_does_not_exist_is_refused(self, tmp_path: Path) -> None:
        async with hosted(tmp_path) as rig:
            await rig.create()
            with pytest.raises(p.ProviderError):
                await rig.agent.set_mode("reckless")

    async def test_a_level_of_thinking_reaches_the_model(self, tmp_path: Path) -> None:
        async with hosted(tmp_path, turn(says("1")), turn(says("2"))) as rig:
            await rig.create()
            await rig.agent.set_thinking("low")
            await rig.agent.run("Hi")
            assert rig.stub.messages()[-1]["output_config"]["effort"] == "low"
            await rig.agent.set_thinking(None)
            await rig.agent.run("Hi")
            assert rig.stub.messages()[-1]["output_config"]["effort"] != "low"

    @pytest.mark.behaviour("P-476")
    async def test_the_command_rewind_takes_files_back_to_the_last_message(self, tmp_path: Path) -> None:
        write = tool_use("Write", {"file_path": str(tmp_path / "ws" / "a.txt"), "content": "new"})
        async with hosted(tmp_path, turn(says("Hello.")), turn(write), turn(says("Done."))) as rig:
            await rig.create(mode="acceptEdits")
            await rig.agent.run("Hi")
            await rig.agent.run("Write")
            assert (rig.box.cwd / "a.txt").exists()
            await rig.agent.run("/rewind")
            assert not (rig.box.cwd / "a.txt").exists()
            assert rig.of("turn/start")[-1].data.trigger.kind == "command"
            assert rig.of("notice")[-1].data.code == "rewound"
            assert "rewind" in [c.name for c in (await rig.provider.catalogue(cwd=rig.box.cwd)).commands]

    async def test_two_agents_know_nothing_of_each_other(self, tmp_path: Path) -> None:
        said = {}

        async def talk(name: str) -> None:
            async with hosted(tmp_path / name, turn(says(f"I am {name}."))) as rig:
                await rig.create()
                said[name] = (await rig.agent.run("Who are you?")).text

        async with anyio.create_task_group() as tasks:
            for name in ("one", "two"):
                tasks.start_soon(talk, name)
        assert said == {"one": "I am one.", "two": "I am two."}


class TestBackground:
    @pytest.mark.behaviour("P-443", "P-455")
    async def test_a_job_that_ends_after_the_turn_opens_one_of_the_agents_own(self, tmp_path: Path) -> None:
        turns = [turn(wait(0.4, run_in_background=True)), turn(says("Started.")), turn(says("The job ended."))]
        async with hosted(tmp_path, *turns, env=NOTHING_ASKED) as rig:
            await rig.create(mode="bypassPermissions")
            await rig.agent.run("Run it in the background")
            assert [work.description for work in rig.live.background()] == ["Wait"]
            await rig.logged("turn/end", count=2)
            await rig.agent.when_idle()
            assert [event.data.trigger.kind for event in rig.of("turn/start")] == ["message", "autonomous"]
            assert rig.texts()[-1] == "The job ended."
            assert (list(rig.live.background()), rig.agent.status) == ([], "idle")

    async def test_a_job_that_ends_while_a_prompt_is_written_does_not_end_its_turn(
        self, tmp_path: Path, soak_count
    ) -> None:
        tries = soak_count(20)
        for number in range(tries):
            turns = [turn(wait(0.4, run_in_background=True)), turn(says("Started.")),
                     turn(says("The job ended."), match="task-notification"),
                     turn(says("For your prompt."), match="Second prompt")]  # fmt: skip
            async with hosted(tmp_path / str(number), *turns, env=NOTHING_ASKED) as rig:
                await rig.create(mode="bypassPermissions")
                await rig.agent.run("Run it in the background")
                await anyio.sleep(0.3 + 0.3 * number / tries)  # before, while and after the job ends
                rig.agent.followup("Second prompt")
                await rig.until(lambda rig=rig: any("For your prompt." in said for said in rig.texts()))
                await rig.agent.when_idle()
                assert set(rig.reasons()) == {"completed"}

    async def test_a_sub_agent_in_the_background_may_ask_after_the_turn(self, tmp_path: Path) -> None:
        call = tool_use("Agent", {"description": "Make", "prompt": "Make a file.", "subagent_type": "general-purpose",
                                  "run_in_background": True})  # fmt: skip
        lanes = {
            "main": [turn(call), turn(says("Started.")), turn(says("The helper is done."))],
            "agent": [{**turn(TOUCH), "first_delay": 0.5}, turn(says("Made it."))],
        }
        async with hosted(tmp_path, stub=Stub(lanes)) as rig:
            await rig.create()
            await rig.agent.run("Let a helper do it")
            await rig.answer()
            await rig.until(lambda: "The helper is done." in rig.texts())
            await rig.agent.when_idle()
            assert (rig.box.cwd / "made.txt").exists()
            assert set(rig.reasons()) == {"completed"}
