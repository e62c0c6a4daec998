"""The cells of the papers' tables as settings of a run, and back.

The printed numbers are in `published.csv` (spec 6): T tinyproto_aaai26, S
cps_ppa_cpkd_iclr_sub, N protonorm, R refprotofl. Hyper-parameters: T 5.1, S 5.1, N 5.1,
R 5.1 as the configurations of the methods have them.
"""

import csv
import functools
from collections.abc import Mapping
from importlib import resources
from typing import NamedTuple

import ml_collections

from jaxproto import config, presets
from jaxproto.compare.runs import IGNORED

PRESETS = {  # as printed -> preset of `presets.DATASETS`
    "CIFAR-10": "cifar10",
    "CIFAR-100": "cifar100",
    "Flowers-102": "flowers102",
    "TinyImageNet-200": "tiny_imagenet",
    "GTSRB-43": "gtsrb",
    "AG News": "ag_news",
    "MNIST": "mnist",
    "FashionMNIST": "fashion_mnist",
}
SPELLINGS = {
    "oxford_flowers102": "flowers102",
    "gtsrb43/torchvision": "gtsrb",
    "ag_news_subset": "ag_news",
}
SAME = {  # values that are one setting of a paper
    "pfllib": "dirichlet",
    "pfllib_pathological": "pathological",
    "resnet18": "HmRes18",
    "cnn4": "HmCNN",
}
GROUPS = {  # as printed, up to the bracket -> model.group
    "Ht0": "Ht0",
    "4-layer CNN": "HmCNN",
    "ResNet-18": "HmRes18",
    "fastText+TextCNN": "text",
}
NAMES = {  # methods whose cells need no more than a name
    "FAST": "fast",
    "FML": "fml",
    "FedAvg": "fedavg",
    "FedDistill": "feddistill",
    "FedGH": "fedgh",
    "FedKD": "fedkd",
    "FedNH": "fednh",
    "FedNova": "fednova",
    "FedProto": "fedproto",
    "FedProx": "fedprox",
    "FedTGP": "fedtgp",
    "FedUV": "feduv",
    "LG-FedAvg": "lg_fedavg",
    "VHL": "vhl",
}
ABLATIONS = {  # of RefProtoFL, R Table 1
    "": {},
    "Full": {},
    "w/o ERPA": {"method.anchors": "none"},
    "w/o APUD": {"method.budget": 1.0},
    "w/o APUD & ERPA": {"method.anchors": "none", "method.budget": 1.0},
}
CLASSES_PER_CLIENT = {  # spec 4.1 item 4
    "CIFAR-10": 2,
    "CIFAR-100": 10,
    "Flowers-102": 10,
    "TinyImageNet-200": 20,
}
ACCURACY = ("accuracy", "top1_accuracy")
COST = ("comm_cost",)  # millions of scalars per round, both directions
UNSAID = IGNORED | {"data.name", "eval_every"}  # what no paper says of its runs


class Printed(NamedTuple):
    """One number of a paper, as strings; see the header of `published.csv`."""

    source: str
    table: str
    dataset: str
    partition: str
    alpha: str
    clients: str
    feature_dim: str
    models: str
    method: str
    variant: str
    metric: str
    mean: str
    std: str
    unit: str


class Cell(NamedTuple):
    """What a printed number was measured with, as flat fields of a configuration."""

    identity: dict  # what makes it this cell
    chosen: dict  # what the papers state besides, where `identity` says nothing


@functools.cache
def printed() -> tuple[Printed, ...]:
    """Every number that the papers' tables print."""
    text = resources.files("jaxproto.compare").joinpath("published.csv").read_text()
    return tuple(Printed(**row) for row in csv.DictReader(text.splitlines()))


def cell(row: Printed) -> Cell | None:
    """The settings of a printed accuracy or cost; None if no configuration has them.

    Those are averages over data sets, and FedProto and FedTGP scaled by gamma (N Table
    5), which no method of the library does.
    """
    if row.dataset not in PRESETS or row.metric not in (*ACCURACY, *COST):
        return None
    method, of_r = _method(row), row.source == "refprotofl"
    return method and Cell(
        {
            "dataset": PRESETS[row.dataset],
            "data.clients": int(row.clients),
            "model.group": GROUPS[row.models.partition("(")[0]],
            "data.pool": not of_r,  # which examples clients are tested on
            **_partition(row),
            **method.identity,
        },
        {**(presets.REFPROTOFL if of_r else {}), **method.chosen},
    )


