"""jaxproto: prototype-based and heterogeneous federated learning in JAX.

`__all__` is the public API. Its names are imported at their first use, so that
`jaxproto --help` is fast.
"""

import importlib
import importlib.metadata

_HOMES = {  # public name -> module, and name in the module unless it is the module
    "METHODS": ("methods", "METHODS"),
    "Callback": ("callbacks", "Callback"),
    "Method": ("core.method", "Method"),
    "Stop": ("callbacks", "Stop"),
    "UserError": ("errors", "UserError"),
    "check": ("experiment.check", "check"),
    "config": ("config",),
    "debug": ("training.debug", "debug"),
    "default_config": ("config", "default"),
    "load": ("lab.saved_runs", "load"),
    "run": ("training.runner", "run"),
    "sweep": ("lab.sweeps", "sweep"),
}

__all__ = [*_HOMES]


def __getattr__(name):
    if name == "__version__":
        return importlib.metadata.version("jaxproto")
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module, *inside = _HOMES[name]
    imported = importlib.import_module(f"{__name__}.{module}")
    return getattr(imported, inside[0]) if inside else imported


def __dir__():
    return sorted({*globals(), *__all__, "__version__"})
