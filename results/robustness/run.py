"""Accuracy under attack: the runs of the tables, and their pictures.

    python -m results.robustness.run runs SET [METHOD] [DATA_DIR]
    python -m results.robustness.run drawn

SET is digits or fashion_mnist, DATA_DIR its folder of TFDS. `runs` writes SET.csv,
`drawn` prints the tables and draws the pictures of docs/how_to.

All runs of a method are calls of one program: attack, aggregation, share and strength
are its arguments. It has the functions of a run (`federation.one_round`, the wrappers
of `jaxproto.features.robustness`), with all attacks and aggregations behind switches.
"""

import csv
import dataclasses
import itertools
import statistics
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from jaxproto import config
from jaxproto.core.method import Aggregation, Method
from jaxproto.core.types import Array
from jaxproto.experiment import build
from jaxproto.experiment.build import Experiment
from jaxproto.experiment.traced import replace_floats
from jaxproto.features.robustness import attacks
from jaxproto.features.robustness.attacks import Attack, attacked
from jaxproto.features.robustness.hostile_clients import hostile_clients
from jaxproto.features.robustness.registry import ATTACKS, CENTRES
from jaxproto.features.robustness.robust_aggregation import centred
from jaxproto.lab.plots import layout
from jaxproto.lab.plots.style import MARKERS, line_style, new_figure
from jaxproto.round import evaluation, federation
from jaxproto.round.evaluation import EvaluationInputs
from jaxproto.training import programs

HERE = Path(__file__).parent
METHODS = {  # method -> prediction rule of what was aggregated
    "fedproto": "global",
    "protonorm": "global",
    "tinyproto": "global",
    "fedavg": "received",
}
TITLES = dict(
    zip(METHODS, ("FedProto", "ProtoNorm", "TinyProto", "FedAvg"), strict=True)
)
MEAN = "mean"  # aggregation of the method itself
RULES = (MEAN, *CENTRES)
CLEAN = "none"
KINDS = (CLEAN, *ATTACKS)
STRENGTHS = {"noise": 3.0}  # else 1
TOLERATED = 0.3  # robust.share
RUN = ("method", "attack", "aggregate", "share", "seed")
FIELDS = (*RUN, "rule", "accuracy")  # in per cent; empty: the run stops


class Setting(NamedTuple):
    """Configuration that the runs of a table share."""

    data: str
    fields: Mapping
    shares: Sequence[float]
    kinds: Sequence[str]
    seeds: Sequence[int]


DIGITS = {"model.group": "mlp", "data.alpha": 0.5, "rounds": 60}
FASHION = {
    "model.group": "mlp",
    "model.feat_dim": 64,
    "data.clients": 20,
    "data.alpha": 0.5,
    "data.train_share": 0.1,
    "local.batch_size": 32,
    "optimizer.learning_rate": 0.05,
    "rounds": 20,
}
FEW = ("label_flip", "sign_flip", *attacks.OF_PROTOS, "alie")
SETS = {
    "digits": Setting("digits", DIGITS, (0.1, 0.2, 0.3), [*ATTACKS], (0,)),
    "fashion_mnist": Setting("fashion_mnist", FASHION, (0.2,), FEW, (0,)),
}
VALUES, PROTOS = dict(attacks.OF_VALUES), dict(attacks.OF_PROTOS)


def settings(method: str, setting: Setting, data_dir: str):
    """Returns the configuration that all runs of a method share."""
    c = config.experiment(method, setting.data)
    c.update_from_flattened_dict({**setting.fields, "data.data_dir": data_dir})
    config.check(c)
    return c


def with_any_aggregation(method: Method, rule: Array) -> Method:
    """Returns a method that aggregates by RULES[rule]; `rule` may be traced."""

    def centre(x_KN, sent_K, share):
        branches = [partial(f, share=share) for f in CENTRES.values()]
        return lax.switch(rule - 1, branches, x_KN, sent_K)

    def finish(net, server, up, key):
        robust = partial(centred, centre=centre, share=TOLERATED)
        up = lax.cond(rule == RULES.index(MEAN), lambda up: up, robust, up)
        return method.aggregation(net, server, up, key)

    return dataclasses.replace(method, update=Aggregation(finish))


