"""Accountants in files: versioned, checksummed JSON, replaced as a whole or not at all."""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hockeystick import Group
from hockeystick._arguments import count_scalar, shown
from hockeystick._atomic import read_regular, write_atomically
from hockeystick._strict_json import check_parts, parse
from hockeystick.accountants import (
    Accountant,
    GroupAccountant,
    IndividualAccountant,
    IndividualFilter,
    MonteCarloAccountant,
    RenyiGroupAccountant,
    ShuffleAccountant,
)
from hockeystick.accountants._adaptors import (
    MAX_BYTES,
    MAX_PARTS,
    check_keys,
    check_limits,
    class_of,
    load_checked,
    refusals,
)

__all__ = ["load", "save"]


def __dir__() -> list[str]:
    return list(__all__)


VERSION = 1
"""Version of the file around a state; a reader refuses a newer one."""

HEAD = '{{"format":"hockeystick-checkpoint","version":{version},"sha256":"{checksum}","state":'
TAIL = b"}\n"
KNOWN_HEAD = re.compile(
    rb'\{"format":"hockeystick-checkpoint","version":([0-9]{1,9}),"sha256":"([0-9a-f]{64})","state":'
)
NO_CHECKSUM = "0" * 64
"""Stands for the checksum where that is computed."""

KINDS: dict[str, type[Any]] = {
    **{
        kind.mechanism(): kind
        for kind in (
            GroupAccountant,
            IndividualAccountant,
            MonteCarloAccountant,
            RenyiGroupAccountant,
            ShuffleAccountant,
        )
    },
    "individual_filter": IndividualFilter,
}
"""What can be saved, by the word for it in a state."""

BYTES_AN_EXAMPLE = 64
"""What an individual accountant takes for each example before it has steps, and at most."""


def save(accountant: Accountant | IndividualFilter, path: str | os.PathLike[str]) -> None:
    """Save an accountant to a file, which is the old or the new one whenever the process is stopped.

    Parameters
    ----------
    accountant : Accountant or IndividualFilter
        One of `hockeystick.accountants`, also where it is registered with Opacus.
    path : path-like
        File to write or replace, in a folder that exists. Its owner alone may read it: what an accountant of
        individual examples saves is private. A symbolic link is followed, and what it points to is written.

    Raises
    ------
    TypeError
        If `accountant` is none of these.
    ValueError
        If its history has too many segments for `load`, about 1,200,000.
    OSError
        If the file cannot be written, or a folder, a pipe, a socket or a device has this name; what is there
        stays as it was.

    Notes
    -----
    The new file is written next to the old one, brought to the disk, and renamed. A process that is killed in
    the middle may leave a file whose name begins with a dot and ends in ".tmp".

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from hockeystick import checkpoints
    >>> from hockeystick.accountants import GroupAccountant
    >>> accountant = GroupAccountant(group_size=4)
    >>> accountant.step(noise_multiplier=1.0, sample_rate=0.01)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     checkpoints.save(accountant, Path(folder) / "privacy.json")
    ...     again = checkpoints.load(Path(folder) / "privacy.json")
    >>> again.get_epsilon(1e-5) == accountant.get_epsilon(1e-5)
    True
    """
    kind = class_of(accountant)
    words = [word for word, known in KINDS.items() if known is kind]
    if not words:
        names = ", ".join(known.__name__ for known in KINDS.values())
        raise TypeError(f"accountant must be one of {names}, got {kind.__name__}")
    state = {**accountant.state_dict(), "mechanism": words[0]}
    text = json.dumps(state, allow_nan=False, separators=(",", ":")).encode("ascii")
    check_parts(text, MAX_PARTS)
    write_atomically(path, _head(text).encode("ascii") + text + TAIL)


