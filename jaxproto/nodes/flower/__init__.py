"""Real clients: any method of the simulator as a ServerApp and a ClientApp of Flower.

    from jaxproto.nodes.flower import client_app, server_app

Both need the extra `flower` and are imported on first use. `run_in_process` needs no
extra. `apps.py` has the interface to Flower. `server.py` has the server, an `Engine` of
the loop over rounds. `node.py` has a client, which is a cohort of one.
"""

import importlib
import warnings

_MODULES = {"client_app": "apps", "parse_config": "protocol", "server_app": "apps"}
_MODULES |= {"run_in_process": "in_process", "simulate": "simulation"}

_RENAMED = {"configuration": "parse_config", "rehearse": "run_in_process"}


def __getattr__(name):
    if new := _RENAMED.get(name):  # for one release
        text = f"jaxproto.nodes.flower.{name} is now jaxproto.nodes.flower.{new}"
        warnings.warn(text, DeprecationWarning, stacklevel=2)
        name = new
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_MODULES[name]}"), name)
