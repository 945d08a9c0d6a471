"""Commands that ask about many runs, check a run file, or set up a shell."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable
from typing import Any

from hockeystick._extras import needed
from hockeystick.cli import _tables
from hockeystick.cli._hints import Command
from hockeystick.cli._options import OF_TARGET, TARGET, options
from hockeystick.errors import UnreachableError, UnsupportedError

click: Any = needed("click", "cli")

SHELLS = ("bash", "zsh", "fish")

_JSON = ["--json", "as_json"]


def guarded(action: Callable[..., None]) -> Callable[..., None]:
    """Turn errors into exit statuses, and warnings into lines on stderr."""

    def run(**given: Any) -> None:
        """Run the action with what the command line gave."""
        with warnings.catch_warnings():
            warnings.simplefilter("always")
            warnings.showwarning = lambda message, *_, **__: click.echo(f"Warning: {message}", err=True)
            try:
                action(**given)
            except (UnsupportedError, UnreachableError, ImportError, OSError) as error:
                raise click.ClickException(str(error)) from error
            except (ValueError, TypeError) as error:
                raise click.UsageError(str(error)) from error

    return run


def _sweep(unknown: str, config: str | None, texts: tuple[str, ...], path: str | None, as_json: bool) -> None:
    _tables.run_sweep(unknown, config, texts, path, as_json)


def _plan(path: str | None, as_json: bool, **given: Any) -> None:
    lists = ("records_per_person", "batch_sizes", "caps")
    read = {name: _whole(given[name], name) for name in lists if given[name] is not None}
    if len(read.get("records_per_person", [])) == 1:
        read["records_per_person"] = read["records_per_person"][0]
    _tables.run_plan({**given, **read}, path, as_json)


def _whole(text: str, name: str) -> Any:
    try:
        return [int(part) for part in text.split(",")]
    except ValueError:
        wanted = f"--{name.replace('_', '-')} must be whole numbers with commas"
        raise click.UsageError(f"{wanted}, got {text!r}") from None


def _check(path: str, as_json: bool) -> None:
    _tables.check(path, as_json)


def _completion(shell: str, as_json: bool) -> None:
    context = click.get_current_context().find_root()
    kind = needed("click.shell_completion", "cli").get_completion_class(shell)
    script = kind(context.command, {}, "hockeystick", "_HOCKEYSTICK_COMPLETE").source()
    click.echo(json.dumps({"shell": shell, "script": script}, indent=2) if as_json else script)


_UNKNOWNS = ("epsilon", "delta", "noise-multiplier", "sample-rate", "steps", "group-size")
_CSV = click.Option(["--csv", "path"], help="File to write as CSV with all digits.")
_FILE = click.Path(exists=True, dir_okay=False)

MORE = [
    Command(
        "sweep",
        callback=guarded(_sweep),
        params=[
            click.Argument(["unknown"], type=click.Choice(_UNKNOWNS)),
            click.Option(["--config"], type=_FILE, help="TOML or JSON file of a run."),
            click.Option(
                ["--vary", "texts"],
                multiple=True,
                metavar="NAME=VALUES",
                help="An argument of the Python function with its values, separated by commas; may repeat. "
                "Every combination is asked about.",
            ),
            _CSV,
            click.Option(_JSON, is_flag=True, help="Print JSON with all digits."),
        ],
        help="One question for many runs, as a table.",
    ),
    Command(
        "plan",
        callback=guarded(_plan),
        params=[
            click.Option(["--config"], type=_FILE, help="TOML or JSON file of a run of Poisson samples."),
            click.Option(["--dataset-size"], type=int, help="Number of records."),
            *options(TARGET, OF_TARGET),
            click.Option(["--epochs"], type=float, help="Number of epochs; or give --compute."),
            click.Option(["--compute"], type=float, help="Number of gradients of single records."),
            click.Option(
                ["--records-per-person"], metavar="INTEGERS", help="Largest number, or those of all."
            ),
            click.Option(["--batch-sizes"], metavar="INTEGERS", help="Expected batch sizes to try."),
            click.Option(["--caps"], metavar="INTEGERS", help="Records to keep of a person, to try."),
            click.Option(["--adjacency"], help="Neighbouring relation, by default add_remove."),
            _CSV,
            click.Option(_JSON, is_flag=True, help="Print JSON with all digits."),
        ],
        help="Batch size, steps, cap per person and noise that meet a target, the least noise first.",
    ),
    Command(
        "check",
        callback=guarded(_check),
        params=[
            click.Argument(["path"], type=_FILE),
            click.Option(_JSON, is_flag=True, help="Print JSON."),
        ],
        help="Check the file of a run, and print what it states with its hash.",
    ),
    Command(
        "completion",
        callback=guarded(_completion),
        params=[
            click.Argument(["shell"], type=click.Choice(SHELLS)),
            click.Option(_JSON, is_flag=True, help="Print JSON."),
        ],
        help='Print the script for tab completion: eval "$(hockeystick completion bash)".',
    ),
]
