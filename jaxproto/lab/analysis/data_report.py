"""Statistics and pictures of the data of a configuration.

Nothing is trained or compiled. Costs are the papers' formulas; `cost.py` measures.
"""

from functools import partial
from inspect import signature
from pathlib import Path

import jax
import ml_collections
import numpy as np
import rich.table
from rich.console import Console
from rich.markup import escape

from jaxproto.config import check
from jaxproto.data import partition_stats, scale
from jaxproto.data.dataset import empty_classes
from jaxproto.data.partitions.registry import PARTITIONS
from jaxproto.errors import UserError
from jaxproto.experiment import build
from jaxproto.experiment.build import Experiment
from jaxproto.lab import plots
from jaxproto.lab.analysis import cost, data_samples
from jaxproto.methods import METHODS
from jaxproto.summary import nominal_cost, run_summary
from jaxproto.summary.progress_lines import make_console, print_table
from jaxproto.summary.table_formats import format_value

SHOWN = 20  # clients in the table; the files have all


def inspect(
    config: ml_collections.ConfigDict,
    out: str | Path,
    every: bool = False,
    console: Console | None = None,
) -> Path:
    """Prints and draws what the data of a configuration are: `jaxproto inspect`.

    The files are partition.csv, indices.csv and, with matplotlib, partition.png and
    samples.png. Nothing is trained.

    Args:
      config: see `jaxproto.default_config`.
      out: folder for the files, which is returned.
      every: whether to print nominal costs of every method, or of the configured one.
      console: where tables go.

    Raises:
      UserError: a run would refuse the names, data or partition, or the folder cannot
        be written.
    """
    console = console or make_console()
    check(config)
    exp = build.experiment(config, jax.default_backend())
    padding, names = run_summary.padding(exp), exp.dataset.classes
    show = partial(print_table, console)
    show(partition_stats.table(exp.counts, padding, SHOWN, names))
    show(over_clients(exp))
    show(facts_table("Data", data_facts(config, exp)))
    first = exp.cohorts[0].name
    about = f"Scalars both ways, all clients; networks as if all were {first}."
    show(facts_table("Nominal cost of a round", costs(config, exp, every), about))
    out = Path(out)
    drawn = write(exp, out, console)
    files = ", ".join(["partition.csv", "indices.csv", *drawn])
    console.print(f"written to {out}: {files}", highlight=False, soft_wrap=True)
    return out


def write(exp: Experiment, out: Path, console: Console) -> list[str]:
    """Writes the files, and returns the names of the pictures.

    Raises:
      UserError: the folder cannot be written.
    """
    try:
        out.mkdir(parents=True, exist_ok=True)
        run_summary.save_partition(exp, out)
        return pictures(exp, out, console)
    except OSError as e:
        raise UserError(
            f"cannot write to {out}: {e.strerror}. Choose another folder with --out."
        ) from e


def over_clients(exp: Experiment) -> rich.table.Table:
    """Returns smallest, median, mean and largest values over clients."""
    train_KC, test_KC, validation_KC = exp.counts
    trained_KC = train_KC[train_KC.any(1)]  # if centralised, most have no examples
    work, distances = run_summary.padding(exp), partition_stats.skew(trained_KC)
    held_KC, held_out = nominal_cost.classes_held(exp), {}
    if validation_KC is not None:
        held_out["validation examples"] = validation_KC.sum(1)
    rows = {
        "training examples": train_KC.sum(1),
        "test examples": test_KC.sum(1),
        **held_out,
        "K_i, classes in training and test data": held_KC.sum(1),
        "classes in training data": (train_KC > 0).sum(1),
        "steps per round": work.steps,
        "total variation of labels": distances.variation,
        "Jensen-Shannon distance of labels": distances.shannon,
    }
    if exp.dataset.domain is not None:
        rows["sources of examples"] = np.array(
            [len(np.unique(exp.dataset.domain[ids])) for ids in exp.partition.train]
        )
    view = rich.table.Table(
        title="Over clients",
        caption="Distances are between a client's training labels and those of all "
        "clients together: total variation 1/2 sum |p - q|; Jensen-Shannon with base "
        "2; 0 is alike, 1 is apart.",
    )
    view.add_column("of a client")
    for name in ("min", "median", "mean", "max", "sum"):
        view.add_column(name, justify="right")
    for name, value_K in rows.items():
        whole = value_K.dtype.kind in "iu"
        form, mean = ("{:,.10g}", "{:,.1f}") if whole else ("{:.2f}", "{:,.2f}")
        reductions = (np.min, form), (np.median, form), (np.mean, mean), (np.max, form)
        cells = [template.format(f(value_K)) for f, template in reductions]
        view.add_row(name, *cells, f"{value_K.sum():,}" if whole else "")
    return view


