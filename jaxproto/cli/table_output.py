"""The flag --format, and the output of tables in its formats."""

import shutil
import sys

from absl import flags

from jaxproto.summary import table_formats


def define_format_flag() -> flags.FlagHolder[str]:
    """Defines --format."""
    names = table_formats.FORMATS
    return flags.DEFINE_enum("format", "text", names, f"one of: {', '.join(names)}")


def print_table(view: table_formats.TableView, form: str):
    """Prints a table; with format csv, notes go to the standard error."""
    text = table_formats.render(view, form, terminal_width())
    print_text(text, view.notes if form == "csv" else ())


def terminal_width() -> int:
    """Returns the columns of the terminal; 0 if the output is not a terminal."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else 0


def print_text(text: str, notes: tuple[str, ...]):
    """Prints a text to the standard output, and notes to the standard error."""
    sys.stdout.write(text)
    sys.stderr.writelines(f"{note}\n" for note in notes)
