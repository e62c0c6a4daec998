"""The cells of the papers' tables as settings of a run, and back.

The printed numbers, and what T, S, N, R are, stand in `papers`. Hyper-parameters: T
5.1, S 5.1, N 5.1, R 5.1 as the configurations of the methods have them. What a text
and its released code say differently is a reading of a cell: "" is the defaults of the
methods, "paper" and "code" are those of `readings.READINGS`, which do not change what
makes it that cell.
"""

import functools
from collections.abc import Mapping
from typing import NamedTuple

import ml_collections

from jaxproto import config
from jaxproto.config import paper_variants, presets
from jaxproto.config.fields import fields_where
from jaxproto.errors import choose_from
from jaxproto.experiment.display_names import method_of_title
from jaxproto.reporting.compare.paper_numbers import (
    ABLATIONS,
    ACCURACY,
    CLASSES_PER_CLIENT,
    COST,
    GROUPS,
    PRESETS,
    SPELLINGS,
    PublishedNumber,
    published_numbers,
)

EQUIVALENT = {  # values that are one setting of a paper
    "pfllib": "dirichlet",
    "pfllib_pathological": "pathological",
    "resnet18": "HmRes18",
    "cnn4": "HmCNN",
}
INTERCHANGEABLE = {  # field -> values that a reading may take for each other in a cell
    "method.masks": [("free", "block"), ("block_exact", "block")],
    "model.group": [("Ht0", "Ht0_code"), ("text", "text_code")],
}
READINGS = ("", "code", "paper")
PAPER_VALUES: dict[
    tuple[str, str], dict[str, object]
] = {  # source, method -> what reading=paper has there instead
    **{
        ("cps_ppa_cpkd_iclr_sub", name): {"method.lam": 0.1}  # S 5.1
        for name in ("fedproto", "fedtgp", "cps_ppa_cpkd")
    },
    # Not stated by R, and with the pull of FedProto's text every client is at chance
    ("refprotofl", "fedproto"): {"method.reg": "mse_mean", "method.lam": 10.0},
}
NOT_IN_PAPERS = {"data.name", "eval_every"}  # what no paper says of its runs, either


class PaperCell(NamedTuple):
    """What a printed number was measured with, as flat fields of a configuration."""

    identity: dict  # what makes it this cell
    chosen: dict  # what the papers state besides, where `identity` says nothing


