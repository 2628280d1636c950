"""Options that commands share, each declared once."""

from __future__ import annotations

import contextlib
import errno
import json
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from geotfr_cli.main import Settings, set_debug, tell

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

__all__ = [
    "DAMAGED",
    "LOSSES",
    "allow_driver_option",
    "allow_network_option",
    "common_options",
    "executor_options",
    "memory_limit_option",
    "overwrite_option",
    "retry_option",
    "show",
    "shows_progress",
    "telling_how_to_go_on",
    "warn",
    "workers_option",
]

DAMAGED = 12
"""Exit code of a command that was to tell what files hold, and found damage."""

LOSSES = 3
"""Exit code of a run that is done, but lost data that nobody asked to lose."""

F = TypeVar("F", bound="Callable[..., Any]")


def common_options(function: F) -> F:
    """``--quiet``, ``--json`` and ``--debug``: the first two arrive as ``quiet`` and ``as_json``."""
    for option in (
        click.option(
            "--debug", is_flag=True, expose_value=False, callback=set_debug, help="Show tracebacks of errors."
        ),
        click.option("--json", "as_json", is_flag=True, help="Print the result as JSON."),
        click.option("--quiet", "-q", is_flag=True, help="Print nothing but errors (and JSON, if asked)."),
    ):
        function = option(function)
    return function


overwrite_option = click.option("--overwrite", is_flag=True, help="Replace outputs that exist.")
retry_option = click.option(
    "--retry-seconds",
    type=click.FloatRange(min=0.0),
    default=120.0,
    show_default=True,
    help="How long a request that fails is repeated.",
)
workers_option = click.option(
    "--workers",
    type=click.IntRange(1, 1024),
    help="Threads or processes. The bytes don't depend on it.  [default: cores, up to 4]",
)
allow_driver_option = click.option(
    "--allow-driver",
    "allow_drivers",
    metavar="NAME",
    multiple=True,
    help="A GDAL driver that may open rasters beside GTiff, as VRT or PNG, or vector files beside the known formats, as"
    " KML. Repeatable; only for files you trust.",
)
allow_network_option = click.option(
    "--allow-network",
    is_flag=True,
    help="Read rasters that are https://, http://, s3://, gs:// or az:// addresses. Without it none is fetched.",
)


def executor_options(function: F) -> F:
    """``--executor`` and ``--scheduler``: who does the work of ``--workers``."""
    for option in (
        click.option("--scheduler", metavar="ADDRESS", help="A dask scheduler, as tcp://host:8786; implies dask."),
        click.option(
            "--executor",
            type=click.Choice(["serial", "threads", "processes", "dask"]),
            help="Who works: threads, processes, or dask workers (extra dask). The bytes don't depend on it."
            "  [default: threads]",
        ),
    ):
        function = option(function)
    return function


@contextlib.contextmanager
def telling_how_to_go_on(ctx: click.Context, *, resumes: bool) -> Iterator[None]:
    """Add the command that continues, or begins again, to the error of a run whose engine is lost."""
    from geotfr.errors import EngineLostError

    try:
        yield
    except EngineLostError as error:
        command = ["geotfr", *ctx.ensure_object(Settings).args]
        if resumes and "--resume" not in command:
            command.append("--resume")
        words = "continue with" if resumes else "the command"
        raise EngineLostError(f"{error}; {words}: {shlex.join(command)}") from error


memory_limit_option = click.option(
    "--memory-limit", metavar="SIZE", help="Resident memory that the run may take, as 500MiB.  [default: what is fast]"
)


def json_option(text: str | None, name: str) -> dict[str, Any] | None:
    """The JSON object given as text, or as ``@FILE``."""
    if text is None:
        return None
    from geotfr.errors import DamagedError, LimitError, MissingInputError
    from geotfr.mixer.strict_json import parse_json, read_json

    try:
        if text.startswith("@"):
            return read_json(Path(text[1:]), what="JSON object")
        return parse_json(text, name=name, what="JSON object")
    except MissingInputError:
        raise
    except (DamagedError, LimitError) as error:
        raise click.UsageError(str(error)) from error


def warn(warnings: Sequence[str], *, quiet: bool) -> None:
    """Tell each warning once, on stderr."""
    if not quiet:
        for warning in warnings:
            tell(f"warning: {warning}")


def show(text: str, document: dict[str, Any], *, quiet: bool, as_json: bool) -> None:
    """The result on stdout: JSON if asked, else text for a person unless ``quiet``."""
    from geotfr.plain_text import printable, printable_report, redact

    if sys.stdout is None and (as_json or not quiet):
        raise OSError(errno.EBADF, "it is closed")
    if as_json:
        told = json.dumps(document, indent=2, ensure_ascii=False)
        click.echo(printable(redact(told), as_json=True))
    elif not quiet:
        click.echo(redact(printable_report(text, document)))


def shows_progress(*, quiet: bool) -> bool:
    """Whether a progress bar is of use: someone looks at stderr."""
    return not quiet and sys.stderr is not None and sys.stderr.isatty()
