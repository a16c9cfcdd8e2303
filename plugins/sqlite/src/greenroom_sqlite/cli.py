"""`greenroom sessions`: look at the stored sessions and take care of them."""

from __future__ import annotations

import os
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict
from pathlib import Path
from typing import IO, TypeVar

import anyio
import click
import msgspec
import pydantic

from greenroom.cli import CliState, confirm, emit_json, fail, table
from greenroom.errors import SettingsError
from greenroom.sessions import Finding, SessionDamaged, SessionEntry, event_to_json, header_to_json

from ._plugin import StoreSettings
from ._rebuild import repair_file
from ._store import SqliteStore
from ._transcript import Transcript, heading, moment
from ._transfer import events_of, export_lines, fork, import_lines

T = TypeVar("T")
LAST = "last"
_json = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
_id = click.argument("session_id", metavar="ID")


@click.group(epilog="Example: greenroom sessions show last")
def sessions() -> None:
    """List, read, check, repair, copy and delete stored sessions. ID may be `last`, the newest."""


def _store(state: CliState) -> SqliteStore:
    """The store of this user's settings; no host is started and no other plugin imported."""
    section = state.settings().plugin("greenroom-sqlite:sqlite", "sqlite")
    try:
        settings = StoreSettings.model_validate(dict(section.values))
    except pydantic.ValidationError as error:
        problem = error.errors()[0]
        key = ".".join(str(part) for part in problem["loc"])
        raise SettingsError(f"[{section.table}] {key}: {problem['msg']}") from None
    store = settings.open(state.data_directory)
    return store if store is not None else fail("there is no data directory")


@asynccontextmanager
async def _opened(state: CliState) -> AsyncIterator[SqliteStore]:
    store = _store(state)
    try:
        yield store
    finally:
        await store.aclose()


def _run(state: CliState, work: Callable[[SqliteStore], Awaitable[T]]) -> T:
    async def main() -> T:
        async with _opened(state) as store:
            return await work(store)

    return anyio.run(main)


async def _known(store: SqliteStore, session_id: str) -> str:
    """The id, or that of the newest session for `last`."""
    if session_id != LAST:
        return session_id
    newest = next((entry.id for entry in await store.list() if entry.error is None), None)
    return newest if newest is not None else fail("there is no session yet")


@sessions.command("list", epilog="Example: greenroom sessions list --json")
@_json
@click.pass_obj
def list_(state: CliState, *, as_json: bool) -> None:
    """List all sessions, the newest first; a damaged one stands there with its error."""
    entries = _run(state, lambda store: store.list())
    if as_json:
        emit_json([_entry(entry) for entry in entries])
    elif not entries:
        click.echo("no sessions yet")
    else:
        table(("session", "events", "updated", "provider", "directory", "owner"), [_row(entry) for entry in entries])
        for entry in entries:
            if entry.error:
                click.echo(f"{entry.id}: {entry.error}", err=True)


def _entry(entry: SessionEntry) -> dict[str, object]:
    header = msgspec.json.decode(header_to_json(entry.header)) if entry.header is not None else None
    return {**asdict(entry), "header": header}


def _row(entry: SessionEntry) -> tuple[object, ...]:
    if entry.error:
        return (entry.id, "damaged", None, None, None, None)
    header, owner = entry.header, entry.owner
    who = None if owner is None else owner.name if owner.alive else f"{owner.name} (ended)"
    provider, cwd = (header.provider, header.cwd) if header is not None else (None, None)
    return (entry.id, entry.next_seq, moment(entry.updated_at), provider, cwd, who)


@sessions.command(epilog="Example: greenroom sessions show last")
@_id
@_json
@click.pass_obj
def show(state: CliState, session_id: str, *, as_json: bool) -> None:
    """Print a session as a transcript; with --json its header and events, a line each."""

    async def work(store: SqliteStore) -> None:
        found = await _known(store, session_id)
        header, entry = await store.header(found), await store.entry(found)
        transcript = Transcript()
        for line in [header_to_json(header).decode()] if as_json else heading(header, entry.next_seq):
            click.echo(line)
        async for event in events_of(store, found):
            for line in [event_to_json(event).decode()] if as_json else transcript.lines(event):
                click.echo(line)
        for line in transcript.finish():
            click.echo(line)

    _run(state, work)


@sessions.command(epilog="Example: greenroom sessions verify")
@click.argument("session_ids", metavar="[ID]...", nargs=-1)
@_json
@click.pass_obj
def verify(state: CliState, session_ids: Sequence[str], *, as_json: bool) -> None:
    """Read every byte of all sessions, or of some, and say what is wrong; exit status 1 if anything is."""

    async def work(store: SqliteStore) -> dict[str, Sequence[Finding]]:
        ids = [await _known(store, one) for one in session_ids] or [entry.id for entry in await store.list()]
        return {one: await _verify(store, one) for one in ids}

    found = _run(state, work)
    if as_json:
        emit_json([{"session": one, "ok": _whole(each), "findings": list(each)} for one, each in found.items()])
    else:
        table(("session", "result"), [(one, "ok" if _whole(each) else "damaged") for one, each in found.items()])
        for one, each in found.items():
            for finding in each:
                click.echo(f"{one}: {finding.severity}: {finding.text}")
    if not all(_whole(each) for each in found.values()):
        raise click.exceptions.Exit(1)


async def _verify(store: SqliteStore, session_id: str) -> Sequence[Finding]:
    """The findings; damage that does not even let the session be looked at is one."""
    try:
        return await store.verify(session_id)
    except SessionDamaged as error:
        return [Finding("file", str(error.args[0]), seq=error.seq)]


def _whole(findings: Sequence[Finding]) -> bool:
    return all(finding.severity != "error" for finding in findings)


