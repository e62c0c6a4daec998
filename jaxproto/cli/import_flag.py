"""The flag --import of every command: files that register methods and networks."""

from collections.abc import Sequence

from jaxproto.io.user_files import FLAG, import_file

imported: list[str] = []  # files, as given on the command line


def import_files(arguments: Sequence[str]) -> list[str]:
    """Imports the files of all --import=FILE; returns the other arguments."""
    rest, files = [], []
    words = iter(arguments)
    for word in words:
        flag, equals, file = word.partition("=")
        if flag == FLAG:
            files.append(file if equals else next(words, ""))
        else:
            rest.append(word)
    imported[:] = [import_file(file) for file in files]
    return rest
