"""What this layer adds to a run (`jaxproto/plugins.py`)."""

FEATURES = {  # name -> `Feature`, in the order in which they are applied
    "robust": "jaxproto.features.robustness.feature:ROBUST",
    "attack": "jaxproto.features.robustness.feature:ATTACK",
    "privacy": "jaxproto.features.privacy.feature:PRIVACY",
    "time": "jaxproto.features.timing.feature:TIME",
}

REGISTRIES = {  # kind -> registry (`jaxproto.register`)
    "centre": "jaxproto.features.robustness.registry:CENTRES",
    "attack": "jaxproto.features.robustness.registry:ATTACKS",
}
