"""The console script: finds the command, and turns what it raises into one line and an exit code.

Commands are modules of :mod:`geotfr_cli.commands`, imported when they are called, so that ``geotfr --help`` needs
neither numpy nor rasterio.
"""

from __future__ import annotations

import contextlib
import errno
import importlib
import os
import re
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn

import click

from geotfr_cli.signals import Terminated, catch_signals, end_by_signal

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["cli", "main"]

# Command -> (module in geotfr_cli.commands, one line for the list of commands).
COMMANDS = {
    "export": ("export", "Cut GeoTIFFs into TFRecord patches with a mixer, as Earth Engine does."),
    "table": ("table", "Make the patch table of a set: place, digest, outline and statistics of each patch."),
    "split": ("split", "Split a patch table into training, validation and test patches, without leaks."),
    "stats": ("stats", "Statistics of a set's bands: mean, deviation, percentiles, histogram, classes."),
    "finalize": ("finalize", "Make one set of the parts that 'geotfr export --split' staged."),
    "ingest-predictions": ("ingest_predictions", "Turn prediction TFRecords into a georeferenced raster."),
    "push": ("push", "Send a set to an object store: what it lacks, checked when it has arrived."),
    "pull": ("pull", "Bring a set from an object store into a folder, checked."),
    "export-table": ("export_table", "Write a table's rows as TFRecord, as Earth Engine does."),
    "ingest-table": ("ingest_table", "Turn TFRecords of Examples into a table."),
    "sample": ("sample", "Sample rasters at points, as TFRecord or as a table."),
    "upload-manifest": ("upload_manifest", "Write the JSON for an upload of predictions to Earth Engine."),
    "preview": ("preview", "Draw grids, patches, classes and histograms; compare two rasters in a page."),
    "inspect": ("inspect", "Tell what TFRecord files hold."),
    "verify": ("verify", "Check TFRecord files: framing, checksums, lengths, counts, digests."),
    "repair": ("repair", "Save the whole records of a damaged file into a new one."),
    "index": ("index", "Write an index for random access beside each TFRecord file."),
}

_INTERRUPTED = 130
_CANNOT_READ = 10
_CANNOT_WRITE = 14
_OF_WRITING = frozenset({errno.ENOSPC, errno.EROFS, errno.EDQUOT, errno.EFBIG})
_OUT_OF_MEMORY = 13
_NO_MEMORY = re.compile(r"failed to map segment|[Cc]annot allocate memory|can't start new thread|std::bad_alloc")


@dataclass(slots=True)
class Settings:
    """What the whole process needs to know of the command line."""

    debug: bool = False
    args: tuple[str, ...] = ()


class _LazyGroup(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        del ctx
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        del ctx
        if cmd_name not in COMMANDS:
            return None
        module = importlib.import_module(f"geotfr_cli.commands.{COMMANDS[cmd_name][0]}")
        command = module.command
        assert isinstance(command, click.Command)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in COMMANDS and not args[0].startswith("-"):
            import difflib

            near = difflib.get_close_matches(args[0], COMMANDS, n=1)
            hint = f"; did you mean {near[0]}?" if near else ""
            raise click.UsageError(f"{args[0]!r} is no command{hint} (known: {', '.join(COMMANDS)})", ctx)
        if "" in args[1:]:
            # As a path it would be the folder that the user happens to be in.
            place = f"argument {args.index('', 1)} of {args[0]}"
            raise click.UsageError(f"{place} is empty, as a variable of the shell that isn't set; give a value", ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        del ctx
        with formatter.section("Commands"):
            formatter.write_dl([(name, summary) for name, (_, summary) in COMMANDS.items()])


def _print_version(ctx: click.Context, param: click.Parameter, value: bool) -> None:
    del param
    if not value or ctx.resilient_parsing:
        return
    from geotfr_cli.versions import version_text

    click.echo(version_text())
    ctx.exit()


@click.group(
    cls=_LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
    epilog="Exit codes: 0 done, 2 usage, 3 done with losses, 10 input missing or unsupported, 11 locked, 12 input"
    " damaged, 13 over a limit, 14 cannot write, 15 engine lost, 130 interrupted, 143 terminated.",
)
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_print_version,
    help="Show the versions of geotfr, GDAL, CRC and gzip in use, and exit.",
)
def cli() -> None:
    """Earth Engine's TFRecord exports and prediction ingest, on local GeoTIFFs."""


def main(args: Sequence[str] | None = None) -> NoReturn:
    """Run the command line and exit: results on stdout, one line on stderr for what went wrong."""
    settings = Settings(args=tuple(sys.argv[1:] if args is None else args))
    _open_closed_streams()
    _spare_address_space()
    catch_signals()
    try:
        code = cli.main(
            args=None if args is None else list(args), prog_name="geotfr", standalone_mode=False, obj=settings
        )
        if sys.stdout is not None:
            sys.stdout.flush()
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.format_message(), err=True)
        code = error.exit_code
    except click.ClickException as error:
        code = _told(_usage_line(error), error.exit_code, error, settings)
    except (KeyboardInterrupt, Terminated, click.Abort) as error:
        code = _told("interrupted", _INTERRUPTED, error, settings)
    except (BrokenPipeError, SystemExit):
        # click exits with 1 for it, and for nothing else here. The reader of a stream is gone: nobody is left to
        # tell. Nor may the interpreter flush it once more.
        sys.stdout = sys.stderr = None
        code = _CANNOT_WRITE
    except OSError as error:
        code = _told(_line(error), getattr(error, "exit_code", _code_of(error)), error, settings)
    except Exception as error:
        fallback = _OUT_OF_MEMORY if _is_out_of_memory(error) else 1
        code = _told(_line(error), getattr(error, "exit_code", fallback), error, settings)
    sys.exit(int(code or 0))


