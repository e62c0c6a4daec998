"""What this layer adds to the command line (`jaxproto/plugins.py`)."""

COMMANDS = {  # name -> function, what it does
    "flower": (
        "jaxproto.nodes.cli.flower:main",
        "run or resume one experiment with Flower",
    ),
}
