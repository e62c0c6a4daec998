"""The registry of methods: one line each."""

from jaxproto.methods import (
    cps_ppa_cpkd,
    fedproto,
    fedtgp,
    local,
    protonorm,
    refprotofl,
    tinyproto,
)

METHODS = {
    "local": local.local,
    "fedproto": fedproto.fedproto,
    "protonorm": protonorm.protonorm,
    "refprotofl": refprotofl.refprotofl,
    "fedtgp": fedtgp.fedtgp,
    "tinyproto": tinyproto.tinyproto,
    "cps_ppa_cpkd": cps_ppa_cpkd.cps_ppa_cpkd,
}
