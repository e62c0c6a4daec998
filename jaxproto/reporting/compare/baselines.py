"""What accuracies are read against: Local, and one class; runs that fell to it."""

from collections.abc import Iterable, Mapping, Sequence

from jaxproto.data import partition_stats
from jaxproto.data.partition_stats import MajorityShare
from jaxproto.methods import REFERENCE
from jaxproto.reporting.compare.run_groups import SeedGroup
from jaxproto.storage.run_folder import RunFolder
from jaxproto.summary import reference_accuracy

Row = tuple[str, SeedGroup]
Known = Mapping[tuple, MajorityShare]  # fields of the data -> what one class is worth


def footnotes(rows: Sequence[Row]) -> list[str]:
    """One sentence per data set on each, and one per row that collapsed."""
    found = majority_shares(g for _, g in rows)
    return [*_local(rows), *_shares(rows, found), *_collapses(rows, found)]


def majority_shares(groups: Iterable[SeedGroup]) -> Known:
    """What one class is worth, by the data; runs of the same data share it."""
    found = {}
    for g in groups:
        for run in g.finished:
            if (key := _data(g)) not in found and (alone := majority_share(run)):
                found[key] = alone
    return found


def _data(group: SeedGroup) -> tuple:
    return tuple(
        (k, str(v)) for k, v in sorted(group.config.items()) if k.startswith("data.")
    )


def majority_share(run: RunFolder) -> MajorityShare | None:
    """What one class is worth; of older runs by `partition.csv`, None without it."""
    if said := (run.summary or {}).get("commonest_class"):
        return MajorityShare(**said)
    file = run.path / "partition.csv"
    if not file.exists():
        return None
    return partition_stats.majority_share(partition_stats.read_csv(file))


def collapsed_rules(run: RunFolder, alone: MajorityShare | None) -> dict[str, int]:
    """Rules that are at the share of one class, and since which round."""
    if run.finished and "collapsed" in run.results:
        return run.results["collapsed"]
    if alone is None:
        return {}
    return reference_accuracy.collapsed_rules(run.records, alone) if run.records else {}


def _local(rows: Sequence[Row]) -> Iterable[str]:
    datasets = dict.fromkeys(g.dataset for _, g in rows)
    there = {g.dataset for _, g in rows if g.method == REFERENCE}
    if there:
        yield f"Reference: {REFERENCE}, clients that never exchange anything."
    if missing := [d for d in datasets if d not in there]:
        yield (
            f"No run of {REFERENCE} on {', '.join(missing)}: what clients reach alone, "
            f"the reference, is not in this table (configs/{REFERENCE}.py)."
        )


def _shares(rows: Sequence[Row], found: Known) -> Iterable[str]:
    for dataset in dict.fromkeys(g.dataset for _, g in rows):
        having: dict[str, list[str]] = {}
        for name, g in rows:
            if g.dataset == dataset:
                having.setdefault(_share(found.get(_data(g))), []).append(name)
        told = [
            text + f" in {', '.join(names)}" * (len(having) > 1)
            for text, names in having.items()
        ]
        yield f"{dataset}: share of {reference_accuracy.CLASS}: {'; '.join(told)}."


def _share(alone: MajorityShare | None) -> str:
    if alone is None:
        return "unknown (no partition.csv: older runs, or nodes with their own data)"
    mean = f"mean over clients {100 * alone.client_mean:.2f} %"
    return f"{100 * alone.pooled:.2f} %, {mean}"


def _collapses(rows: Sequence[Row], found: Known) -> Iterable[str]:
    for name, g in rows:
        told = [
            f"{rule} {run.results['rules'][rule]['pooled']['final']:.4f} since round "
            f"{since} (seed {run.config['seed']})"
            for run in sorted(g.finished, key=lambda run: run.config["seed"])
            for rule, since in collapsed_rules(run, found.get(_data(g))).items()
        ]
        if told:
            yield f"{g.dataset}: {name} collapsed: {', '.join(told)} {reference_accuracy.MEANS}."
