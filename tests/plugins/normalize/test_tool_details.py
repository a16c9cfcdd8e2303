"""Recorded tool calls become details that a client can draw."""

from __future__ import annotations

import json
from typing import Any

import pytest

from greenroom.providers import (
    EditDetail,
    PlanDetail,
    ReadDetail,
    SearchDetail,
    ShellDetail,
    SubAgentDetail,
    TextDetail,
    WebFetchDetail,
    WebResult,
    WriteDetail,
)
from greenroom_normalize import TABLE, normalize_tool_call


def detail(name: str, call: tuple[Any, Any]) -> Any:
    return normalize_tool_call("any", name, *call)


@pytest.mark.behaviour("P-480")
@pytest.mark.parametrize("folder", ["claude", "claude-2.1.197"])
class TestFirstFamily:
    def test_a_command_and_its_output(self, recorded, folder) -> None:
        found = detail("Bash", recorded.claude_call(f"{folder}/hooks", "Bash"))
        assert found == ShellDetail("echo hi", output="hi")

    def test_a_running_command(self, recorded, folder) -> None:
        given, _ = recorded.claude_call(f"{folder}/hooks", "Bash")
        assert detail("Bash", (given, None)) == ShellDetail("echo hi")

    def test_a_read_file_has_no_line_numbers(self, recorded, folder) -> None:
        found = detail("Read", recorded.claude_call(f"{folder}/file_tools", "Read"))
        assert found == ReadDetail("/workspace/hello.py", content="def hi():\n    return 1\n")

    def test_a_read_is_enriched_by_its_result(self, recorded, folder) -> None:
        given, output = recorded.claude_call(f"{folder}/file_tools", "Read")
        assert detail("Read", (given, None)).content is None
        assert detail("Read", (given, "1\tdef hi():\n2\t    return 1\n3\t")).content == output["file"]["content"]

    def test_a_written_file(self, recorded, folder) -> None:
        found = detail("Write", recorded.claude_call(f"{folder}/file_tools", "Write"))
        assert found == WriteDetail("/workspace/hello.py", content="def hi():\n    return 1\n")

    def test_an_edit_has_old_new_and_a_diff(self, recorded, folder) -> None:
        found = detail("Edit", recorded.claude_call(f"{folder}/file_tools", "Edit"))
        diff = "@@ -1,2 +1,2 @@\n def hi():\n-    return 1\n+    return 2"
        assert found == EditDetail("/workspace/hello.py", old="return 1", new="return 2", diff=diff)

    def test_a_grep_has_its_lines(self, recorded, folder) -> None:
        found = detail("Grep", recorded.claude_call(f"{folder}/file_tools", "Grep"))
        assert found == SearchDetail("return", "grep", content="hello.py:2:    return 2", matches=1)

    def test_a_glob_has_its_files(self, recorded, folder) -> None:
        found = detail("Glob", recorded.claude_call(f"{folder}/file_tools", "Glob"))
        assert found == SearchDetail("**/*.py", "glob", paths=("hello.py",), matches=1, truncated=False)

    def test_a_todo_list_is_a_labelled_text(self, recorded, folder) -> None:
        found = detail("TodoWrite", recorded.claude_call(f"{folder}/todo_write", "TodoWrite"))
        assert found == TextDetail("Todo", text="- [~] Look\n- [ ] Leap", icon="pencil")

    def test_delegated_work(self, recorded, folder) -> None:
        found = detail("Agent", recorded.claude_call(f"{folder}/subagent", "Agent"))
        assert isinstance(found, SubAgentDetail)
        assert (found.description, found.agent_type) == ("Count files", "general-purpose")
        assert found.child_id

    def test_a_tool_over_mcp_is_nobodys_guess(self, recorded, folder) -> None:
        assert detail("mcp__host__add", recorded.claude_call(f"{folder}/mcp_sdk_server", "mcp__host__add")) is None


@pytest.mark.behaviour("P-480")
def test_a_proposed_plan(recorded) -> None:
    found = detail("ExitPlanMode", recorded.claude_call("claude/plan_mode", "ExitPlanMode"))
    assert found == PlanDetail("# Plan\n1. Write a.txt")


