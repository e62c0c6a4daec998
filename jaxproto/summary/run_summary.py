"""Partition that a run prints at its start, and its summary at the end."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import ml_collections
import numpy as np
from rich.console import Console

from jaxproto.data import partition_stats, scale
from jaxproto.data.partitions.partition import (
    partition_lines,
)
from jaxproto.data.registry import NODES
from jaxproto.errors import UserError, first_few
from jaxproto.experiment.build import Experiment
from jaxproto.io import atomic
from jaxproto.round.simulated_time import ELAPSED
from jaxproto.storage.records import peak_memory_bytes, rule_summary, versions
from jaxproto.storage.run_folder import has_begun
from jaxproto.summary import metric_record, nominal_cost, reference_accuracy, sanity
from jaxproto.summary.progress_lines import print_table, say

SHOWN = 20  # clients in a printed list


def partition(exp: Experiment, path: Path, console: Console):
    """Prints the examples of clients, at the first start, and saves the partition."""
    if not has_begun(path):
        _print_partition(exp, console)
    save_partition(exp, path)


def _print_partition(exp: Experiment, console: Console):
    local, work = exp.local, padding(exp)
    for note in exp.dataset.notes:
        say(console, note)
    if not exp.dataset.tokens and exp.dataset.name != NODES:
        train = exp.dataset.x[: exp.dataset.train_size]
        say(console, f"networks see {scale.describe(train)}")
    table = partition_stats.table(exp.counts, work, names=exp.dataset.classes)
    print_table(console, table)
    size_K = exp.counts.train.sum(1)
    short = first_few(np.flatnonzero(size_K < local.batch_size), SHOWN)
    if short:
        steps = local.steps_per_epoch(size_K.min(), local.batch_size)
        training = "a step on their own examples repeated" if steps else "never train"
        line = f"below one batch of {local.batch_size}: clients {short} ({training})"
        say(console, line)
    for cohort in exp.cohorts:
        say(console, f"cohort {cohort.name}: clients {first_few(cohort.ids, SHOWN)}")
    if any(c.sampled for c in exp.cohorts):
        rows, store = sum(c.num_rows for c in exp.cohorts), STORE_SENTENCES[exp.store]
        say(console, f"a round has room for {rows} of {len(size_K)} clients; {store}")


STORE_SENTENCES = {  # store -> where clients are between rounds
    "none": "they keep nothing",
    "device": "they are on the device",
    "host": "they are in the memory of the host",
    "disk": "they are in files",
    "nodes": "they are on their nodes",
}


def partition_files(exp: Experiment) -> dict[str, bytes]:
    """Returns name -> content of the files that say whose example each row is.

    `data.partition=file:` reads `indices.csv`. Where classes have names, `classes.json`
    has their numbers, which are the labels in these files and in every array.
    """
    files = {"indices.csv": partition_lines(exp.dataset, exp.partition).encode()}
    if exp.dataset.classes:
        numbers = {name: c for c, name in enumerate(exp.dataset.classes)}
        files["classes.json"] = (json.dumps(numbers, indent=2) + "\n").encode()
    return files


def check_same(exp: Experiment, path: Path):
    """Raises UserError if the run in the folder has another partition or classes."""
    for name, content in partition_files(exp).items() if has_begun(path) else ():
        saved = path / name
        same = saved.is_file() and atomic.has_content(saved, content)
        if saved.exists() and not same:
            raise UserError(
                f"{saved} has another partition or other classes than this "
                "configuration gives now: the data set, the file of the partition or "
                "this file has changed since, or it is of another run. Nothing was "
                "changed. Bring back the old one, or choose another folder."
            )


def save_partition(exp: Experiment, path: Path):
    """Writes the counts, `partition.csv`, and `partition_files`, as checked before."""
    check_same(exp, path)
    partition_stats.write_csv(path / "partition.csv", exp.counts)
    for name, content in partition_files(exp).items():
        atomic.write(path / name, content)


def padding(exp: Experiment) -> partition_stats.RoundWork:
    """Returns the steps per client, and the share that padding would waste."""
    return partition_stats.work(
        [len(rows) for rows in exp.partition.train],
        [c.ids for c in exp.cohorts],
        batch_size=exp.local.batch_size,
        epochs=exp.local.epochs,
        per_epoch=exp.local.steps_per_epoch,
    )


def padding_share(exp: Experiment) -> float:
    """Returns the share of the local steps of a run that only pad."""
    steps = [padding(exp).steps[list(c.ids)][: c.num_rows] for c in exp.cohorts]
    total = sum(c.mode.steps(s) for c, s in zip(exp.cohorts, steps, strict=True))
    return 1 - float(np.concatenate(steps).sum()) / total if total else 0.0


def accuracy(correct_K: np.ndarray, size_K: np.ndarray) -> dict[str, float]:
    """Returns accuracy over examples, and mean and spread over clients (ddof 0).

    Clients without examples do not count.
    """
    correct_K, size_K = correct_K[size_K > 0], size_K[size_K > 0]
    each_K = correct_K / size_K
    return {
        "pooled": float(correct_K.sum() / size_K.sum()),
        "client_mean": float(each_K.mean()),
        "client_std": float(each_K.std()),
        "client_min": float(each_K.min()),
        "client_max": float(each_K.max()),
    }


class CompileStats(NamedTuple):
    """Seconds and memory of compiled programs."""

    seconds: float
    bytes_needed: int  # on the device, as XLA computes it


def run_summary(
    config: ml_collections.ConfigDict,
    exp: Experiment,
    records: Sequence[Mapping],
    compiled: CompileStats,
    status: Mapping,
) -> dict:
    """Returns the contents of `summary.json`, from the records of `metrics.jsonl`."""
    classes_K = nominal_cost.classes_held(exp).sum(1)
    net = exp.cohorts[0].net
    metrics = metric_record.metric_summary(records, exp.metrics)
    last: Mapping = records[-1] if records else {}
    rounds, privacy = last.get("round", 0), status.get("privacy") or last.get("privacy")
    seconds = [r["seconds"] for r in records[1:] or records]  # first may compile
    sent = last.get("bytes_total", {"up": None, "down": None})
    reference: dict = {}
    majority = None
    if config.data.name != NODES:  # the server of nodes has no examples by class
        majority = partition_stats.majority_share(exp.counts, exp.counted_ids)
        reference = reference_accuracy.reference_fields(records, majority)
    elapsed: dict[str, float] = {}  # simulated seconds
    if history := last.get("every_round", {}).get(ELAPSED):
        elapsed = {"total": history[-1], "per_round": history[-1] / rounds}
    return {
        **status,
        "method": config.method.name,
        "dataset": config.data.name,
        "seed": config.seed,
        "rounds": rounds,
        "rules": rule_summary(records),
        **({"metrics": metrics} if metrics else {}),
        **({"privacy": privacy} if privacy else {}),
        **reference,
        "warnings": sanity.run_warnings(records, majority),
        "scalars_per_round": {
            "nominal": nominal_cost.nominal(exp.method, net, classes_K),
            "up": _mean(records, "scalars_up"),
            "down": _mean(records, "scalars_down"),
        },
        # of all rounds; a record has the bytes of the evaluated one
        "bytes_per_round": {way: n and n / rounds for way, n in sent.items()},
        "bytes_total": last.get("bytes_total"),
        **({ELAPSED: elapsed} if elapsed else {}),
        "smallest_angle": last.get("smallest_angle"),
        "seconds_per_round": float(np.median(seconds)) if seconds else None,
        "compile_seconds": compiled.seconds,
        "padding_waste": {
            "if_padded": padding(exp).total_waste,
            "here": padding_share(exp),
        },
        "clients_between_rounds": exp.store,
        "bytes_needed": compiled.bytes_needed,
        "peak_memory_bytes": peak_memory_bytes(),
        "versions": versions(),
    }


def _mean(records, key):
    return float(np.mean([r[key] for r in records])) if records else None
