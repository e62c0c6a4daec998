"""jaxproto: prototype-based and heterogeneous federated learning in JAX."""

from jaxproto.config import default as default_config
from jaxproto.errors import UserError
from jaxproto.method import Method
from jaxproto.methods import METHODS
from jaxproto.runner import run

__all__ = ["METHODS", "Method", "UserError", "default_config", "run"]
