"""Commands about many runs, and about a run file."""

from __future__ import annotations

import contextlib
import json
from typing import Any

from hockeystick import Run, Table, plan, sweep
from hockeystick._core import __version__
from hockeystick._extras import needed

click: Any = needed("click", "cli")


def vary(texts: tuple[str, ...]) -> dict[str, list[Any]]:
    """Read NAME=VALUE,VALUE,... of an option that may be repeated."""
    found: dict[str, list[Any]] = {}
    for text in texts:
        name, sign, values = text.partition("=")
        if not (name and sign and values):
            raise click.UsageError(f"--vary is NAME=VALUE,VALUE,..., got {text!r}")
        found[name.replace("-", "_")] = [_value(part) for part in values.split(",")]
    return found


def _value(text: str) -> Any:
    for kind in (int, float):
        with contextlib.suppress(ValueError):
            return kind(text)
    return text


def run_sweep(
    unknown: str, config: str | None, texts: tuple[str, ...], path: str | None, as_json: bool
) -> None:
    """Print, or write as CSV, the answers for all combinations."""
    run = None if config is None else Run.load(config)
    given: dict[str, Any] = {
        name: values[0] if len(values) == 1 else values for name, values in vary(texts).items()
    }
    _show(sweep(unknown.replace("-", "_"), run, **given), path, as_json)


def run_plan(given: dict[str, Any], path: str | None, as_json: bool) -> None:
    """Print, or write as CSV, what can be chosen."""
    stated = {name: value for name, value in given.items() if value not in (None, [])}
    config = stated.pop("config", None)
    _show(plan(None if config is None else Run.load(config), **stated), path, as_json)


def check(path: str, as_json: bool) -> None:
    """Check a run file, and print what it states."""
    run = Run.load(path)
    if as_json:
        document = {
            "version": __version__,
            "facts": run.facts,
            "steps": run.number_of_steps,
            "sha256": run.sha256,
        }
        click.echo(json.dumps(document, indent=2))
        return
    for name, value in run.facts.items():
        click.echo(f"{name}: {value}")
    if run.number_of_steps is not None and run.steps is None:
        click.echo(f"steps of these epochs: {run.number_of_steps}")
    click.echo(f"sha256: {run.sha256}")


def _show(table: Table, path: str | None, as_json: bool) -> None:
    if path is not None:
        table.to_csv(path)
    if as_json:
        rows = [{name: _finite(value) for name, value in row.items()} for row in table]
        click.echo(json.dumps({"version": __version__, "rows": rows}, indent=2))
    elif path is None:
        click.echo(str(table))
    else:
        click.echo(path)


def _finite(value: Any) -> Any:
    return None if isinstance(value, float) and value in (float("inf"), float("-inf")) else value
