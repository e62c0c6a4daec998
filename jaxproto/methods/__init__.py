"""Registry of methods."""

from collections.abc import Callable
from importlib import metadata

from jaxproto.method import Method
from jaxproto.methods import (
    cps_ppa_cpkd,
    ditto,
    fast,
    fedavg,
    feddf,
    feddistill,
    feddyn,
    fedgen,
    fedgh,
    fedhp,
    fedkd,
    fedl2g,
    fedmd,
    fedmrl,
    fednh,
    fednova,
    fedpac,
    fedpcl,
    fedper,
    fedproc,
    fedproto,
    fedprox,
    fedrep,
    fedsa,
    fedtgp,
    feduv,
    fml,
    fpl,
    heterofl,
    lg_fedavg,
    local,
    moon,
    protonorm,
    refprotofl,
    scaffold,
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
    "moon": moon.moon,
    "fedproc": fedproc.fedproc,
    "fpl": fpl.fpl,
    "scaffold": scaffold.scaffold,
    "feddyn": feddyn.feddyn,
    "fednh": fednh.fednh,
    "feduv": feduv.feduv,
    "vhl": vhl.vhl,
    "fast": fast.fast,
    "feddf": feddf.feddf,
    "heterofl": heterofl.heterofl,
    "fedper": fedper.fedper,
    "fedrep": fedrep.fedrep,
    "fedpac": fedpac.fedpac,
    "ditto": ditto.ditto,
    "lg_fedavg": lg_fedavg.lg_fedavg,
    "fml": fml.fml,
    "fedkd": fedkd.fedkd,
    "fedmrl": fedmrl.fedmrl,
    "fedmd": fedmd.fedmd,
    "feddistill": feddistill.feddistill,
    "fedgh": fedgh.fedgh,
    "fedgen": fedgen.fedgen,
    "fedpcl": fedpcl.fedpcl,
    "fedhp": fedhp.fedhp,
    "fedsa": fedsa.fedsa,
    "fedl2g": fedl2g.fedl2g,
}
# Methods of installed packages: entry points `NAME = "module:factory"` of this group
METHODS.update(
    (point.name, point.load())
    for point in metadata.entry_points(group="jaxproto.methods")
    if point.name not in METHODS
)
