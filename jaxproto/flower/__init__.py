"""Real clients: any method of the simulator as a ServerApp and a ClientApp of Flower.

    from jaxproto.flower import client_app, server_app

It needs the extra `flower`; both are imported when they are first used.
`run_in_process` needs nothing more.
"""

import importlib

_HOMES = {"client_app": "apps", "parse_config": "apps", "server_app": "apps"}
_HOMES |= {"deploy": "deployment", "simulate": "simulation"}
_HOMES |= {"rehearse": "process"}

__all__ = ["client_app", "deploy", "parse_config", "rehearse", "server_app"]
__all__ += ["simulate"]


def __getattr__(name):
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
