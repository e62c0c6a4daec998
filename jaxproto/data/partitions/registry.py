"""Partition schemes by name.

A new scheme is a function that returns a `Scheme`, and an entry of PARTITIONS.
Optional layers read partitions of other programs.
"""

from collections.abc import Callable

from jaxproto import plugins
from jaxproto.core.registry import Registry, places

PARTITIONS: Registry[Callable] = Registry(  # name -> function that returns a `Scheme`
    "partition",
    {
        **places(
            "data.partitions.label_skew",
            "iid",
            "dirichlet",
            "extended_dirichlet",
            "pathological",
            "shards",
        ),
        **places(
            "data.partitions.other_skews",
            quantity="quantity_skew",
            lognormal="lognormal_sizes",
            feature="by_domain",
        ),
        **places(
            "data.partitions.pfllib",
            "pfllib_pathological",
            pfllib="pfllib_dirichlet",
        ),
    },
    group="jaxproto.partitions",
)
_READ, _SCHEMES = plugins.table("PARTITIONS"), plugins.table("SCHEMES")
READ = {k: plugins.lazy(place) for k, (place, _) in _READ.items()}  # -> Partition
SCHEMES = {k: plugins.lazy(place) for k, (place, _) in _SCHEMES.items()}  # -> Scheme
USAGE = [usage for _, usage in (*_READ.values(), *_SCHEMES.values())]  # "file:PATH"
