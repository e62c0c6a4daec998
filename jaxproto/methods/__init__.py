"""Registry of methods."""

from collections.abc import Callable

from jaxproto.core.method import Method
from jaxproto.core.registry import Place, Registry

REFERENCE = "local"  # what every comparison is read against
FIRST = (REFERENCE, "fedproto", "fedavg")  # baselines of a first comparison
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
    {name: Place(f"jaxproto.methods.{name}:{name}") for name in NAMES},
    group="jaxproto.methods",
)
