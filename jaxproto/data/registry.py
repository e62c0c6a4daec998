"""Data sets by name: `digits`, `spiral`, `npz:PATH`, `tfds:NAME`, ..."""

import os
from collections.abc import Callable
from typing import TYPE_CHECKING

from jaxproto import errors, plugins
from jaxproto.core.registry import Registry, places

if TYPE_CHECKING:
    from jaxproto.data.dataset import Dataset


NODES = "nodes"  # the nodes of a federation have the examples: `nodes/private_data.py`
DATASETS: Registry[Callable[[int], "Dataset"]] = Registry(  # name -> seed -> Dataset
    "data set",
    places("data.builtin", "digits", "spiral_literal", spiral="spiral_fednh"),
    reserved=[NODES],
    group="jaxproto.datasets",
)
NAMED = {  # prefix -> name, data_dir, pixels -> Dataset
    k: plugins.lazy(place) for k, (place, _) in plugins.table("NAMED_READERS").items()
}
TABLES = {  # prefix -> path, pixels, columns -> Dataset
    k: plugins.lazy(place) for k, (place, _) in plugins.table("TABLES").items()
}
FILES: Registry[Callable[[str, int], "Dataset"]] = Registry(
    "data set prefix",
    {  # prefix -> path, pixels -> Dataset
        **{
            k: plugins.lazy(place) for k, (place, _) in plugins.table("READERS").items()
        },
        **TABLES,
        **places("data.readers.npz", npz="load"),
    },
    reserved=NAMED,
    group="jaxproto.readers",
)
PREFIXES = (*FILES, *NAMED)
ABOUT = {  # "PREFIX:..." -> what is there
    **{f"{k}:NAME": text for k, (_, text) in plugins.table("NAMED_READERS").items()},
    **{f"{k}:PATH": text for k, (_, text) in plugins.table("READERS").items()},
    **{f"{k}:PATH": text for k, (_, text) in plugins.table("TABLES").items()},
    "npz:PATH": "x_train, y_train, x_test, y_test, as Keras has them",
}


def load(
    name: str,
    *,
    data_dir: str | os.PathLike | None = None,
    seed: int = 0,
    pixels: int = 0,
    columns: str = "",
) -> "Dataset":
    """Returns the data set called `name`.

    Args:
      name: one of DATASETS, csv:PATH, domains:PATH, folder:PATH, npz:PATH,
        parquet:PATH, or tfds:NAME[/CONFIG][:VERSION].
      data_dir: folder of prepared TFDS sets, or of files with a relative path; a file
        that is not there is looked for in the current folder.
      seed: of data sets that are drawn (the spirals).
      pixels: height and width that images are resized to; 0 does not resize.
      columns: of a table, joined by commas: inputs, then the label; "" finds them.
    """
    prefix, colon, rest = name.partition(":")
    if columns and not (colon and prefix in TABLES):
        raise errors.UserError(
            f"data.columns is {columns!r}, but {name} has no columns. Leave it empty, "
            f"or take a table: {', '.join(f'{prefix}:PATH' for prefix in TABLES)}."
        )
    if colon:
        if errors.choose_from("data set prefix", prefix, PREFIXES) in NAMED:
            return NAMED[prefix](rest, data_dir, pixels)
        inside = os.path.join(*map(os.path.expanduser, (data_dir or "", rest)))
        path = inside if os.path.exists(inside) else rest
        options = {"columns": columns} if columns else {}
        return FILES[prefix](path, pixels, **options)
    if name == NODES:
        raise errors.UserError(
            "data.name=nodes: the examples are on the nodes of a federation, each of "
            "which names its own; run it with `python -m jaxproto flower`, or choose "
            "another data.name."
        )
    names = [*DATASETS, NODES, *ABOUT]
    dataset = DATASETS[errors.choose_from("data set", name, names)](seed)
    if pixels:
        from jaxproto.data.resize import resize_and_join

        return dataset._replace(x=resize_and_join(name, [dataset.x], pixels))
    return dataset
