"""Pictures by name: `jaxproto.plot`, and what the command `plot` draws."""

import argparse
from pathlib import Path
from typing import Any

from jaxproto.errors import UserError, choose_from, first_few
from jaxproto.lab import leave_out, plots
from jaxproto.lab.figures import registry
from jaxproto.lab.figures.registry import FIGURES, OPTIONS, Figure


def plot(
    picture: str, *workdirs: str | Path, out: str | Path = "", size: str = "", **options
) -> Path:
    """Draws a picture of finished runs: `jaxproto plot` from Python.

    Args:
      picture: a name of `jaxproto list plots`, such as "accuracy".
      *workdirs: directories of runs, or of folders of runs such as a sweep's.
      out: file to write, as PNG, PDF or SVG by its suffix; default `<picture>.png`.
        A file that is there is replaced.
      size: "column" or "text" for the width of a paper's column or text.
      **options: as of the command, such as `rule="head"` or `clients=[2, 5]`.

    Returns:
      The path of the file.

    Raises:
      UserError: an unknown picture or option, or runs that do not have what it shows.
    """
    figure = FIGURES[choose_from("picture", picture, FIGURES)]
    if figure.runs != "none" and not workdirs:
        raise UserError(f"{picture} is a picture of runs: name the folder of one.")
    if size:
        choose_from("size", size, plots.SIZES)
    args = argparse.Namespace(
        picture=picture,
        figure=figure,
        workdirs=[Path(path) for path in workdirs],
        out=Path(out or f"{picture}.png"),
        size=size,
        **_checked(picture, figure, options),
    )
    draw(args)
    return args.out


def _checked(picture: str, figure: Figure, options: dict[str, Any]) -> dict[str, Any]:
    """Returns every option of a picture, with the defaults of the command.

    Raises:
      UserError: an option is unknown, missing or none of the choices.
    """
    for name, value in options.items():
        choose_from(f"option of {picture}", name, figure.options)
        if choices := OPTIONS[name].get("choices"):
            choose_from(name, value, choices)
    for name in figure.options:
        if OPTIONS[name].get("required") and name not in options:
            raise UserError(f"{picture} needs the option {name}.")
    return {name: registry.default(name) for name in figure.options} | options


def draw(args: argparse.Namespace):
    """Draws the picture of checked arguments into the file `args.out`.

    Raises:
      UserError: the file cannot be written, or there are several runs for a picture
        of one.
    """
    plots.check(args.out)
    if not args.out.parent.is_dir():
        raise UserError(f"cannot write {args.out}: its folder does not exist.")
    if args.figure.runs != "none":
        args.workdirs = leave_out.find_runs(args.workdirs)
    if args.figure.runs == "one" and len(args.workdirs) > 1:
        runs = first_few(args.workdirs)
        raise UserError(f"{args.picture} is a picture of one run: name one of {runs}.")
    try:
        with plots.paper_width(args.size):
            args.figure.draw(args)
    except OSError as e:
        raise UserError(
            f"cannot write {args.out}: {e.strerror}. Choose another file."
        ) from e