def with_any_attack(method: Method, kind: Array, hostile, strength) -> Method:
    """Returns a method with the attack KINDS[kind]; `kind` may be traced."""

    def one_of(functions):
        first = KINDS.index(next(iter(functions)))
        return lambda *args: lax.switch(kind - first, [*functions.values()], *args)

    attacks.OF_VALUES["values"] = one_of(VALUES)
    attacks.OF_PROTOS["protos"] = one_of(PROTOS)
    members = {"label_flip": ["label_flip"], "values": VALUES}
    if METHODS[method.name] == "global":
        members["protos"] = PROTOS
    for name, kinds in {**members, "alie": ["alie"]}.items():
        chosen = jnp.isin(kind, jnp.asarray([KINDS.index(k) for k in kinds]))
        who = partial(lambda id, chosen: hostile(id) & chosen, chosen=chosen)
        method = attacked(method, Attack(name, who, strength))
    return method


class Outcome(NamedTuple):
    """Results of a run."""

    correct: dict  # {rule: [K]} correct predictions of every client
    finite: Array  # whether all uploads were
    hostile: Array  # [K]


def compiled(exp: Experiment, run, rounds: int):
    """Returns the program (kind, rule, share, strength, seed) -> `Outcome`."""
    plain = build.federation(exp)
    (cohort,), (tests,) = exp.cohorts, jax.tree.map(jnp.asarray, exp.test)

    @jax.jit
    def program(kind, rule, share, strength, seed):
        hostile = hostile_clients(replace_floats(run, {"attack.share": share}))

        def parts(floats):
            made = exp.parts(floats)
            method = with_any_aggregation(made.method, rule)
            return made._replace(
                method=with_any_attack(method, kind, hostile, strength)
            )

        whole, keys = plain._replace(parts=parts), programs.keys(seed)

        def one_round(r, state):
            model, finite = state
            key = jax.random.fold_in(keys[2], r)
            model, (report,) = federation.one_round(whole, {}, key, model, r)
            return model, finite & jnp.all(report.finite)

        start = federation.init_model(whole, {}, keys[:2]), jnp.bool_(True)
        model, finite = lax.fori_loop(0, rounds, one_round, start)
        method = parts({}).method
        down = federation.broadcast(method, model.server, whole.formats).message
        inputs = EvaluationInputs(method, cohort, exp.metrics, down, whole.examples)
        sums = evaluation.evaluate_cohort(inputs, model.clients[0], tests)
        correct = {rule: by_metric["accuracy"][0] for rule, by_metric in sums.items()}
        return Outcome(correct, finite, hostile(jnp.asarray(cohort.ids)))

    return program


def cells(setting: Setting, method: str) -> list[tuple]:
    """Returns kind, aggregation, share and seed of every run of a method."""
    kinds = [k for k in setting.kinds if k not in PROTOS or METHODS[method] == "global"]
    clean = itertools.product((CLEAN,), RULES, (0.0,), setting.seeds)
    return [*clean, *itertools.product(kinds, RULES, setting.shares, setting.seeds)]


def runs(name: str, only: str = "", data_dir: str = ""):
    """Makes the runs of a table."""
    setting = SETS[name]
    for method in [only] if only else METHODS:
        run = settings(method, setting, data_dir)
        exp = build.experiment(run, "cpu")
        program = compiled(exp, run, run.rounds)
        size_K = exp.counts.test.sum(1)[list(exp.cohorts[0].ids)]
        rows, last = [], (RULES[-1], max(setting.shares), setting.seeds[-1])
        for kind, rule, share, seed in cells(setting, method):
            strength = STRENGTHS.get(kind, 1.0)
            numbers = KINDS.index(kind), RULES.index(rule), share, strength, seed
            done = jax.device_get(program(*numbers))
            honest_K = ~done.hostile
            hits = done.correct[METHODS[method]][honest_K].sum()
            stops = rule == MEAN and not done.finite
            value = "" if stops else f"{100 * hits / size_K[honest_K].sum():.2f}"
            rows.append((method, kind, rule, share, seed, METHODS[method], value))
            if (rule, share, seed) == last:
                write(HERE / f"{name}.csv", method, rows)  # of all kinds so far


