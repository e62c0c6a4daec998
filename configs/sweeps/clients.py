"""ProtoNorm and TinyProto, Table 2: accuracy against the number of clients.

    jaxproto sweep --config=sweeps/clients                       # ProtoNorm, CIFAR-100
    jaxproto sweep --config=sweeps/clients:fedtgp
    jaxproto sweep --config=sweeps/clients:cifar100,tinyproto,ft
    jaxproto sweep --config=sweeps/clients:digits                # a first try

Any method, three seeds of each number, with d = 512 as in ProtoNorm's tables, for
TinyProto 500 as in its own. The number of clients is a shape: every value has programs
of its own. The picture is `accuracy_against_data.clients.png`, the numbers
`compare.md`, both in the folder of the sweep. Small data sets have fewer clients.
"""

from jaxproto import config

FEW = {"digits": [5, 10, 20], "spiral": [2, 5, 10]}


def get_config(arg: str = ""):
    """The configuration; `arg` has a method and presets of its configuration."""
    return config.paper_width_config("clients", arg, "protonorm")


def get_sweep(arg: str = ""):
    numbers = FEW.get(get_config(arg).data.name, [20, 50, 100])
    return {"seed": [0, 1, 2], "data.clients": numbers}
