"""Differential privacy as a feature of a run."""

from jaxproto import plugins
from jaxproto.config.features import Feature
from jaxproto.config.field import BETWEEN_0_AND_1, TRACED, UNUSED, Field, Names
from jaxproto.core.hyperparameters import POSITIVE
from jaxproto.wrappers.privacy import UNITS

HOME = "jaxproto.features.privacy.guarantee"

# fmt: off
PRIVACY = Feature(
    switch="privacy.unit",
    fields={
    "privacy.unit": Field("off", "unit of protection of differential privacy: a client or an example", Names(UNITS)),
    "privacy.clip": Field(1.0, "maximum L2 norm of what a unit contributes to a sum", POSITIVE, TRACED),
    "privacy.noise": Field(1.0, "standard deviation of the noise on a sum, in units of privacy.clip", POSITIVE, TRACED),
    "privacy.delta": Field(1e-5, "delta of the (epsilon, delta) guarantee", BETWEEN_0_AND_1, UNUSED),
    "privacy.secret": Field(True, "on nodes, noise and sampling follow from a secret of each node; off (rehearsals): from seed", program=UNUSED, names_run=False, compared=False),
    },
    check=plugins.lazy(f"{HOME}:check"),
    check_data=plugins.lazy(f"{HOME}:check_data"),
    arguments={"privacy": plugins.lazy(f"{HOME}:privacy_of")},
    wrap=plugins.lazy(f"{HOME}:with_private_training"),
    account=plugins.lazy("jaxproto.features.privacy.ledger:privacy_ledger"),
)
# fmt: on
