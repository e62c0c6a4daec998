"""What this layer adds to a run and to the command line (`jaxproto/plugins.py`)."""

from jaxproto.papers import variants

READINGS = variants.READINGS  # method -> name of a reading -> fields

COMMANDS = {  # name -> function, what it does
    "prepare": (
        "jaxproto.papers.cli.prepare:main",
        "download and prepare a data set for data.name",
    ),
}

NAMED_READERS = {  # prefix of data.name -> function of name, data_dir and pixels, about
    "tfds": (
        "jaxproto.papers.data.tfds_reader:load",
        "a prepared TFDS directory; `jaxproto prepare NAME` makes it",
    ),
}
