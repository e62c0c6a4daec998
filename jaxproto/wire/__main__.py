"""What crosses the network, and what it reveals: `disclosure.py`."""

if __name__ == "__main__":
    from jaxproto.report import disclosure

    disclosure.start()