def _partition(row: Printed) -> dict:
    """How the data of a row are divided, and d where it is stated."""
    wide = {"model.feat_dim": int(row.feature_dim)} if row.feature_dim else {}
    if row.partition == "pathological":
        each = CLASSES_PER_CLIENT[row.dataset]
        kind = {"data.partition": "pfllib_pathological"}
        return {**wide, **kind, "data.classes_per_client": each}
    kind = "dirichlet" if row.source == "refprotofl" else "pfllib"
    return {**wide, "data.partition": kind, "data.alpha": float(row.alpha or 0.1)}


def _method(row: Printed) -> Cell | None:
    """Name and hyper-parameters of the method of a row."""
    weak = {"method.lam": 0.1} if row.source.startswith("cps") else {}  # S 5.1
    if row.method.startswith("TinyProto"):
        return _tinyproto(row)
    if row.method == "ProtoNorm":
        gamma = row.variant.partition(";")[0].removeprefix("gamma=")
        stated = float(gamma) if gamma.replace(".", "").isdigit() else None
        upscale = {"method.upscale": stated or presets.UPSCALE[PRESETS[row.dataset]]}
        return Cell({**_named("protonorm"), **upscale}, {})
    if row.method == "RefProtoFL":
        identity = {"method.anchors": "external", "method.budget": 0.1}
        identity |= ABLATIONS[row.variant]
        return Cell({**_named("refprotofl"), **identity}, {"data.public_share": 0.01})
    if "gamma" in row.variant:
        return None
    if "CPS" in row.variant or row.variant in ("PPA", "CPKD"):
        return _components(row, weak)
    return Cell(_named(NAMES[row.method]), _chosen(row, weak))


def _chosen(row: Printed, weak: Mapping) -> dict:
    """What goes with a method whose cells need no more than a name."""
    name = NAMES[row.method]
    fields = {**presets.AROUND.get(name, {})}
    if name in ("fedproto", "fedtgp"):
        fields |= weak
    if name == "feduv":
        fields["method.statistics"] = "averaged"  # spec 2.17
    if row.source == "refprotofl":
        fields |= presets.IN_REFPROTOFL.get(name, {})
    if name in ("fml", "fedkd") and row.dataset == "AG News":
        fields |= presets.AUX_OF_TEXTS
    return fields


def _named(name: str) -> dict:
    return {"method.name": name}


def _tinyproto(row: Printed) -> Cell:
    words = row.variant.split(";")
    identity = {
        **_named("tinyproto"),
        "method.base": "fedtgp" if row.method.endswith("-FT") else "fedproto",
        "method.masks": "none" if "CPS=0" in words else "free",
        "method.scaling": "none" if "APS=0" in words else "sum",
        "method.s": 50,
    }
    return Cell(identity, {"method.mu": presets.MU[PRESETS[row.dataset]]})


def _components(row: Printed, weak: Mapping) -> Cell:
    """S Table 1 and 2: which of CPS, PPA and CPKD are on."""
    words = row.variant.split(";")
    kept = [w.removeprefix("CPS s=") for w in words if w.startswith("CPS")]
    identity = {
        **_named("cps_ppa_cpkd"),
        "method.base": row.method.lower(),
        "method.masks": "block" if kept else "none",
        "method.scaling": "sum" if "PPA" in words else "none",
        "method.distill": "cpkd" if "CPKD" in words else "none",
    }
    if kept:
        identity["method.s"] = int(kept[0])
    return Cell(identity, dict(weak))


def _plain(value):
    """One value for all that are one setting of a paper."""
    return SAME.get(value, value) if isinstance(value, str) else value


def matches(wanted: Mapping, fields: Mapping, dataset: str) -> bool:
    """Whether a run with the flat fields `fields` is in the cell `wanted`."""
    have = {**fields, "dataset": SPELLINGS.get(dataset, dataset)}
    return all(_plain(have.get(key)) == _plain(value) for key, value in wanted.items())


def beside(fields: Mapping, dataset: str, metrics=ACCURACY) -> list[Printed]:
    """The printed numbers of the cell that a run is in, accuracies unless told."""
    found = []
    for row in printed():
        made = cell(row) if row.mean and row.metric in metrics else None
        if made and matches(made.identity, fields, dataset):
            found.append(row)
    return found


def configuration(row: Printed) -> ml_collections.ConfigDict:
    """The configuration of a printed number, which must have a `cell`."""
    fields = {**cell(row).chosen, **cell(row).identity}
    preset = fields.pop("dataset")
    result = config.experiment(fields.pop("method.name"), preset)
    result.update_from_flattened_dict(fields)
    return result


def departures(row: Printed, fields: Mapping) -> dict[str, tuple]:
    """Fields in which a run of the same cell differs: (the paper's, the run's)."""
    paper = config.flat(configuration(row))
    return {
        key: (value, fields.get(key))
        for key, value in sorted(paper.items())
        if key not in UNSAID and _plain(fields.get(key)) != _plain(value)
    }
