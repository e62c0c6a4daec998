"""Robust aggregation and hostile clients as features of a run."""

from jaxproto import plugins
from jaxproto.config.features import Feature
from jaxproto.config.field import OFF, TRACED, Field, Names
from jaxproto.core.hyperparameters import BELOW_ONE, POSITIVE, Range
from jaxproto.features.robustness.registry import ATTACKS, CENTRES

BELOW_HALF = Range("at least 0 and below 0.5", 0, 0.5, "[)")
HOME = "jaxproto.features.robustness.hostile_clients"

# fmt: off
ROBUST = Feature(
    switch="robust.aggregate",
    fields={
    "robust.aggregate": Field("off", "robust centre of the uploads, of which the server takes its mean", Names([OFF], CENTRES)),
    "robust.share": Field(0.3, "share of hostile clients that trimmed_mean and krum withstand", BELOW_HALF, TRACED),
    },
    unused=("wire.bound",),  # of programs; servers of nodes read it
    wrap=plugins.lazy(f"{HOME}:with_robust_aggregation"),
)
ATTACK = Feature(
    switch="attack.kind",
    fields={
    "attack.kind": Field("off", "attack of the hostile clients, whose own results are left out", Names([OFF], ATTACKS)),
    "attack.share": Field(0.2, "share of hostile clients, drawn by data.seed", BELOW_ONE, TRACED),
    "attack.clients": Field("", "ids of the hostile clients joined by commas; empty: attack.share of them"),
    "attack.strength": Field(1.0, "strength of the attack, in units of its kind", POSITIVE, TRACED),
    },
    check=plugins.lazy(f"{HOME}:check"),
    wrap=plugins.lazy(f"{HOME}:with_attack"),
)
# fmt: on
