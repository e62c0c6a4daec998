"""ProtoNorm and TinyProto, Table 2: accuracy against the Dirichlet alpha.

    jaxproto sweep --config=sweeps/dirichlet_alpha               # ProtoNorm, CIFAR-100
    jaxproto sweep --config=sweeps/dirichlet_alpha:fedtgp
    jaxproto sweep --config=sweeps/dirichlet_alpha:cifar100,tinyproto,ft
    jaxproto sweep --config=sweeps/dirichlet_alpha:digits        # a quick try

Works for any method, with three seeds per alpha and d = 512 as in ProtoNorm's tables
(TinyProto: 500, as in its tables). alpha determines the partition and therefore the
shapes, so each value needs its own programs. The sweep writes the figure
`accuracy_against_data.alpha.png` and the numbers in `compare.md` to its directory. Data
sets that are too small for alpha 0.01 leave it out.
"""

from jaxproto import config

SMALL = ("digits", "spiral")


def get_config(arg: str = ""):
    return config.paper_width_config("dirichlet_alpha", arg, "protonorm")


def get_sweep(arg: str = ""):
    smallest = [] if get_config(arg).data.name in SMALL else [0.01]
    return {"seed": [0, 1, 2], "data.alpha": [*smallest, 0.1, 0.5, 1.0]}
