"""The flag --format, and how a table in one of its formats is printed."""

import sys

from absl import flags

from jaxproto.report import rendering


def flag() -> flags.FlagHolder[str]:
    """Defines --format."""
    there = ", ".join(rendering.FORMATS)
    return flags.DEFINE_enum("format", "text", rendering.FORMATS, f"one of: {there}")


def show(view: rendering.View, form: str):
    """Prints a table whole; notes go to the standard error where a CSV has none."""
    put(rendering.render(view, form), view.notes if form == "csv" else ())


def put(text: str, notes: tuple[str, ...]):
    """Prints a text as it is, and notes beside it."""
    sys.stdout.write(text)
    sys.stderr.writelines(f"{note}\n" for note in notes)