@sessions.command(epilog="Example: greenroom sessions repair last --dry-run")
@click.argument("session_id", metavar="[ID]", required=False)
@click.option("--file", "whole_file", is_flag=True, help="Repair the file: make a new one of all that can be read.")
@click.option("--dry-run", is_flag=True, help="Say what would be done, and do nothing.")
@click.option("--backup", type=click.Path(dir_okay=False), help="Copy the file there first (--file always keeps it).")
@click.option("--force", is_flag=True, help="Take the session from a live owner, which is refused from then on.")
@_json
@click.pass_obj
def repair(
    state: CliState,
    session_id: str | None,
    *,
    whole_file: bool,
    dry_run: bool,
    backup: str | None,
    force: bool,
    as_json: bool,
) -> None:
    """Keep the whole beginning of a damaged session, or with --file everything that a damaged file still holds."""
    if whole_file == (session_id is not None):
        raise click.UsageError("give the ID of a session, or --file")
    if session_id is None:
        _repair_file(state, dry_run=dry_run, force=force, as_json=as_json)
        return

    async def work(store: SqliteStore) -> None:
        found = await _known(store, session_id)
        report = await store.repair(found, dry_run=dry_run, backup=backup, force=force)
        if as_json:
            emit_json(report)
            return
        for finding in report.findings:
            click.echo(f"{finding.severity}: {finding.text}")
        done = "would keep" if dry_run else "kept"
        click.echo(f"session {found}: {done} {report.kept} events, {report.dropped} dropped")

    _run(state, work)


def _repair_file(state: CliState, *, dry_run: bool, force: bool, as_json: bool) -> None:
    path = _store(state).path
    try:
        report = repair_file(path, dry_run=dry_run, force=force)
    except (OSError, ValueError) as error:  # ValueError: an empty file has no pages
        fail(f"the store {path} cannot be repaired: {error}")
    if as_json:
        emit_json(report)
        return
    table(("session", "kept", "lost"), [(one.session_id, one.kept, one.lost) for one in report.sessions])
    click.echo("nothing was changed" if report.backup is None else f"the old file is kept as {report.backup}")


@sessions.command(epilog="Example: greenroom sessions export last -o session.jsonl")
@_id
@click.option("-o", "--output", type=click.Path(dir_okay=False, path_type=Path), help="A file instead of stdout.")
@_json
@click.pass_obj
def export(state: CliState, session_id: str, *, output: Path | None, as_json: bool) -> None:
    """Write a session as lines of JSON: the header, its blobs and its events. With --json say what was written."""
    if as_json and output is None:
        raise click.UsageError("--json needs --output: the export itself goes to stdout")

    async def work(store: SqliteStore) -> None:
        found = await _known(store, session_id)
        await store.header(found)
        with _target(output) as file:
            count = 0
            async for line in export_lines(store, found):
                file.write(line + b"\n")
                count += 1
        if as_json:
            emit_json({"session": found, "lines": count, "output": output})

    _run(state, work)


def _target(output: Path | None) -> IO[bytes]:
    """Stdout, or a new file for the owner only; one that exists is not overwritten."""
    if output is None:
        return os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    try:
        return os.fdopen(os.open(output, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb")
    except FileExistsError:
        fail(f"{output} exists", hint="name another file, or remove it")
    except OSError as error:
        fail(f"{output} cannot be written: {error.strerror}")


@sessions.command("import", epilog="Example: greenroom sessions import session.jsonl --id copy")
@click.argument("source", type=click.File("rb"))
@click.option("--id", "session_id", help="The new session's id instead of the exported one's.")
@_json
@click.pass_obj
def import_(state: CliState, source: IO[bytes], *, session_id: str | None, as_json: bool) -> None:
    """Make a session of an export (`-`: from stdin). What fails leaves nothing behind."""
    header = _run(state, lambda store: import_lines(store, source, session_id=session_id))
    _made(header.id, as_json=as_json)


@sessions.command("fork", epilog="Example: greenroom sessions fork last --at 41")
@_id
@click.option("--at", "boundary", type=click.IntRange(0), help="The last event to take; outside a turn. Default: all.")
@click.option("--id", "child_id", help="The new session's id; a random one by default.")
@_json
@click.pass_obj
def fork_(state: CliState, session_id: str, *, boundary: int | None, child_id: str | None, as_json: bool) -> None:
    """Make a session that begins like another one."""

    async def work(store: SqliteStore) -> str:
        return (await fork(store, await _known(store, session_id), boundary, child_id=child_id)).id

    _made(_run(state, work), as_json=as_json)


def _made(session_id: str, *, as_json: bool) -> None:
    if as_json:
        emit_json({"session": session_id})
    else:
        click.echo(session_id)


@sessions.command(epilog="Example: greenroom sessions delete 6f1c --yes")
@click.argument("session_ids", metavar="ID...", nargs=-1, required=True)
@click.option("--yes", is_flag=True, help="Do not ask.")
@_json
@click.pass_obj
def delete(state: CliState, session_ids: Sequence[str], *, yes: bool, as_json: bool) -> None:
    """Remove sessions with everything that belongs to them."""

    async def known(store: SqliteStore) -> list[str]:
        found = [(await store.entry(await _known(store, one))).id for one in session_ids]
        return list(dict.fromkeys(found))

    async def work(store: SqliteStore) -> None:
        for session_id in chosen:
            await store.delete(session_id)

    chosen = _run(state, known)  # all of them, before the first one goes
    names = " ".join(chosen)
    if not yes and not confirm(f"Delete {names} for good?", instead=f"greenroom sessions delete {names} --yes"):
        fail("nothing was deleted")
    _run(state, work)
    if as_json:
        emit_json({"deleted": chosen})