def write(path: Path, method: str, rows: Sequence[tuple]):
    """Replaces the rows of a method."""
    kept = [list(r.values()) for r in read(path) if r["method"] != method]
    with path.open("w", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows([FIELDS, *kept, *rows])


def read(path: Path) -> list[dict]:
    """Returns the rows of a table; none where it is not there."""
    return list(csv.DictReader(path.open())) if path.exists() else []


def accuracy(rows: Sequence[dict], method, kind, rule, share) -> float | None:
    """Returns the mean accuracy over seeds; None where a run stops."""
    key = [method, kind, rule, str(share)]
    mine = [r for r in rows if [r[k] for k in RUN[:4]] == key]
    if not mine or not all(r["accuracy"] for r in mine):
        return None
    return statistics.fmean(float(r["accuracy"]) for r in mine)


def table(rows: Sequence[dict], method: str, shares: Sequence[float]) -> str:
    """Returns Markdown: a row per attack, a column per aggregation."""
    lines = ["| attack | " + " | ".join(RULES) + " |", "|---" * (len(RULES) + 1) + "|"]
    for kind in dict.fromkeys(r["attack"] for r in rows if r["method"] == method):
        row = []
        for rule in RULES:
            own = (0.0,) if kind == CLEAN else shares
            values = [accuracy(rows, method, kind, rule, share) for share in own]
            row.append(", ".join("stops" if a is None else f"{a:.1f}" for a in values))
        lines.append(f"| `{kind}` | " + " | ".join(row) + " |")
    return "\n".join(lines)


def drawn():
    """Prints the tables and draws the pictures."""
    for name, setting in SETS.items():
        rows = read(HERE / f"{name}.csv")
        for method in [m for m in METHODS if any(r["method"] == m for r in rows)]:
            title = TITLES[method]
            text = table(rows, method, setting.shares)
            sys.stdout.write(f"\n{name}, {title}\n\n{text}\n")
            if len(setting.shares) > 1:
                draw(rows, method, setting)


def draw(rows: Sequence[dict], method: str, setting: Setting):
    """Draws accuracy against the share of hostile clients, a panel per attack."""
    present = {r["attack"] for r in rows if r["method"] == method}
    kinds = [k for k in setting.kinds if k in present]
    path = HERE.parents[1] / "docs" / "how_to" / f"robustness_{method}.png"
    with new_figure(path, layout.figure_size(len(kinds), (1.8, 1.6))) as figure:
        panels = layout.panels(figure, kinds)
        for panel, kind in zip(panels, kinds, strict=True):
            for i, rule in enumerate(RULES):
                found = [(0.0, accuracy(rows, method, CLEAN, rule, 0.0))]
                found += [
                    (s, accuracy(rows, method, kind, rule, s)) for s in setting.shares
                ]
                points = [(100 * s, a) for s, a in found if a is not None]
                style = {**line_style(i), "marker": MARKERS[i], "label": rule}
                panel.plot(*zip(*points, strict=True), **style)
            panel.set_ylim(0, 100)
        layout.label_outer_axes(panels, "hostile clients (%)", "accuracy (%)")
        layout.legend(figure, *panels[0].get_legend_handles_labels())


COMMANDS: dict[str, Callable] = {"runs": runs, "drawn": drawn}

if __name__ == "__main__":
    if len(sys.argv) < 2 or sys.argv[1] not in COMMANDS:
        sys.exit(__doc__)
    COMMANDS[sys.argv[1]](*sys.argv[2:])
