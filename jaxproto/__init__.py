"""jaxproto: prototype-based and heterogeneous federated learning in JAX.

`__all__` is the public API. Its names are imported at their first use, so that
`jaxproto --help` is fast; `__init__.pyi` says where they are.
"""

import importlib.metadata

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
__version__ = importlib.metadata.version("jaxproto")