@pytest.mark.behaviour("P-480")
@pytest.mark.parametrize(
    ("name", "given", "output", "expected"),
    [
        ("WebSearch", {"query": "q"}, {"results": [{"content": [{"title": "T", "url": "http://u"}]}, "and text"]},
         SearchDetail("q", "web_search", web_results=(WebResult("T", "http://u"),))),
        ("web_search", {"query": "q"}, [{"title": "T", "url": "http://u"}],
         SearchDetail("q", "web_search", web_results=(WebResult("T", "http://u"),))),
        ("WebFetch", {"url": "http://u", "prompt": "p"}, {"code": 200, "result": "page", "bytes": 4},
         WebFetchDetail("http://u", prompt="p", result="page", status=200)),
        ("webfetch", {"url": "http://u"}, "page", WebFetchDetail("http://u", result="page")),
        ("Skill", {"skill": "pdf"}, None, TextDetail("pdf", icon="sparkles")),
        ("search", {"query": "x"}, "a.py:1: x", SearchDetail("x", content="a.py:1: x")),
        ("shell", {"command": ["ls", "-l"], "cwd": "/p"}, {"output": "x", "exit_code": 2},
         ShellDetail("ls -l", cwd="/p", output="x", exit_code=2)),
        ("read_file", {"filePath": "a", "offset": 3, "limit": 9}, [{"type": "text", "text": "hi"}],
         ReadDetail("a", content="hi", offset=3, limit=9)),
        ("create_file", {"filename": "a", "file_text": "x"}, None, WriteDetail("a", content="x")),
        ("MultiEdit", {"file_path": "a", "edits": [{"old_string": "1", "new_string": "2"}]}, None,
         EditDetail("a", old="1", new="2")),
        ("str_replace_editor", {"path": "a", "old_str": "1", "new_str": "2"}, None, EditDetail("a", old="1", new="2")),
        ("apply_diff", {"path": "a", "diff": "@@ -1 +1 @@\n-a\n+b"}, None, EditDetail("a", diff="@@ -1 +1 @@\n-a\n+b")),
        ("Grep", {"pattern": "x"}, {"content": [{"type": "text", "text": "f:1:x"}]},
         SearchDetail("x", "grep", content="f:1:x")),
    ],
)  # fmt: skip
def test_other_spellings(name, given, output, expected) -> None:
    assert normalize_tool_call("any", name, given, output) == expected


@pytest.mark.behaviour("P-462")
def test_a_grep_that_answers_a_string_has_it_as_content(recorded) -> None:
    given, output = recorded.claude_call("claude/file_tools", "Grep")
    assert detail("Grep", (given, output["content"])).content == "hello.py:2:    return 2"
    assert detail("Grep", (given, {"output": output["content"]})).content == "hello.py:2:    return 2"


