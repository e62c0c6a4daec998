"""Registry of methods."""

from collections.abc import Callable
from importlib import import_module, metadata

from jaxproto.core.method import Method
from jaxproto.core.registry import Registry

REFERENCE = "local"  # what every comparison is read against
CENTRAL = "fedavg"  # trains one network on all data, if one client has them
NAMES = (  # of the modules here, each with a factory of its name
    "local",
    "fedproto",
    "protonorm",
    "refprotofl",
    "fedtgp",
    "tinyproto",
    "cps_ppa_cpkd",
    "fedavg",
    "fedprox",
    "fednova",
    "moon",
    "fedproc",
    "fpl",
    "scaffold",
    "feddyn",
    "fednh",
    "feduv",
    "vhl",
    "fast",
    "feddf",
    "heterofl",
    "fedper",
    "fedrep",
    "fedpac",
    "ditto",
    "lg_fedavg",
    "fml",
    "fedkd",
    "fedmrl",
    "fedmd",
    "feddistill",
    "fedgh",
    "fedgen",
    "fedpcl",
    "fedhp",
    "fedsa",
    "fedl2g",
)
METHODS: Registry[Callable[..., Method]] = Registry(
    "method",
    {name: getattr(import_module(f"jaxproto.methods.{name}"), name) for name in NAMES},
)
# Methods of installed packages: entry points `NAME = "module:factory"` of this group
METHODS.update(
    (point.name, point.load())
    for point in metadata.entry_points(group="jaxproto.methods")
    if point.name not in METHODS
)
