"""Cells of the papers' tables as settings of a run, and runs as cells.

`numbers.py` has the printed numbers and explains T, S, N and R. Hyper-parameters are
those of Sections T 5.1, S 5.1, N 5.1 and R 5.1. Where a text and its released code
differ, a cell has several readings: "" keeps the defaults of the methods, "paper" and
"code" are those of `variants.in_table`. A reading never changes the identity of a
cell.
"""

import functools
import re
from collections.abc import Mapping
from typing import NamedTuple

import ml_collections

from jaxproto import config
from jaxproto.config import presets
from jaxproto.config.fields import fields_where
from jaxproto.errors import choose_from
from jaxproto.experiment.display_names import method_of_title
from jaxproto.papers import variants
from jaxproto.papers.numbers import (
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

EQUIVALENT = {  # value -> value that is the same setting in papers
    "pfllib": "dirichlet",
    "pfllib_pathological": "pathological",
    "resnet18": "HmRes18",
    "cnn4": "HmCNN",
}
INTERCHANGEABLE = {  # field -> values that a reading may exchange
    "method.masks": [("free", "block"), ("block_exact", "block")],
    "model.group": [("Ht0", "Ht0_code"), ("text", "text_code")],
}
READINGS = ("", "code", "paper")
# source, method -> fields of reading=paper instead
PAPER_VALUES: dict[tuple[str, str], dict[str, object]] = {
    **{
        ("cps_ppa_cpkd_iclr_sub", name): {"method.lam": 0.1}  # S 5.1
        for name in ("fedproto", "fedtgp", "cps_ppa_cpkd")
    },
    # Not stated by R, and with the pull of FedProto's text every client is at chance
    ("refprotofl", "fedproto"): {"method.reg": "mse_mean", "method.lam": 10.0},
}
NOT_IN_PAPERS = {"data.name", "eval_every"}  # fields that papers do not state


class PaperCell(NamedTuple):
    """The setting of a printed number, as flat fields of a configuration."""

    identity: dict  # fields that define the cell
    chosen: dict  # other fields that the paper states


@functools.cache
def paper_cell(row: PublishedNumber) -> PaperCell | None:
    """Returns the cell of a printed accuracy or cost; None of averages of data sets."""
    if row.dataset not in PRESETS or row.metric not in (*ACCURACY, *COST):
        return None
    method, is_r = _method(row), row.source == "refprotofl"
    return PaperCell(
        {
            "dataset": PRESETS[row.dataset],
            "data.clients": int(row.clients),
            "model.group": GROUPS[row.models.partition("(")[0]],
            "data.pool": not is_r,  # R tests on the official test examples
            **_partition(row),
            **method.identity,
        },
        {**(presets.REFPROTOFL if is_r else {}), **method.chosen},
    )


def require_cell(row: PublishedNumber) -> PaperCell:
    """Returns the cell of a printed number.

    Raises:
      ValueError: it has none.
    """
    cell = paper_cell(row)
    if cell is None:
        raise ValueError(f"{row.dataset}, {row.metric}: no setting of a run")
    return cell


def _partition(row: PublishedNumber) -> dict:
    """Returns the partition of a row, and the feature dimension if it is stated."""
    dim = {"model.feat_dim": int(row.feature_dim)} if row.feature_dim else {}
    if row.partition == "pathological":
        classes = {"data.classes_per_client": CLASSES_PER_CLIENT[row.dataset]}
        return {**dim, "data.partition": "pfllib_pathological", **classes}
    kind = "dirichlet" if row.source == "refprotofl" else "pfllib"
    return {**dim, "data.partition": kind, "data.alpha": float(row.alpha or 0.1)}


def _method(row: PublishedNumber) -> PaperCell:
    """Returns the name and hyper-parameters of the method of a row."""
    if row.method.startswith("TinyProto"):
        return _tinyproto(row)
    if row.method == "ProtoNorm":
        gamma = _gamma(row) or presets.UPSCALE[PRESETS[row.dataset]]
        return PaperCell({"method.name": "protonorm", "method.upscale": gamma}, {})
    if row.method == "RefProtoFL":
        full = {"method.anchors": "external", "method.budget": 0.1}
        identity = {**full, **ABLATIONS[row.variant]}
        return PaperCell(
            {"method.name": "refprotofl", **identity}, {"data.public_share": 0.01}
        )
    if re.search("CPS|PPA|CPKD", row.variant):
        return _components(row)
    name = method_of_title(row.method)
    scaled = name in ("fedproto", "fedtgp")
    upscale = {"method.upscale": _gamma(row) or 1.0} if scaled else {}  # N Table 5
    return PaperCell({"method.name": name, **upscale}, _chosen(row, name))


def _gamma(row: PublishedNumber) -> float | None:
    """Returns the factor of the prototypes, if the table of the row varies it."""
    key, _, value = row.variant.partition(";")[0].partition("=")
    return float(value) if key == "gamma" else None


def _chosen(row: PublishedNumber, name: str) -> dict:
    """Returns the fields that the paper states for a method."""
    fields = {**presets.RUN_FIELDS.get(name, {})}
    if name == "feduv":
        fields["method.statistics"] = "averaged"  # as its release
    if name in ("fml", "fedkd") and row.dataset == "AG News":
        fields |= presets.AUX["ag_news"]
    return fields


def _tinyproto(row: PublishedNumber) -> PaperCell:
    words = row.variant.split(";")
    identity = {
        "method.name": "tinyproto",
        "method.base": "fedtgp" if row.method.endswith("-FT") else "fedproto",
        "method.masks": "none" if "CPS=0" in words else "free",
        "method.scaling": "none" if "APS=0" in words else "sum",
        "method.s": 50,
    }
    return PaperCell(identity, {"method.mu": presets.MU[PRESETS[row.dataset]]})


def _components(row: PublishedNumber) -> PaperCell:
    """Returns the method of a row of S Tables 1 and 2: any of CPS, PPA and CPKD."""
    words = row.variant.split(";")
    sizes = [w.removeprefix("CPS s=") for w in words if w.startswith("CPS")]
    identity: dict[str, object] = {
        "method.name": "cps_ppa_cpkd",
        "method.base": row.method.lower(),
        "method.masks": "block_exact" if sizes else "none",
        "method.scaling": "sum" if "PPA" in words else "none",
        "method.distill": "cpkd" if "CPKD" in words else "none",
    }
    if sizes:
        identity["method.s"] = int(sizes[0])
    return PaperCell(identity, {})


def _reading_fields(row: PublishedNumber, name: str, reading: str) -> dict:
    """Returns the fields of a reading of a row."""
    own = PAPER_VALUES.get((row.source, name), {}) if reading == "paper" else {}
    fields = variants.in_table(name, reading) | own
    is_r = row.source == "refprotofl"  # no released code has its protocol
    return {k: v for k, v in fields.items() if not is_r or k.startswith("method.")}


def _plain(value):
    """Returns one value for all values that are the same setting."""
    return EQUIVALENT.get(value, value) if isinstance(value, str) else value


def matches(wanted: Mapping, fields: Mapping, dataset: str) -> bool:
    """Returns whether a run with flat `fields` has the identity `wanted` of a cell."""
    own = {**fields, "dataset": SPELLINGS.get(dataset, dataset)}
    return all(_alike(key, own.get(key), value) for key, value in wanted.items())


def _alike(key: str, a, b) -> bool:
    """Returns whether two values of a field belong to one cell."""
    pairs = INTERCHANGEABLE.get(key, [])
    return _plain(a) == _plain(b) or any(a in pair and b in pair for pair in pairs)


def published_for(
    fields: Mapping, dataset: str, metrics=ACCURACY
) -> list[PublishedNumber]:
    """Returns the printed numbers of the cell of a run, accuracies by default."""
    return [
        row
        for row in published_numbers()
        if row.mean
        and row.metric in metrics
        and (cell := paper_cell(row))
        and matches(cell.identity, fields, dataset)
    ]


def configuration(row: PublishedNumber, reading: str = "") -> ml_collections.ConfigDict:
    """Returns the configuration of a printed number, which must have a `paper_cell`.

    Args:
      row: the number.
      reading: one of `READINGS`; "" leaves the methods at their defaults.

    Raises:
      UserError: there is no such reading.
    """
    cell = require_cell(row)
    name = cell.identity["method.name"]
    choose_from("reading", reading, READINGS)
    fields = {**cell.chosen, **cell.identity}
    del fields["method.name"]
    result = config.experiment(name, fields.pop("dataset"))
    config.apply_fields(result, fields)
    fixed = cell.identity
    stated = config.resolve_callables(result, _reading_fields(row, name, reading))
    kept = {k: v for k, v in stated.items() if k not in fixed or _alike(k, v, fixed[k])}
    config.apply_fields(result, kept)
    return result


def differences_from_paper(
    row: PublishedNumber, fields: Mapping, reading: str = ""
) -> dict[str, tuple]:
    """Returns {field: (paper's value, run's value)} where a run of the cell differs."""
    paper = config.flatten(configuration(row, reading))
    ignored = NOT_IN_PAPERS | fields_where(compared=False)
    return {
        key: (value, fields.get(key))
        for key, value in sorted(paper.items())
        if key not in ignored and _plain(fields.get(key)) != _plain(value)
    }


def closest_reading(
    row: PublishedNumber, fields: Mapping
) -> tuple[str, dict[str, tuple]]:
    """Returns the reading from which a run differs least, and the differences."""
    by_reading = {name: differences_from_paper(row, fields, name) for name in READINGS}
    return min(by_reading.items(), key=lambda item: len(item[1]))
