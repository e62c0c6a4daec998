"""The registry of methods: one line each."""

from jaxproto.methods import fedproto, local, protonorm

METHODS = {
    "local": local.local,
    "fedproto": fedproto.fedproto,
    "protonorm": protonorm.protonorm,
}
