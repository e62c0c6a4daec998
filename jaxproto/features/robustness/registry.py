"""Registries of attacks and of robust centres."""

from jaxproto.core.registry import Registry, places

CENTRES: Registry = Registry(  # name -> `centres.Centre`
    "centre",
    places(
        "features.robustness.centres",
        "median",
        "trimmed_mean",
        "clipped_mean",
        "krum",
        "geometric_median",
    ),
    group="jaxproto.centres",
)
VALUES = ("sign_flip", "scale", "noise", "nan")  # change every number of an upload
PROTOTYPES = ("prototype_roll", "prototype_magnet")
ATTACKS: Registry = Registry(  # name -> method, `attacks.Attack` -> attacked method
    "attack",
    {
        **places("features.robustness.attacks", label_flip="flip_labels"),
        **places(
            "features.robustness.attacks",
            **dict.fromkeys((*VALUES, *PROTOTYPES), "change_uploads"),
        ),
        **places("features.robustness.attacks", alie="collude"),
    },
    group="jaxproto.attacks",
)
