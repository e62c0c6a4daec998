"""`python -m jaxproto COMMAND`: the same as the console script `jaxproto`."""

from jaxproto import cli

if __name__ == "__main__":
    cli.main()
