"""The flag --format, and how a table in one of its formats is printed."""

import sys

from absl import flags

from jaxproto.summary import table_formats


def define_format_flag() -> flags.FlagHolder[str]:
    """Defines --format."""
    there = ", ".join(table_formats.FORMATS)
    return flags.DEFINE_enum(
        "format", "text", table_formats.FORMATS, f"one of: {there}"
    )


def print_table(view: table_formats.TableView, form: str):
    """Prints a table whole; notes go to the standard error where a CSV has none."""
    print_text(table_formats.render(view, form), view.notes if form == "csv" else ())


def print_text(text: str, notes: tuple[str, ...]):
    """Prints a text as it is, and notes beside it."""
    sys.stdout.write(text)
    sys.stderr.writelines(f"{note}\n" for note in notes)
