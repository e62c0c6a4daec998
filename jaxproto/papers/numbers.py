"""Printed numbers of the papers' tables, and the meaning of their words.

`published.csv` has the numbers. Comments name its sources by letters:
T tinyproto_aaai26, S cps_ppa_cpkd_iclr_sub, N protonorm, R refprotofl.
"""

import csv
import functools
from importlib import resources
from typing import NamedTuple

PRESETS = {  # data set as printed -> preset of `presets.DATASETS`
    "CIFAR-10": "cifar10",
    "CIFAR-100": "cifar100",
    "Flowers-102": "flowers102",
    "TinyImageNet-200": "tiny_imagenet",
    "GTSRB-43": "gtsrb",
    "AG News": "ag_news",
    "MNIST": "mnist",
    "FashionMNIST": "fashion_mnist",
}
SPELLINGS = {  # data set of a run -> preset
    "oxford_flowers102": "flowers102",
    "gtsrb43/torchvision": "gtsrb",
    "ag_news_subset": "ag_news",
}
PAPERS = {  # source -> name of the paper
    "tinyproto_aaai26": "TinyProto",
    "cps_ppa_cpkd_iclr_sub": "CPS+PPA+CPKD",
    "protonorm": "ProtoNorm",
    "refprotofl": "RefProtoFL",
}
GROUPS = {  # models as printed, up to the bracket -> model.group
    "Ht0": "Ht0",
    "4-layer CNN": "HmCNN",
    "ResNet-18": "HmRes18",
    "fastText+TextCNN": "text",
}
COSTS = "fedavg,fedproto,tinyproto"  # methods of T Figure 1
ABLATIONS: dict[str, dict[str, object]] = {  # variant of RefProtoFL, R Table 1
    "": {},
    "Full": {},
    "w/o ERPA": {"method.anchors": "none"},
    "w/o APUD": {"method.budget": 1.0},
    "w/o APUD & ERPA": {"method.anchors": "none", "method.budget": 1.0},
}
CLASSES_PER_CLIENT = {  # of pathological partitions, by the released code
    "CIFAR-10": 2,
    "CIFAR-100": 10,
    "Flowers-102": 10,
    "TinyImageNet-200": 20,
}
ACCURACY = ("accuracy", "top1_accuracy")
COST = ("comm_cost",)  # millions of scalars per round, both directions


class PublishedNumber(NamedTuple):
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

    @property
    def place(self) -> str:
        """Paper and table."""
        return f"{PAPERS[self.source]}, Table {self.table}"


@functools.cache
def published_numbers() -> tuple[PublishedNumber, ...]:
    """Returns every number of the papers' tables."""
    folder = resources.files("jaxproto.papers")
    text = folder.joinpath("published.csv").read_text()
    return tuple(PublishedNumber(**row) for row in csv.DictReader(text.splitlines()))