@functools.cache
def paper_cell(row: PublishedNumber) -> PaperCell | None:
    """The settings of a printed accuracy or cost; None for averages over data sets."""
    if row.dataset not in PRESETS or row.metric not in (*ACCURACY, *COST):
        return None
    method, of_r = _method(row), row.source == "refprotofl"
    return PaperCell(
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


def require_cell(row: PublishedNumber) -> PaperCell:
    """As `paper_cell`, of a number that must have one.

    Raises:
      ValueError: it has none.
    """
    made = paper_cell(row)
    if made is None:
        raise ValueError(f"{row.dataset}, {row.metric}: no setting of a run")
    return made


def _partition(row: PublishedNumber) -> dict:
    """How the data of a row are divided, and d where it is stated."""
    wide = {"model.feat_dim": int(row.feature_dim)} if row.feature_dim else {}
    if row.partition == "pathological":
        each = CLASSES_PER_CLIENT[row.dataset]
        return {
            **wide,
            "data.partition": "pfllib_pathological",
            "data.classes_per_client": each,
        }
    kind = "dirichlet" if row.source == "refprotofl" else "pfllib"
    return {**wide, "data.partition": kind, "data.alpha": float(row.alpha or 0.1)}


def _method(row: PublishedNumber) -> PaperCell:
    """Name and hyper-parameters of the method of a row."""
    if row.method.startswith("TinyProto"):
        return _tinyproto(row)
    if row.method == "ProtoNorm":
        gamma = _gamma(row) or presets.UPSCALE[PRESETS[row.dataset]]
        return PaperCell({**_named("protonorm"), "method.upscale": gamma}, {})
    if row.method == "RefProtoFL":
        full = {"method.anchors": "external", "method.budget": 0.1}
        identity = {**full, **ABLATIONS[row.variant]}
        return PaperCell(
            {**_named("refprotofl"), **identity}, {"data.public_share": 0.01}
        )
    if "CPS" in row.variant or row.variant in ("PPA", "CPKD"):
        return _components(row)
    name = method_of_title(row.method)
    scaled = name in ("fedproto", "fedtgp")
    upscale = {"method.upscale": _gamma(row) or 1.0} if scaled else {}  # N Table 5
    return PaperCell({**_named(name), **upscale}, _chosen(row, name))


def _gamma(row: PublishedNumber) -> float | None:
    """Factor of prototypes of a row whose table varies it."""
    key, _, value = row.variant.partition(";")[0].partition("=")
    return float(value) if key == "gamma" else None


def _chosen(row: PublishedNumber, name: str) -> dict:
    """What goes with a method whose cells need no more than a name."""
    fields = {**presets.RUN_FIELDS.get(name, {})}
    if name == "feduv":
        fields["method.statistics"] = "averaged"  # as its release
    if name in ("fml", "fedkd") and row.dataset == "AG News":
        fields |= presets.AUX_OF_TEXTS
    return fields


def _named(name: str) -> dict:
    return {"method.name": name}


def _tinyproto(row: PublishedNumber) -> PaperCell:
    words = row.variant.split(";")
    identity = {
        **_named("tinyproto"),
        "method.base": "fedtgp" if row.method.endswith("-FT") else "fedproto",
        "method.masks": "none" if "CPS=0" in words else "free",
        "method.scaling": "none" if "APS=0" in words else "sum",
        "method.s": 50,
    }
    return PaperCell(identity, {"method.mu": presets.MU[PRESETS[row.dataset]]})


def _components(row: PublishedNumber) -> PaperCell:
    """S Table 1 and 2: which of CPS, PPA and CPKD are on."""
    words = row.variant.split(";")
    kept = [w.removeprefix("CPS s=") for w in words if w.startswith("CPS")]
    identity = {
        **_named("cps_ppa_cpkd"),
        "method.base": row.method.lower(),
        "method.masks": "block_exact" if kept else "none",
        "method.scaling": "sum" if "PPA" in words else "none",
        "method.distill": "cpkd" if "CPKD" in words else "none",
    }
    if kept:
        identity["method.s"] = int(kept[0])
    return PaperCell(identity, {})


def _read(row: PublishedNumber, name: str, reading: str) -> dict:
    """Fields of a reading of a row, in which a paper may read another's method."""
    fields = {**paper_variants.READINGS.get(name, {}).get(reading, {})}
    if reading == "paper":
        fields |= PAPER_VALUES.get((row.source, name), {})
    return fields


def _plain(value):
    """One value for all that are one setting of a paper."""
    return EQUIVALENT.get(value, value) if isinstance(value, str) else value


def matches(wanted: Mapping, fields: Mapping, dataset: str) -> bool:
    """Whether a run with the flat fields `fields` is in the cell `wanted`."""
    have = {**fields, "dataset": SPELLINGS.get(dataset, dataset)}
    return all(_alike(key, have.get(key), value) for key, value in wanted.items())


def _alike(key: str, a, b) -> bool:
    """Whether two values of a field are of one cell."""
    same = INTERCHANGEABLE.get(key, [])
    return _plain(a) == _plain(b) or any(a in pair and b in pair for pair in same)


def published_for(
    fields: Mapping, dataset: str, metrics=ACCURACY
) -> list[PublishedNumber]:
    """The printed numbers of the cell that a run is in, accuracies unless told."""
    found = []
    for row in published_numbers():
        made = paper_cell(row) if row.mean and row.metric in metrics else None
        if made and matches(made.identity, fields, dataset):
            found.append(row)
    return found


def configuration(row: PublishedNumber, reading: str = "") -> ml_collections.ConfigDict:
    """The configuration of a printed number, which must have a `paper_cell`.

    Args:
      row: the number.
      reading: one of `READINGS`; "" leaves the methods at their defaults.

    Raises:
      UserError: no such reading.
    """
    made = require_cell(row)
    name = made.identity["method.name"]
    read = _read(row, name, choose_from("reading", reading, READINGS))
    fields = {**made.chosen, **made.identity}
    del fields["method.name"]
    result = config.experiment(name, fields.pop("dataset"))
    config.apply_fields(result, fields)
    config.apply_fields(result, _within(made, config.resolve_callables(result, read)))
    return result


def _within(made: PaperCell, read: Mapping) -> dict:
    """What a reading changes without leaving the cell."""
    fixed = made.identity
    return {k: v for k, v in read.items() if k not in fixed or _alike(k, v, fixed[k])}


def differences_from_paper(
    row: PublishedNumber, fields: Mapping, reading: str = ""
) -> dict[str, tuple]:
    """Fields in which a run of the same cell differs: (the paper's, the run's)."""
    paper = config.flatten(configuration(row, reading))
    unsaid = NOT_IN_PAPERS | fields_where(compared=False)
    return {
        key: (value, fields.get(key))
        for key, value in sorted(paper.items())
        if key not in unsaid and _plain(fields.get(key)) != _plain(value)
    }


def closest_reading(
    row: PublishedNumber, fields: Mapping
) -> tuple[str, dict[str, tuple]]:
    """The reading that a run of the cell departs from least, and its departures."""
    found = {
        reading: differences_from_paper(row, fields, reading) for reading in READINGS
    }
    return min(found.items(), key=lambda item: len(item[1]))
