"""The file of a page: written whole, and never over what is no page."""

from pathlib import Path

from jaxproto.errors import UserError
from jaxproto.io import atomic

MARK = '<meta name="generator" content="jaxproto report">'
NEAR = 1000  # bytes from the beginning in which a page has its mark


def check(path: Path, overwrite: bool = False):
    """Raises UserError unless a page may be written there.

    Args:
      path: of the file.
      overwrite: whatever the file is; a page of an earlier call gives way anyhow.
    """
    if path.suffix.lower() not in (".html", ".htm"):
        raise UserError(f"{path} does not end in .html: give an HTML file to write.")
    if not path.parent.is_dir():
        raise UserError(f"cannot write {path}: its folder does not exist. Make it.")
    try:
        kind = atomic.file_type(path)
        begin = b"" if kind else _beginning(path)
    except FileNotFoundError:
        return
    except OSError as e:
        raise UserError(
            f"cannot write {path}: {e.strerror}. Choose another file."
        ) from e
    if kind:
        raise UserError(f"cannot write {path}: it is {kind}. Name another file.")
    if MARK.encode() not in begin and not overwrite:
        raise UserError(
            f"{path} is there already and is no page of this command: name another "
            "file, or give --overwrite."
        )


def _beginning(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(NEAR)


def write(path: Path, html: str):
    """Writes a page in one piece; whoever reads it sees the old or the new one.

    Raises:
      Unwritable: the system refuses.
    """
    atomic.write(path, html.encode("utf-8", "backslashreplace"))