def load(path: str | os.PathLike[str], *, most_bytes: int = MAX_BYTES) -> Any:
    """Return the accountant that a file holds, with its settings and steps.

    Parameters
    ----------
    path : path-like
        File that `save` wrote.
    most_bytes : int, optional
        Bytes that the file may have at most, and the arrays in it once unpacked; 1 GiB by default.

    Returns
    -------
    Accountant or IndividualFilter
        Of the kind that was saved. It answers as the saved one did, to the last bit.

    Raises
    ------
    ValueError
        If the file is damaged, of a newer version, no checkpoint or larger than `most_bytes`, whatever it
        holds: nothing in it is ever run.
    OSError
        If the file cannot be read.

    Notes
    -----
    The checksum shows damage, not malice: whoever may write the file may write another checksum.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from hockeystick import checkpoints
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "privacy.json"
    ...     _ = path.write_text("{}")
    ...     checkpoints.load(path)
    Traceback (most recent call last):
    ValueError: ...: this is no checkpoint of hockeystick, or its beginning or end is damaged
    """
    most = count_scalar(most_bytes, "most_bytes", 1)
    try:
        with refusals():
            return _restored(parse(_state_text(Path(path), most), MAX_PARTS), most)
    except ValueError as error:
        raise ValueError(f"{os.fspath(path)}: {error}") from error


def _head(state: bytes) -> str:
    """Return what stands before a state; the checksum is that of the whole file."""
    without = HEAD.format(version=VERSION, checksum=NO_CHECKSUM)
    checksum = hashlib.sha256(without.encode("ascii") + state + TAIL).hexdigest()
    return HEAD.format(version=VERSION, checksum=checksum)


def _state_text(path: Path, most_bytes: int) -> bytes:
    """Return the text of the state in a file, once the checksum is right."""
    text = read_regular(path, most_bytes, "a checkpoint")
    head = KNOWN_HEAD.match(text)
    if head is None or not text.endswith(TAIL):
        raise ValueError("this is no checkpoint of hockeystick, or its beginning or end is damaged")
    if int(head[1]) > VERSION:
        raise ValueError(f"version is {int(head[1])}, this version of hockeystick reads up to {VERSION}")
    state = text[head.end() : -len(TAIL)]
    if _head(state).encode("ascii") != head[0]:
        raise ValueError("the checkpoint is damaged: it does not have the checksum that it was saved with")
    return state


def _restored(state: Any, most_bytes: int) -> Any:
    """Return the accountant that a state stands for."""
    check_limits(state, most_bytes=most_bytes)
    if not isinstance(state, dict):
        raise TypeError(f"state must be a mapping, got {type(state).__name__}")
    mechanism, settings = state.get("mechanism"), state.get("settings")
    if not isinstance(mechanism, str) or mechanism not in KINDS:
        raise ValueError(f"mechanism must be one of {list(KINDS)}, got {shown(mechanism)}")
    if not isinstance(settings, dict):
        raise TypeError(f"settings must be a mapping, got {type(settings).__name__}")
    kind = KINDS[mechanism]
    if kind is IndividualAccountant:
        _check_size(settings, most_bytes)
    accountant = kind(**_arguments(kind, settings))
    load_checked(accountant, state)
    return accountant


def _arguments(kind: type[Any], settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments that make an accountant with these settings."""
    arguments = dict(settings)
    if kind in (GroupAccountant, RenyiGroupAccountant) and arguments.get("group") is not None:
        group = arguments["group"]
        bounded = isinstance(group, Mapping) and group.get("gradients") == "bounded"
        check_keys(group, ("size", "rates", "norms", "gradients", *(["cosine"] if bounded else [])), "group")
        arguments["group"] = Group(**group)
    return arguments


def _check_size(settings: Mapping[str, Any], most_bytes: int) -> None:
    """Raise unless an individual accountant without steps is small enough to be made."""
    examples = count_scalar(settings.get("dataset_size"), "dataset_size", 1)
    orders = settings.get("orders")
    of_orders = 8 * len(orders) if isinstance(orders, list) and settings.get("exact") is not True else 0
    if examples * (BYTES_AN_EXAMPLE + of_orders) > most_bytes:
        raise ValueError(f"dataset_size must be small enough for most_bytes = {most_bytes}, got {examples}")