def data_facts(config: ml_collections.ConfigDict, exp: Experiment) -> dict[str, str]:
    """Returns sentences about the data set, its partition and a round."""
    work, (train_KC, test_KC) = run_summary.padding(exp), exp.counts[:2]
    pairs_KC, steps = nominal_cost.classes_held(exp), work.steps
    share = run_summary.padding_share(exp)
    facts = {
        **about_source(exp),
        "partition": about_partition(config.data, train_KC),
        "sum of K_i": f"{pairs_KC.sum():,} in training and test data, "
        f"{(train_KC > 0).sum():,} in training data, {in_batches(exp):,} in whole "
        f"batches of {exp.local.batch_size} in the saved order",
        "unseen": f"{partition_stats.num_unseen(exp.counts):,} of {test_KC.sum():,} "
        "test examples are of classes that their client does not train on",
        "round": f"{steps.sum():,} steps, {steps.min():,} to {steps.max():,} a client; "
        f"{work.dropped.sum():,} examples outside whole batches",
        "padding": f"{work.total_waste:.0%} of all steps if every client ran as long "
        f"as the longest of its cohort; {share:.0%} as this machine would run them",
    }
    sizes = train_KC.sum(1)
    if short := np.count_nonzero(sizes < exp.local.batch_size):
        facts["short"] = (
            f"{short} clients are below one batch (local.short={config.local.short})"
        )
    return facts


def about_source(exp: Experiment) -> dict[str, str]:
    """Returns sentences about the data set."""
    dataset = exp.dataset
    size, test = len(dataset.y), len(dataset.y) - dataset.train_size
    shape = "x".join(map(str, dataset.x.shape[1:]))
    kind = f"{len(dataset.tokens):,} tokens" if dataset.tokens else dataset.x.dtype
    used = np.concatenate([rows for split in exp.partition for rows in split])
    num_used = len(np.unique(used))
    public = np.array([], int) if dataset.public is None else dataset.public
    facts = {
        "data set": f"{dataset.name}: {size:,} examples ({test:,} of them the official "
        f"test part), {exp.spec.num_classes} classes, inputs of {shape} "
        f"{kind}",
        "examples": f"{num_used:,} of clients, {len(public):,} public, "
        f"{size - num_used - len(public):,} nobody's",
    }
    if len(public):
        classes = len(np.unique(dataset.y[public]))
        facts["public"] = f"{len(public):,} examples of {classes} classes"
    if len(empty := empty_classes(dataset)):
        facts["empty"] = f"classes without an example: {', '.join(map(str, empty))}"
    if dataset.domain is not None:
        facts["sources"] = f"{dataset.domain.max() + 1} sources of examples"
    if not dataset.tokens:
        facts["networks see"] = scale.describe(dataset.x[: dataset.train_size])
    if dataset.notes:
        facts["notes"] = "\n".join(dataset.notes)
    return facts


def about_partition(data: ml_collections.ConfigDict, train_KC: np.ndarray) -> str:
    """Returns the fields of the partition, the classes of clients, and alpha's way."""
    scheme = PARTITIONS.get(data.partition)
    names = signature(scheme).parameters if scheme else ()
    fields = [f", data.{name}={data[name]}" for name in names if name in data]
    classes_K = (train_KC[train_KC.any(1)] > 0).sum(1)
    text = (
        f"{data.partition}{''.join(fields)}: {classes_K.min()} to {classes_K.max()} "
        f"classes per client, {classes_K.mean():.1f} on average"
    )
    if "alpha" not in names:
        return text
    if data.partition == "quantity":
        return f"{text}; a smaller data.alpha makes sizes of clients less even"
    return f"{text}; a smaller data.alpha gives fewer classes per client, a larger more"


def in_batches(exp: Experiment) -> int:
    """Returns the number of client-class pairs in whole batches of unshuffled rows."""
    size = exp.local.batch_size
    batches = [rows[: len(rows) // size * size] for rows in exp.partition.train]
    return sum(len(np.unique(exp.dataset.y[rows])) for rows in batches)


def costs(
    config: ml_collections.ConfigDict, exp: Experiment, every: bool
) -> dict[str, str]:
    """Returns scalars of a round by the papers' formula, for one method or all."""
    classes_K, net = nominal_cost.classes_held(exp).sum(1), exp.cohorts[0].net
    names = sorted(METHODS) if every else [config.method.name]
    texts: dict[str, str] = {}
    for name in names:
        try:
            method = cost.method_of(config, exp, name)
        except UserError as e:
            texts[name] = str(e)
        else:
            scalars = format_value(nominal_cost.nominal(method, net, classes_K))
            texts[name] = scalars + " (as configured)" * (name == config.method.name)
    return texts


def facts_table(
    title: str, rows: dict[str, str], caption: str = ""
) -> rich.table.Table:
    """Returns a table of names and sentences."""
    view = rich.table.Table(title=title, caption=caption, show_header=False)
    for row in rows.items():
        view.add_row(*map(escape, row))
    return view


def pictures(exp: Experiment, out: Path, console: Console) -> list[str]:
    """Draws the partition and examples, or prints texts; returns the file names."""
    if exp.dataset.tokens:
        print_table(console, data_samples.table(exp))
    if not plots.available():
        console.print(f"no pictures: {plots.HINT}", markup=False)
        return []
    plots.partition_heatmap(out / "partition.png", exp.counts.train)
    if exp.dataset.tokens:
        return ["partition.png"]
    data_samples.draw(exp, out / "samples.png")
    return ["partition.png", "samples.png"]
