"""Data sets as papers print them, and names of the cells of their tables.

Each cell has a configuration. Its name is the data set, the method, its variant and
the other settings that the table varies: `cifar10-fedproto-cps-s50-ppa-cpkd`,
`cifar100-fedtgp-dirichlet-alpha0.1`.
"""

import re
from collections.abc import Callable, Iterator

import ml_collections

from jaxproto.errors import choose_from
from jaxproto.papers import cells as paper_cells
from jaxproto.papers.cells import paper_cell
from jaxproto.papers.numbers import (
    ACCURACY,
    GROUPS,
    PRESETS,
    SPELLINGS,
    PublishedNumber,
    published_numbers,
)

NUMBER_OF_TABLES = {  # prefix of names in TABLES, source in `published.csv` -> number
    ("cps", "cps_ppa_cpkd_iclr_sub"): 2,
    ("protonorm", "protonorm"): 5,
    ("refprotofl", "refprotofl"): 2,
    ("tinyproto", "tinyproto_aaai26"): 4,
}
TABLES = {  # name -> source and table in `published.csv`
    f"{prefix}{table}": (source, str(table))
    for (prefix, source), number in NUMBER_OF_TABLES.items()
    for table in range(1, number + 1)
}
ALL_OF_S = "CPS s=50;PPA;CPKD"
PAIRS = ("CPS s=50;PPA", "CPS s=50;CPKD", "PPA;CPKD")  # in S 5.2, without numbers
TABLES["cps_pairs"] = ("cps_ppa_cpkd_iclr_sub", "5.2")
# field -> part of a name if the table varies it
VARIED_FIELDS: dict[str, Callable[[PublishedNumber], str]] = {
    "partition": lambda row: row.partition,
    "alpha": lambda row: f"alpha{row.alpha}" if row.alpha else "",
    "clients": lambda row: f"m{row.clients}",
    "feature_dim": lambda row: f"d{row.feature_dim}",
    "models": lambda row: GROUPS[row.models.partition("(")[0]].lower(),
}


def display_dataset(name: str) -> str:
    """Returns a data set as papers print it; its own name if no paper has it."""
    preset = SPELLINGS.get(name, name)
    return next((text for text, p in PRESETS.items() if p == preset), name)


def cells_of_table(table: str) -> dict[str, PublishedNumber]:
    """Returns the cells of a table that a configuration can express, by name.

    Raises:
      UserError: there is no such table.
    """
    place = TABLES[choose_from("table", table, TABLES)]
    numbers = [
        row
        for row in table_rows()
        if (row.source, row.table) == place
        and row.metric in ACCURACY
        and paper_cell(row) is not None
    ]
    varied = [k for k in VARIED_FIELDS if len({getattr(row, k) for row in numbers}) > 1]
    return {_name(row, varied): row for row in numbers}


def table_rows() -> Iterator[PublishedNumber]:
    """Yields the printed numbers, and S's pairs of components without their numbers."""
    yield from published_numbers()
    for row in published_numbers():
        if (row.table, row.variant) == ("1", ALL_OF_S):
            for pair in PAIRS:
                yield row._replace(table="5.2", variant=pair, mean="", std="")


def _name(row: PublishedNumber, varied: list[str]) -> str:
    variant = row.variant.partition(";failed")[0]
    if variant in ("homogeneous", "gamma tuned per dataset"):
        variant = ""
    settings = [VARIED_FIELDS[k](row) for k in varied]
    words = [PRESETS[row.dataset], row.method, variant, *settings]
    return "-".join(_slug(word) for word in words if word)


def _slug(text: str) -> str:
    text = re.sub(r"(?<=[A-Za-z])=(?=\d)", "", text.lower().replace("w/o", "no"))
    return re.sub(r"[^a-z0-9.]+", "-", text).strip("-").replace("tiny-imagenet", "tiny")


def configuration(
    table: str, name: str, reading: str = ""
) -> ml_collections.ConfigDict:
    """Returns the configuration of one cell, with the papers' hyper-parameters.

    Args:
      table: a name of `TABLES`.
      name: name of a cell of that table.
      reading: "code", "paper", or "" for the defaults of the methods.

    Raises:
      UserError: there is no such table, cell or reading.
    """
    cells = cells_of_table(table)
    row = cells[choose_from(f"cell of {table}", name, cells)]
    result = paper_cells.configuration(row, reading)
    result.name = "-".join(word for word in (table, name, reading) if word)
    return result
