"""Command line `python -m jaxproto COMMAND`, as the console script `jaxproto`."""

from jaxproto import cli

if __name__ == "__main__":
    cli.main()
