"""Files of pages, which replace only earlier pages unless the command allows it."""

from pathlib import Path

from jaxproto.errors import UserError
from jaxproto.io import atomic

MARK = '<meta name="generator" content="jaxproto report">'
NEAR = 1000  # first bytes of a page, which have its mark


def check(path: Path, overwrite: bool = False):
    """Raises UserError unless a page may be written to a file.

    Args:
      path: File to write.
      overwrite: Whether any file may be replaced; earlier pages always may.
    """
    if path.suffix.lower() not in (".html", ".htm"):
        raise UserError(f"{path} does not end in .html: give an HTML file to write.")
    if not path.parent.is_dir():
        raise UserError(f"cannot write {path}: its folder does not exist. Make it.")
    try:
        if kind := atomic.file_type(path):
            raise UserError(f"cannot write {path}: it is {kind}. Name another file.")
        with path.open("rb") as file:
            is_page = MARK.encode() in file.read(NEAR)
    except FileNotFoundError:
        return
    except OSError as e:
        why = e.strerror
        raise UserError(f"cannot write {path}: {why}. Choose another file.") from e
    if not is_page and not overwrite:
        raise UserError(
            f"{path} is there already and is no page of this command: name another "
            "file, or give --overwrite."
        )


def write(path: Path, html: str):
    """Writes a page in one piece: readers see the old or the new one.

    Raises:
      Unwritable: the system refuses.
    """
    atomic.write(path, html.encode("utf-8", "backslashreplace"))
