"""Names as papers print them, and names for the cells of their tables.

A cell has its configuration. Its name is the data set, the method, its variant, and
whatever else the table varies: `cifar10-fedproto-cps-s50-ppa-cpkd`,
`cifar100-fedtgp-dirichlet-alpha0.1`.
"""

import re
from collections.abc import Callable

import ml_collections

from jaxproto.errors import choose_from
from jaxproto.experiment.display_names import display_name as display_name
from jaxproto.reporting.compare import paper_cells
from jaxproto.reporting.compare.paper_cells import paper_cell
from jaxproto.reporting.compare.paper_numbers import (
    ACCURACY,
    GROUPS,
    PRESETS,
    SPELLINGS,
    PublishedNumber,
    published_numbers,
)

TABLES = {  # name -> source and table in `published.csv`
    "cps1": ("cps_ppa_cpkd_iclr_sub", "1"),
    "cps2": ("cps_ppa_cpkd_iclr_sub", "2"),
    "protonorm1": ("protonorm", "1"),
    "protonorm2": ("protonorm", "2"),
    "protonorm3": ("protonorm", "3"),
    "protonorm4": ("protonorm", "4"),
    "protonorm5": ("protonorm", "5"),
    "refprotofl1": ("refprotofl", "1"),
    "refprotofl2": ("refprotofl", "2"),
    "tinyproto1": ("tinyproto_aaai26", "1"),
    "tinyproto2": ("tinyproto_aaai26", "2"),
    "tinyproto3": ("tinyproto_aaai26", "3"),
    "tinyproto4": ("tinyproto_aaai26", "4"),
}
VARIED_FIELDS: dict[
    str, Callable[[PublishedNumber], str]
] = {  # in a name if a table varies it
    "partition": lambda row: row.partition,
    "alpha": lambda row: f"alpha{row.alpha}" if row.alpha else "",
    "clients": lambda row: f"m{row.clients}",
    "feature_dim": lambda row: f"d{row.feature_dim}",
    "models": lambda row: GROUPS[row.models.partition("(")[0]].lower(),
}


def display_dataset(name: str) -> str:
    """How papers print a data set; its own name if none of them has it."""
    preset = SPELLINGS.get(name, name)
    return next((text for text, p in PRESETS.items() if p == preset), name)


def cells_of_table(table: str) -> dict[str, PublishedNumber]:
    """The cells of a table that a configuration can express, by name.

    Raises:
      UserError: no such table.
    """
    source, number = TABLES[choose_from("table", table, TABLES)]
    found = [
        row
        for row in published_numbers()
        if (row.source, row.table) == (source, number)
        and row.metric in ACCURACY
        and paper_cell(row) is not None
    ]
    varied = [k for k in VARIED_FIELDS if len({getattr(row, k) for row in found}) > 1]
    return {_name(row, varied): row for row in found}


def _name(row: PublishedNumber, varied: list[str]) -> str:
    variant = row.variant.partition(";failed")[0]
    told = "" if variant in ("homogeneous", "gamma tuned per dataset") else variant
    more = [VARIED_FIELDS[k](row) for k in varied]
    words = [PRESETS[row.dataset], row.method, told, *more]
    text = "-".join(_slug(word) for word in words if word)
    return text


def _slug(text: str) -> str:
    text = re.sub(r"(?<=[A-Za-z])=(?=\d)", "", text.lower().replace("w/o", "no"))
    return re.sub(r"[^a-z0-9.]+", "-", text).strip("-").replace("tiny-imagenet", "tiny")


def configuration(
    table: str, name: str, reading: str = ""
) -> ml_collections.ConfigDict:
    """The configuration of one cell, with the papers' hyper-parameters.

    Args:
      table: a name of `TABLES`.
      name: of a cell of that table.
      reading: "code", "paper", or "" for the defaults of the methods.

    Raises:
      UserError: no such table, cell or reading.
    """
    there = cells_of_table(table)
    row = there[choose_from(f"cell of {table}", name, there)]
    result = paper_cells.configuration(row, reading)
    result.name = "-".join(word for word in (table, name, reading) if word)
    return result