class TestSecondFamily:
    def test_a_command_is_taken_out_of_its_shell(self, recorded) -> None:
        found = detail("commandExecution", recorded.codex_call("codex/auto_compact.jsonl", "commandExecution"))
        assert found == ShellDetail("echo a", cwd="/workspace/project", output="a\n", exit_code=0)

    def test_the_envelope_of_a_rollout_is_taken_off(self, recorded) -> None:
        found = detail("exec_command", recorded.codex_call("codex_rollouts/exec_approval_accept.jsonl", "exec_command"))
        assert found == ShellDetail("touch approved.txt && echo touched", output="touched\n", exit_code=0)

    def test_a_command_that_still_runs_has_no_exit_status(self, recorded) -> None:
        source = "codex_rollouts/background_left_running.jsonl"
        found = detail("exec_command", recorded.codex_call(source, "exec_command"))
        assert found == ShellDetail("echo up; sleep 20", output="up\n")

    def test_an_input_that_is_no_json_gives_no_detail(self, recorded) -> None:
        assert (
            detail("exec_command", recorded.codex_call("codex_rollouts/error_bad_tool.jsonl", "exec_command")) is None
        )

    def test_one_added_file_is_a_write(self, recorded) -> None:
        found = detail("fileChange", recorded.codex_call("codex/code_mode.jsonl", "fileChange"))
        assert found == WriteDetail("/workspace/project/notes.md", content="# Notes\none\ntwo\n")

    def test_several_files_are_one_edit_that_names_them_all(self, recorded) -> None:
        found = detail("fileChange", recorded.codex_call("codex/patch_approval_accept.jsonl", "fileChange"))
        assert found.path == "/workspace/project/docs/readme.md, /workspace/project/hello.py"
        assert found.diff == (
            "--- /dev/null\n+++ b//workspace/project/docs/readme.md\n+hi\n"
            "--- a//workspace/project/hello.py\n+++ b//workspace/project/hello.py\n"
            "@@ -1 +1,2 @@\n-print('hello')\n+print('hello, world')\n+print('bye')"
        )

    def test_a_patch_envelope_is_converted(self, recorded) -> None:
        source = "codex_rollouts/patch_approval_session.jsonl"
        found = detail("apply_patch", recorded.codex_call(source, "apply_patch"))
        assert found == EditDetail("hello.py", diff="--- a/hello.py\n+++ b/hello.py\n@@\n-print('bye')\n+print('bye!')")

    def test_a_patch_envelope_that_adds_one_file_is_a_write(self, recorded) -> None:
        found = detail("apply_patch", recorded.codex_call("codex_rollouts/nosandbox.jsonl", "apply_patch"))
        assert found == WriteDetail("n.md", content="x\n")

    def test_deleted_and_moved_files_are_reported(self, recorded) -> None:
        found = detail("apply_patch", recorded.codex_call("codex_rollouts/patch_delete_move.jsonl", "apply_patch"))
        assert found.path == "notes.md, hello.py, hello.py"
        assert "rename to notes2.md" in found.diff
        assert "--- a/hello.py\n+++ /dev/null" in found.diff

    def test_a_plan_is_a_labelled_text(self, recorded) -> None:
        found = detail("update_plan", recorded.codex_call("codex_rollouts/plan_update.jsonl", "update_plan"))
        assert found == TextDetail("Todo", text="- [~] Look\n- [ ] Fix", icon="pencil")

    def test_a_picture_is_a_read(self, recorded) -> None:
        found = detail("view_image", recorded.codex_call("codex_rollouts/images.jsonl", "view_image"))
        assert found == ReadDetail("pic.png", content="[image]")

    def test_a_spawned_agent_is_delegated_work(self, recorded) -> None:
        found = detail("spawn_agent", recorded.codex_call("codex_rollouts/subagents.0.jsonl", "spawn_agent"))
        assert (found.description, found.agent_type) == ("CHILD TASK: say hi", "default")

    @pytest.mark.parametrize("name", ["stub.add", "stub.fail", "get_weather", "write_stdin"])
    def test_tools_nobody_knows_stay_as_they_are(self, recorded, name) -> None:
        rows = map(json.loads, recorded.CODEX.read_text().splitlines())
        row = next(row for row in rows if row["name"] == name)
        assert detail(name, (row["input"], row["output"])) is None

    @pytest.mark.behaviour("P-487")
    def test_changes_by_path_and_other_spellings(self) -> None:
        changes = {"a.py": {"type": "update", "unified_diff": "@@ -1 +1 @@\n-x\n+y\n"}}
        expected = EditDetail("a.py", diff="--- a/a.py\n+++ b/a.py\n@@ -1 +1 @@\n-x\n+y")
        assert normalize_tool_call("any", "fileChange", {"changes": changes}, None) == expected
        listed = [{"file_path": "a.py", "patch": "@@ -1 +1 @@\n-x\n+y\n"}]
        assert normalize_tool_call("any", "fileChange", {"changes": listed}, None) == expected

    def test_a_change_of_which_only_the_path_is_known_is_no_edit(self) -> None:
        assert normalize_tool_call("any", "fileChange", {"changes": [{"path": "a"}]}, None) is None

    def test_a_deleted_file_with_and_without_its_content(self) -> None:
        change = {"path": "a", "kind": {"type": "delete"}}
        gone = normalize_tool_call("any", "fileChange", {"changes": [change]}, None)
        assert gone == EditDetail("a", diff="--- a/a\n+++ /dev/null")
        told = normalize_tool_call("any", "fileChange", {"changes": [{**change, "diff": "x\ny\n"}]}, None)
        assert told == EditDetail("a", diff="--- a/a\n+++ /dev/null\n-x\n-y")

    def test_a_long_diff_is_cut_with_a_marker(self) -> None:
        change = {"path": "a", "diff": "@@ -1 +1 @@\n" + "+x\n" * 9_000}
        found = normalize_tool_call("any", "fileChange", {"changes": [change]}, None)
        assert isinstance(found, EditDetail)
        assert found.diff is not None
        assert len(found.diff) <= 12_000
        assert found.diff.endswith("more characters]")

    def test_a_reader_over_mcp_with_parts_is_a_read(self) -> None:
        output = {"content": [{"type": "text", "text": "hi"}]}
        assert normalize_tool_call("any", "files.read_file", {"path": "a"}, output) == ReadDetail("a", content="hi")


@pytest.mark.parametrize("name", sorted(TABLE))
@pytest.mark.parametrize("junk", [None, 7, "x", [], {}, [None], {"path": 3, "command": {}, "todos": [1], "changes": 4}])
def test_no_input_and_no_output_makes_a_rule_raise(name, junk) -> None:
    for other in (None, "x", {}, [{"content": 3}], {"file": 1, "filenames": [2], "structuredPatch": [{"lines": [1]}]}):
        normalize_tool_call("any", name, junk, other)
        normalize_tool_call("any", name, other, junk)


def test_a_name_that_is_not_in_the_table_has_no_detail() -> None:
    assert normalize_tool_call("any", "Cook", {"dish": "soup"}, None) is None