def _open_closed_streams() -> None:
    """Give the numbers of standard streams that are closed to the null device.

    A file that is opened would get one of them, and what a library writes to stderr would be written into it.
    """
    for descriptor in range(3):
        try:
            os.fstat(descriptor)
        except OSError:
            # The lowest number that is free.
            os.open(os.devnull, os.O_RDWR)


def _spare_address_space() -> None:
    """Under a limit of address space (``ulimit -v``), have numpy's OpenBLAS set none aside for threads.

    Where it gets none it ends the process by itself.
    """
    with contextlib.suppress(ImportError):
        import resource

        if resource.getrlimit(resource.RLIMIT_AS)[0] != resource.RLIM_INFINITY:
            os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")


def _line(error: Exception) -> str:
    from geotfr.errors import GeotfrError

    if isinstance(error, GeotfrError):
        return str(error)
    if isinstance(error, OSError) and _is_of_streams(error):
        return f"standard output can't be written: {error.strerror}"
    if isinstance(error, OSError) and error.filename is not None:
        return f"{os.fsdecode(error.filename)}: {error.strerror}; give another path, or have it opened to you"
    if _is_out_of_memory(error):
        why = " ".join(str(error).split()) or "the system gives no more"
        return f"out of memory: {why}; use a lower --memory-limit or fewer --workers, or raise the limit (ulimit -v)"
    return f"a fault in geotfr: {type(error).__name__}: {error}; run again with --debug and report what it prints"


def _is_out_of_memory(error: BaseException) -> bool:
    """Whether an error, or what caused it, says that there is no memory: for data, a library's code, or a thread."""
    seen: BaseException | None = error
    while seen is not None:
        if isinstance(seen, MemoryError) or _NO_MEMORY.search(str(seen)):
            return True
        seen = seen.__cause__ or seen.__context__
    return False


def _code_of(error: OSError) -> int:
    """The exit code of what the system said of a file, or of a stream."""
    if _is_of_streams(error) or error.errno in _OF_WRITING:
        return _CANNOT_WRITE
    return _CANNOT_READ if error.filename is not None else 1


def _is_of_streams(error: OSError) -> bool:
    """Whether an error without a file's name came from printing: the library names the file in its own errors."""
    return (
        not hasattr(error, "exit_code")
        and error.filename is None
        and error.errno in (errno.ENOSPC, errno.EIO, errno.EBADF)
    )


def _usage_line(error: click.ClickException) -> str:
    context = getattr(error, "ctx", None)
    where = f" (see '{context.command_path} --help')" if context is not None else ""
    return f"{error.format_message()}{where}"


def _told(line: str, code: int, error: BaseException, settings: Settings) -> int:
    if settings.debug:
        import traceback

        tell("".join(traceback.format_exception(error)).rstrip(), keeps_lines=True)
    # Whatever became of what a signal raised, as an ImportError of a library that was just starting.
    end_by_signal()
    tell(f"geotfr: {line}")
    return code


def tell(text: str, *, keeps_lines: bool = False) -> None:
    """Write to stderr, where it is open: one line, whatever a file is called, or a text of ours of several."""
    from geotfr.plain_text import printable, redact

    if keeps_lines:
        text = printable(redact(text), keeps_lines=True)
    else:
        text = printable(" ".join(redact(text).splitlines()))
    with contextlib.suppress(OSError, ValueError):
        click.echo(text, err=True)


def set_debug(ctx: click.Context, param: click.Parameter, value: Any) -> None:
    """Callback of ``--debug``: remembered for the whole process."""
    del param
    if value:
        ctx.ensure_object(Settings).debug = True
