"""The pictures that `python -m jaxproto plot` draws, and the options of each."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from jaxproto.lab.compare.measures import AVERAGES, STATISTICS
from jaxproto.lab.figures import (
    class_geometry,
    confusion,
    from_checkpoints,
    from_formulas,
    from_records,
    tsne,
)
from jaxproto.lab.figures.arguments import parse_numbers
from jaxproto.lab.figures.class_geometry import SCALES
from jaxproto.papers import numbers

OPTIONS: dict[str, dict[str, Any]] = {  # option -> arguments of argparse
    "rule": {"help": "draw this one only"},
    "average": {"choices": list(AVERAGES), "default": "pooled", "help": "of clients"},
    "statistic": {"choices": list(STATISTICS), "default": "best", "help": "of rounds"},
    "field": {"required": True, "help": "of the configuration: method.s"},
    "clients": {"type": parse_numbers, "metavar": "2,5", "help": "these only"},
    "classes": {"type": parse_numbers, "metavar": "0,1", "help": "these only"},
    "data_dir": {"default": "", "help": "where the data set is now"},
    "first": {"action": "store_true", "help": "the first; its round is trained again"},
    "scale_by": {"choices": list(SCALES), "default": "client", "help": "0 to 1 in it"},
    "binary": {"action": "store_true", "help": "also what is above 0"},
    "in_order": {"action": "store_true", "help": "dimensions as they are numbered"},
    "target": {"type": float, "required": True, "help": "accuracy in %%"},
    "samples": {"type": int, "default": 10, "help": "of each class and client"},
    "perplexity": {"type": float, "default": 30.0, "help": "of t-SNE"},
    "methods": {"default": numbers.COSTS, "help": "joined by commas"},
    "network": {"default": "shufflenet_v2_x1_0", "help": "of FedAvg and the like"},
    "image": {
        "type": parse_numbers,
        "default": [32, 32, 3],
        "help": "height,width,channels",
    },
    "num_classes": {"type": parse_numbers, "default": from_formulas.CLASSES},
    "feat_dims": {"type": parse_numbers, "default": from_formulas.DIMENSIONS},
    "at_classes": {"type": int, "default": 100, "help": "in the panel of d"},
    "at_dim": {"type": int, "default": 1024, "help": "in the panel of K"},
}


class Figure(NamedTuple):
    """A picture, and the options of its command."""

    draw: Callable  # arguments -> None; writes a file
    runs: str  # how many work directories: one, some, none
    options: tuple[str, ...]

    @property
    def help(self) -> str:
        """First line of the docstring of its function."""
        return (self.draw.__doc__ or "").split("\n")[0]


ACCURACY = ("rule", "average")
CLIENTS_CLASSES = ("clients", "classes", "data_dir")
CLASS = ("classes", "data_dir")
VALUES = ("binary", "in_order")
COSTS = ("methods", "network", "image", "num_classes", "feat_dims")
_r, _c, _b = from_records, from_checkpoints, class_geometry

FIGURES = {
    "accuracy": Figure(_r.accuracy, "some", ACCURACY),
    "bytes": Figure(_r.accuracy_against_bytes, "some", ("rule",)),
    "time": Figure(_r.accuracy_against_seconds, "some", ("rule",)),
    "until": Figure(_r.rounds_to_target, "some", (*ACCURACY, "target")),
    "accuracy_against_field": Figure(
        _r.accuracy_against_field, "some", (*ACCURACY, "statistic", "field")
    ),
    "partition": Figure(_r.partition, "one", ("clients", "classes")),
    "confusion": Figure(confusion.confusion, "some", (*CLIENTS_CLASSES, "rule")),
    "tsne": Figure(tsne.tsne, "some", (*CLIENTS_CLASSES, "samples", "perplexity")),
    "prototypes": Figure(_c.prototypes, "some", CLIENTS_CLASSES),
    "features": Figure(_c.features, "some", CLIENTS_CLASSES),
    "global_prototypes": Figure(_c.global_prototypes, "one", (*CLASS, *VALUES)),
    "local_prototypes": Figure(_c.local_prototypes, "one", (*CLIENTS_CLASSES, *VALUES)),
    "angles": Figure(_b.angles, "one", CLASS),
    "cosine_by_class": Figure(_b.cosine_by_class, "some", CLASS),
    "margins": Figure(_b.margins, "some", CLASS),
    "heads": Figure(_b.class_weight_norms, "some", (*CLIENTS_CLASSES, "scale_by")),
    "iterations": Figure(_r.iterations, "some", ()),
    "alignment_trace": Figure(_c.alignment_trace, "some", ("data_dir", "first")),
    "communication_cost": Figure(
        from_formulas.communication_cost, "none", (*COSTS, "at_classes", "at_dim")
    ),
}


def help_texts() -> dict[str, str]:
    """Returns the pictures of `jaxproto plot`, with a line about each."""
    return {name: picture.help for name, picture in FIGURES.items()}


def default(option: str) -> Any:
    """Returns the default of an option; that of a flag is False."""
    spec = OPTIONS[option]
    return spec.get("default", False if "action" in spec else None)


def add_arguments(parser, picture: Figure):
    """Gives a parser the options of a picture, and its work directories."""
    if picture.runs != "none":
        parser.add_argument(
            "workdirs",
            type=Path,
            metavar="WORKDIR",
            nargs="+" if picture.runs == "some" else 1,
            help="of a run, or a folder of runs such as a sweep's",
        )
    for name in picture.options:
        parser.add_argument(f"--{name}", **OPTIONS[name])
