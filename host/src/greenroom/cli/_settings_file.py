"""Changes to the user's settings file that keep its comments and its order."""

from __future__ import annotations

from typing import TYPE_CHECKING

from greenroom._paths import write_atomically
from greenroom._settings.layers import parse, read_file
from greenroom.errors import SettingsError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tomlkit import TOMLDocument

LOCK_TIMEOUT = 10.0  # seconds; an edit takes milliseconds, so whoever holds the lock longer hangs


def edit_user_settings(file: Path, change: Callable[[TOMLDocument], None]) -> None:
    """Apply `change` to a settings file, which is created if it is missing; all or nothing.

    Two processes that edit at the same time take turns, and neither change is lost.

    Raises:
        SettingsError: the file is broken already, cannot be written, or another process holds its lock;
            it is as it was.
    """
    import tomlkit
    from filelock import FileLock, Timeout

    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(file.with_name(f".{file.name}.lock"), timeout=LOCK_TIMEOUT):
            layer = read_file("user", file)
            # Line ends are kept: read_text would turn CRLF into LF.
            document = tomlkit.parse(layer.text if layer is not None else "")
            change(document)
            text = tomlkit.dumps(document)
            parse(text, file)  # what is written must be readable by the strict reader
            if layer is None or text != layer.text:
                write_atomically(file, text.encode(), mode=0o644)
    except Timeout as error:
        hint = f"end the other greenroom process, or remove {error.lock_file} if there is none"
        raise SettingsError(f"{file}: another process is editing the settings", hint=hint) from error
    except OSError as error:
        hint = "make it writable, or set GREENROOM_CONFIG_DIR to a folder of your own"
        raise SettingsError(f"{file}: the settings cannot be written: {error.strerror or error}", hint=hint) from error
