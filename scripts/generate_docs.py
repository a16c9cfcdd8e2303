"""Write the reference pages that are derived from the source.

    uv run python scripts/generate_docs.py            # all of them
    uv run python scripts/generate_docs.py hooks      # one
    uv run python scripts/generate_docs.py --check    # write nothing; exit status 1 if one is stale

A page is a function of the source alone, so a test can compare it with what is committed.
"""

from __future__ import annotations

import argparse
import inspect
import re
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path

from generate_events import events_page

from greenroom import hookspecs
from greenroom._kinds import KINDS, Spec

DOCS = Path(__file__).resolve().parent.parent / "docs"

HOOKS_INTRO = """\
# Hooks

Generated from `greenroom.hookspecs` by `scripts/generate_docs.py hooks`; edit the specs, not this page.

A plugin implements a hook with a function of the same name, marked `@greenroom.hookimpl`. It
takes only the arguments that it names. The kind of a hook decides how it is called and what a
failure of one implementation means; the spec decides this, an implementation cannot soften it.

## Kinds

| kind | called | may be | time-out | a raise or time-out |
|---|---|---|---|---|
"""


def specs() -> list[tuple[Spec, Callable[..., object]]]:
    """Every hook in the order of the file, with the function that declares it."""
    found = [
        (spec, function)
        for function in vars(hookspecs).values()
        if isinstance(spec := getattr(function, hookspecs.SPEC_ATTRIBUTE, None), Spec)
    ]
    return sorted(found, key=lambda pair: pair[1].__code__.co_firstlineno)


def hooks_page() -> str:
    """Return docs/hooks.md."""
    kinds = "".join(
        f"| {kind} | {rules.called} | {rules.colour} | {seconds(rules.timeout)} | {rules.on_failure} |\n"
        for kind, rules in KINDS.items()
    )
    return HOOKS_INTRO + kinds + "".join(hook_section(spec, function) for spec, function in specs())


def hook_section(spec: Spec, function: Callable[..., object]) -> str:
    """Describe one hook: its exact arguments, its policy, what its spec says."""
    facts = [
        f"kind: {spec.kind}",
        f"may be: {spec.colour}",
        f"time-out: {seconds(spec.timeout)}",
        f"a raise or time-out: {spec.on_failure}",
    ]
    if spec.value:
        facts.append(f"may replace: `{spec.value}`")
    if spec.subject:
        facts.append(f"added to an agent, it hears calls for the `{spec.subject}` of that agent and of those below it")
    if spec.guarded:
        facts.append("denied while a plugin that is declared a guard is absent")
    listed = "\n".join(f"- {fact}" for fact in facts)
    text = "\n".join(markdown(inspect.getdoc(function) or ""))
    return f"\n## `{spec.name}({', '.join(spec.arguments)})`\n\n{listed}\n\n{text.strip()}\n"


def seconds(timeout: float | None) -> str:
    """Write a time-out for a reader."""
    return "none" if timeout is None else f"{timeout:g} s"


def markdown(docstring: str) -> Iterator[str]:
    """Turn a docstring with sections (`Args:`, `Returns:`, `Raises:`, `Example:`) into Markdown lines."""
    # A section is an unindented word with a colon and the indented block below it.
    for part in re.split(r"(?m)^(?=(?:Args|Returns|Raises|Example|Examples):$)", docstring):
        head, _, body = part.partition("\n")
        if not re.fullmatch(r"(Args|Returns|Raises|Examples?):", head):
            yield from part.rstrip().splitlines()
            yield ""
            continue
        yield f"**{'Arguments' if head == 'Args:' else head.removesuffix(':')}**"
        yield ""
        block = textwrap.dedent(body).strip("\n")
        if head in {"Args:", "Raises:"}:
            yield from re.sub(r"(?m)^([^\s:][^:\n]*):\s+", r"- `\1`: ", block).splitlines()
        else:
            yield from block.splitlines()
        yield ""


PAGES: dict[str, Callable[[], str]] = {"hooks": hooks_page, "events": events_page}
"""The name of each generated page, as in `docs/<name>.md`, and what makes it."""


def main() -> int:
    """Write the pages, or with `--check` say which are stale."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pages", nargs="*", metavar="page", help=f"which of {', '.join(PAGES)}; all by default")
    parser.add_argument("--check", action="store_true", help="write nothing, fail when a page is stale")
    args = parser.parse_args()
    if unknown := set(args.pages) - set(PAGES):
        parser.error(f"no such page: {', '.join(sorted(unknown))}")
    stale = []
    for name in args.pages or PAGES:
        path, text = DOCS / f"{name}.md", PAGES[name]()
        if path.is_file() and path.read_text() == text:
            continue
        stale.append(name)
        if not args.check:
            path.write_text(text)
            print(f"wrote docs/{name}.md")
    if args.check and stale:
        print(f"stale: {', '.join(stale)}; run scripts/generate_docs.py", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
