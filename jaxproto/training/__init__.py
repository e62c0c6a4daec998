"""Runs on the host: compiled programs, loop over rounds, client stores, progress.

The local steps of a client are in `jaxproto/round/client.py`.
"""
