"""Registry of methods."""

from collections.abc import Callable
from importlib import metadata

from jaxproto.method import Method
from jaxproto.methods import (
    cps_ppa_cpkd,
    fast,
    fedavg,
    feddistill,
    fedgh,
    fedkd,
    fednh,
    fednova,
    fedper,
    fedproto,
    fedprox,
    fedtgp,
    feduv,
    fml,
    lg_fedavg,
    local,
    protonorm,
    refprotofl,
    tinyproto,
    vhl,
)

REFERENCE = "local"  # what every comparison is read against
CENTRAL = "fedavg"  # trains one network on all data, if one client has them
METHODS: dict[str, Callable[..., Method]] = {
    "local": local.local,
    "fedproto": fedproto.fedproto,
    "protonorm": protonorm.protonorm,
    "refprotofl": refprotofl.refprotofl,
    "fedtgp": fedtgp.fedtgp,
    "tinyproto": tinyproto.tinyproto,
    "cps_ppa_cpkd": cps_ppa_cpkd.cps_ppa_cpkd,
    "fedavg": fedavg.fedavg,
    "fedprox": fedprox.fedprox,
    "fednova": fednova.fednova,
    "fednh": fednh.fednh,
    "feduv": feduv.feduv,
    "vhl": vhl.vhl,
    "fast": fast.fast,
    "fedper": fedper.fedper,
    "lg_fedavg": lg_fedavg.lg_fedavg,
    "fml": fml.fml,
    "fedkd": fedkd.fedkd,
    "feddistill": feddistill.feddistill,
    "fedgh": fedgh.fedgh,
}
# Methods of installed packages: entry points `NAME = "module:factory"` of this group
METHODS.update(
    (point.name, point.load())
    for point in metadata.entry_points(group="jaxproto.methods")
    if point.name not in METHODS
)
