"""Methods as papers print their names."""

from collections.abc import Mapping

METHODS = {
    "local": "Local",
    "fedproto": "FedProto",
    "protonorm": "ProtoNorm",
    "refprotofl": "RefProtoFL",
    "fedtgp": "FedTGP",
    "tinyproto": "TinyProto",
    "cps_ppa_cpkd": "CPS + PPA + CPKD",
    "fedavg": "FedAvg",
    "fedprox": "FedProx",
    "fednova": "FedNova",
    "fednh": "FedNH",
    "feduv": "FedUV",
    "vhl": "VHL",
    "fast": "FAST",
    "fedper": "FedPer",
    "lg_fedavg": "LG-FedAvg",
    "fml": "FML",
    "fedkd": "FedKD",
    "feddistill": "FedDistill",
    "fedgh": "FedGH",
}
TINYPROTO = {"fedproto": "TinyProto-FP", "fedtgp": "TinyProto-FT"}  # by base, T
COMPONENTS = {  # of S, as printed -> the field that is "none" without it
    "CPS": "method.masks",
    "PPA": "method.scaling",
    "CPKD": "method.distill",
}


def method(fields: Mapping) -> str:
    """How papers print the method of a run; its own name if none of them has it.

    Args:
      fields: the flat fields of its configuration.
    """
    name, base = fields["method.name"], fields.get("method.base")
    shown = METHODS.get(name, name)
    if not base:
        return shown
    if name == "tinyproto" and base in TINYPROTO:
        return TINYPROTO[base]
    if name == "cps_ppa_cpkd":
        on = [k for k, field in COMPONENTS.items() if fields.get(field) != "none"]
        without = "" if on else f" without {', '.join(COMPONENTS)}"
        return " + ".join([METHODS.get(base, base), *on]) + without
    return f"{shown} on {METHODS.get(base, base)}"
