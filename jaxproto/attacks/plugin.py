"""What this layer adds to the command line (`jaxproto/plugins.py`)."""

COMMANDS = {  # name -> function, what it does
    "leak": (
        "jaxproto.attacks.cli.leak:main",
        "attacks on the uploads of finished runs: tables, pictures",
    ),
    "audit": (
        "jaxproto.attacks.cli.audit:main",
        "lower bounds on epsilon of runs under privacy, beside the claimed one",
    ),
}
