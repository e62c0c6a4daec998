"""ProtoNorm and TinyProto, Table 2: accuracy against the number of clients.

    jaxproto sweep --config=sweeps/clients                       # ProtoNorm, CIFAR-100
    jaxproto sweep --config=sweeps/clients:fedtgp
    jaxproto sweep --config=sweeps/clients:cifar100,tinyproto,ft
    jaxproto sweep --config=sweeps/clients:digits                # a quick try

Works for any method, with three seeds per value and d = 512 as in ProtoNorm's tables
(TinyProto: 500, as in its tables). The number of clients is a shape, so each value
needs its own programs. The sweep writes the figure `accuracy_against_data.clients.png`
and the numbers in `compare.md` to its directory. Small data sets have fewer clients.
"""

from jaxproto import config

FEW = {"digits": [5, 10, 20], "spiral": [2, 5, 10]}


def get_config(arg: str = ""):
    return config.paper_width_config("clients", arg, "protonorm")


def get_sweep(arg: str = ""):
    numbers = FEW.get(get_config(arg).data.name, [20, 50, 100])
    return {"seed": [0, 1, 2], "data.clients": numbers}
