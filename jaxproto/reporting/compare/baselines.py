"""Notes on two baselines, local training and the commonest class; collapsed runs."""

import statistics
from collections.abc import Iterable, Mapping, Sequence

from jaxproto.data import partition_stats
from jaxproto.data.partition_stats import MajorityShare
from jaxproto.errors import UserError, escape_unprintable
from jaxproto.experiment.display_names import CENTRALISED
from jaxproto.methods import REFERENCE
from jaxproto.reporting.compare.run_groups import SeedGroup, by_value
from jaxproto.storage.run_folder import RunFolder
from jaxproto.summary import reference_accuracy

DECIDING = ("data.", "eval.clients", "attack.")  # fields of partition and clients
Shares = Mapping[tuple, Sequence[MajorityShare | None]]  # of runs, by these fields


def footnotes(rows: Sequence[SeedGroup]) -> list[str]:
    """Returns sentences on baselines of data sets, and on collapsed or broken rows."""
    shares: dict[tuple, list[MajorityShare | None]] = {}
    for key, run in [(_deciding_fields(g), run) for g in rows for run in g.finished]:
        shares.setdefault(key, []).append(majority_share(run))
    return [*_local(rows), *_shares(rows, shares), *_collapses(rows), *_warnings(rows)]


def _deciding_fields(group: SeedGroup) -> tuple:
    return tuple(
        (k, str(v)) for k, v in sorted(group.config.items()) if k.startswith(DECIDING)
    )


def majority_share(run: RunFolder) -> MajorityShare | None:
    """Returns the share of the commonest class; for older runs from `partition.csv`.

    None if the run has neither, or that file is damaged.
    """
    if entry := (run.summary or {}).get("commonest_class"):
        return MajorityShare(*(entry[name] for name in MajorityShare._fields))
    file = run.folder / "partition.csv"
    try:
        return partition_stats.majority_share(partition_stats.read_csv(file))
    except UserError:
        return None


def collapsed_rules(run: RunFolder, majority: MajorityShare | None) -> dict[str, int]:
    """Returns {rule: first round at the share of one class} of the collapsed rules."""
    if run.finished and "collapsed" in run.results:
        return run.results["collapsed"]
    if majority is None:
        return {}
    return reference_accuracy.collapsed_rules(run.records, majority)


def _local(rows: Sequence[SeedGroup]) -> Iterable[str]:
    blocks = dict.fromkeys(g.block for g in rows)
    with_local = {g.block for g in rows if g.method == REFERENCE}
    if with_local:
        yield f"Reference: {REFERENCE}, clients that never exchange anything."
    if any(g.config.get("data.centralised") for g in rows):
        yield f"Upper reference: {CENTRALISED}, one network on the examples of all."
    if missing := [b for b in blocks if b not in with_local]:
        yield (
            f"No run of {REFERENCE} on {'; '.join(missing)}: what clients reach alone, "
            f"the reference, is not in this table (configs/{REFERENCE}.py)."
        )


def _shares(rows: Sequence[SeedGroup], shares: Shares) -> Iterable[str]:
    texts = [(_share_text(shares[_deciding_fields(g)]), g) for g in rows]
    for dataset in dict.fromkeys(g.dataset for g in rows):
        here = [(text, g.label) for text, g in texts if g.dataset == dataset]
        several = len({text for text, _ in here}) > 1
        text = by_value(here) if several else here[0][0]
        yield f"{dataset}: share of {reference_accuracy.CLASS}: {text}."


def _share_text(majorities: Sequence[MajorityShare | None]) -> str:
    known = [majority for majority in majorities if majority is not None]
    if not known:
        reasons = "older runs, or nodes with their own data"
        return f"unknown (no usable partition.csv: {reasons})"
    pooled, client_mean, _ = (
        100 * statistics.fmean(x) for x in zip(*known, strict=True)
    )
    several = " (mean over the partitions)" * (len({*known}) > 1)
    return f"{pooled:.2f} %, mean over clients {client_mean:.2f} %{several}"


def _collapses(rows: Sequence[SeedGroup]) -> Iterable[str]:
    for g in rows:
        texts = [
            f"{rule} {run.results['rules'][rule]['pooled']['final']:.4f} since round "
            f"{since} (seed {run.config['seed']})"
            for run in sorted(g.finished, key=lambda run: run.config["seed"])
            for rule, since in collapsed_rules(run, majority_share(run)).items()
        ]
        if texts:
            collapses = ", ".join(texts)
            meaning = reference_accuracy.MEANS
            yield f"{g.block}: {g.label} collapsed: {collapses} {meaning}."


def _warnings(rows: Sequence[SeedGroup]) -> Iterable[str]:
    for g in rows:
        for run in sorted(g.finished, key=lambda run: run.config["seed"]):
            for line in run.results.get("warnings", []):
                line = escape_unprintable(line)
                yield f"{g.block}: {g.label} (seed {run.config['seed']}): {line}."
