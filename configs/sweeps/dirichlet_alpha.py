"""ProtoNorm and TinyProto, Table 2: accuracy against the Dirichlet alpha.

    jaxproto sweep --config=sweeps/dirichlet_alpha               # ProtoNorm, CIFAR-100
    jaxproto sweep --config=sweeps/dirichlet_alpha:fedtgp
    jaxproto sweep --config=sweeps/dirichlet_alpha:cifar100,tinyproto,ft
    jaxproto sweep --config=sweeps/dirichlet_alpha:digits        # a first try

Any method, three seeds of each alpha, with d = 512 as in ProtoNorm's tables, for
TinyProto 500 as in its own. alpha decides who has which examples, and therefore the
shapes: every value has programs of its own. The picture is
`accuracy_against_data.alpha.png`, the numbers `compare.md`, both in the folder of the
sweep. alpha 0.01 is left out for data sets that are too small for it.
"""

from jaxproto import config

SMALL = ("digits", "spiral")


def get_config(arg: str = ""):
    """The configuration; `arg` has a method and presets of its configuration."""
    return config.paper_width_config("dirichlet_alpha", arg, "protonorm")


def get_sweep(arg: str = ""):
    least = [] if get_config(arg).data.name in SMALL else [0.01]
    return {"seed": [0, 1, 2], "data.alpha": [*least, 0.1, 0.5, 1.0]}
