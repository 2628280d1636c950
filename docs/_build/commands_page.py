"""The reference of the command line, made from click's commands.

python docs/_build/commands_page.py

prints the page.
"""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING

import click
from geotfr_cli.main import cli

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["commands_page"]

INTRODUCTION = """# Commands

Made from the commands themselves; `geotfr COMMAND --help` prints the same. Results go to stdout (`--json`: as JSON),
warnings and progress to stderr. Pairs are width, height: `256`, `256,128`, `256x128`. Sizes: `104857600`, `100MiB`,
`100MB`, `1e9`.
"""


def commands_page() -> str:
    """The page in Markdown: a section for each command, a table of its options."""
    parts = [INTRODUCTION]
    with click.Context(cli, info_name="geotfr") as context:
        for name in cli.list_commands(context):
            command = cli.get_command(context, name)
            if command is not None:
                parts.append(section(name, command, context))
                for part in command.commands.values() if isinstance(command, click.Group) else ():
                    parts.append(section(f"{name} {part.name}", part, context))
    codes = (cli.epilog or "").removeprefix("Exit codes: ").rstrip(".")
    parts.append("## Exit codes\n\n| code | meaning |\n| --- | --- |\n" + "".join(code_rows(codes)))
    return "\n".join(parts)


def section(name: str, command: click.Command, parent: click.Context) -> str:
    """Usage, description, options and example of one command."""
    with click.Context(command, parent=parent, info_name=name) as context:
        usage = " ".join(command.collect_usage_pieces(context))
        lines = [f"## {name}", "", f"```text\ngeotfr {name} {usage}\n```", "", inspect.cleandoc(command.help or ""), ""]
        lines += ["| option | meaning |", "| --- | --- |", *option_rows(command, context), ""]
    if command.epilog:
        example = command.epilog.removeprefix("Example:").strip()
        lines += [f"```sh\n{example}\n```", ""]
    return "\n".join(lines)


def option_rows(command: click.Command, context: click.Context) -> Iterator[str]:
    """A row of the table for each option, as its help tells it."""
    for parameter in command.get_params(context):
        record = parameter.get_help_record(context)
        if record is not None and isinstance(parameter, click.Option):
            names, meaning = record
            yield f"| `{names}` | {cell(' '.join(meaning.split()))} |"


def code_rows(codes: str) -> Iterator[str]:
    """A row for each exit code of the epilog's list."""
    for entry in codes.split(", "):
        number, _, meaning = entry.partition(" ")
        yield f"| {number} | {meaning} |\n"


def cell(text: str) -> str:
    """``text`` in a cell: no bar ends it, nothing in it is taken for a tag or for emphasis."""
    for sign in ("\\", "|", "<", "*", "_", "[", "]"):
        text = text.replace(sign, f"\\{sign}")
    return text


if __name__ == "__main__":
    print(commands_page())
