"""Comparison of jaxproto with plain PyTorch: same weights, same batches.

    python -m benchmarks.parity
    python -m benchmarks.parity --method=protonorm --perturb=lam=5
    python -m benchmarks.parity --mistakes
    python -m benchmarks.parity --method=fedtgp,tinyproto_fp,cps,refprotofl
    python -m benchmarks.parity --data=fashion_mnist --data_dir=DIR --most=320

First, both sides train independently, and their losses and accuracies are compared by
round. Then they are compared stage by stage: batches, loss of the first step, weights,
loss of the round, local prototypes, their mean, the alignment, scores and correct
predictions of every rule. In this part, every step and stage in PyTorch starts from
jaxproto's previous result, so that a difference shows where it arises. The benchmark
prints the largest differences and the first quantity out of tolerance, and exits with
status 1 if there is one. `--perturb` changes a rule of the PyTorch side only; then the
status is 1 if nothing differs.
"""

import sys
from collections.abc import Sequence

from benchmarks import measure
from benchmarks.parity import compare, rules, views
from benchmarks.parity.compare import Finding
from benchmarks.parity.ours import Ours
from benchmarks.parity.record import Record, of_clients
from jaxproto import config as config_
from jaxproto.errors import UserError

NONE = {"masks": "none", "scaling": "none", "distill": "none"}
ROWS: dict[str, tuple[str, dict]] = {  # row -> method, changed fields
    "local": ("local", {}),
    "fedproto": ("fedproto", {}),
    "protonorm": ("protonorm", {}),
    "fedtgp": ("fedtgp", {}),
    "tinyproto_fp": ("tinyproto", {}),
    "tinyproto_ft": ("tinyproto", {"base": "fedtgp"}),
    "cps": ("cps_ppa_cpkd", NONE | {"masks": "block_exact"}),
    "ppa": ("cps_ppa_cpkd", NONE | {"scaling": "sum"}),
    "cpkd": ("cps_ppa_cpkd", NONE | {"distill": "cpkd"}),
    "refprotofl": ("refprotofl", {}),
}
METHODS = ("local", "fedproto", "protonorm")
FLAGS = measure.flag_values(
    "data_dir",
    method=(list(METHODS), "keys of ROWS"),
    data=("digits", "data set of configs/"),
    group="cnn4_d",
    rounds=(5, "number of rounds"),
    clients=4,
    most=(0, "most examples per client; 0: all"),
    epochs=(1, "local epochs"),
    seed=(0, "seed of weights and batches"),
    rate=(0.01, "learning rate"),
    lam=(10.0, "weight of the pull"),
    upscale=(10.0, "gamma of ProtoNorm"),
    reg=("mse_mean", "form of the pull"),
    collect=("after_training", "see method.collect"),
    perturb=([], "mistakes such as lam=5"),
    mistakes=(False, "try all mistakes"),
)
NO_TORCH = "error: parity needs PyTorch, and torch is not installed: pip install torch"
MISTAKES = {  # method -> mistakes on the PyTorch side
    "local": ("order=fixed", "rate=0.01001"),
    "batch_norm": (  # Local with networks that have BatchNorm
        "order=fixed",
        "rate=0.01001",
        "bn_momentum=0.11",
        "bn_momentum=0.09",
        "bn_eps=0.0001",
    ),
    "fedproto": (
        "order=fixed",
        "rate=0.01001",
        "lam=5",
        "lam=10.01",
        "reg=sq_l2_mean",
        "reg=l2_of_means",
        "collect=before_training",
        "collect=train_pass",
        "aggregate=mean_over_examples",
        "aggregate=as_printed",
    ),
    "protonorm": (
        "lam=5",
        "iterations=0",
        "iterations=20",
        "patience=9",
        "upscale=10.01",
    ),
    "fedtgp": (
        "lam=10.01",
        "collect=before_training",
        "tau=0.1",
        "server_rate=0.0101",
        "server_epochs=99",
        "server_batch=9",
    ),
    "tinyproto_fp": (
        "lam=10.01",
        "scaling=mean",
        "scaling=none",
        "mu=0.006",
        "masks=none",
        "compare=sparse",
        "distill=cpkd",
    ),
    "tinyproto_ft": (
        "base=fedproto",
        "scaling=mean",
        "masks=none",
        "tau=0.1",
        "server_rate=0.0101",
        "compare=sparse",
    ),
    "cps": ("lam=10.01", "masks=none", "compare=sparse", "scaling=sum", "distill=cpkd"),
    "ppa": ("lam=10.01", "scaling=mean", "scaling=none", "mu=0.006", "distill=cpkd"),
    "cpkd": (
        "lam=10.01",
        "distill=none",
        "scaling=sum",
        "reg=sq_l2_mean",
        "collect=train_pass",
    ),
    "refprotofl": (
        "lam=10.01",
        "reg=sq_l2_mean",
        "budget=0.11",
        "anchors=own",
        "aggregate=mean_over_clients",
        "adapters=by_clients",
    ),
}


def configuration(row: str, s: dict):
    """Returns the configuration of a row with the settings of the command line."""
    method, changed = ROWS[row]
    path = measure.ROOT / "configs" / f"{method}.py"
    config = config_.load(f"{path}:{s['data']}")
    fields = {
        "rounds": s["rounds"],
        "seed": s["seed"],
        "data.clients": s["clients"],
        "data.data_dir": s["data_dir"],
        "model.group": s["group"],
        "local.epochs": s["epochs"],
        "optimizer.learning_rate": s["rate"],
    }
    given = {k: s[k] for k in ("lam", "reg", "collect")} | {"pull": s["reg"]} | changed
    if method == "protonorm":
        given["upscale"] = s["upscale"]
    fields |= {f"method.{k}": v for k, v in given.items() if k in config.method}
    config.update_from_flattened_dict(fields)
    return config


class Comparison:
    """Comparison of one method: jaxproto runs once, PyTorch with any mistakes."""

    def __init__(self, method: str, s: dict):
        """Runs all rounds of jaxproto."""
        config = configuration(method, s)
        side = Ours(config, s["most"])
        self.start = side.start()
        num_examples = int(self.start.counts.sum())
        self.rules = rules.of(config, side.exp.spec, num_examples)
        rounds = [side.round() for _ in range(s["rounds"])]
        self.ours = [r.record for r in rounds]
        self.orders = [r.order for r in rounds]
        self.tested = sum(map(len, self.start.test))

    def alone(self, mistakes: Sequence[str] = ()) -> list[Record]:
        """Returns PyTorch's rounds from the same start, with mistakes if given."""
        side = self.theirs("float32", mistakes)
        return [side.round(order) for order in self.orders]

    def stages(self, mistakes: Sequence[str] = ()) -> list[Finding]:
        """Returns the differences stage by stage."""
        sides = [self.theirs(t, mistakes) for t in ("float32", "float64")]
        given = [*zip(self.orders, self.ours, strict=True)]
        records = [[side.round(*pair) for pair in given] for side in sides]
        before = of_clients(self.start.weights)
        return list(compare.rounds(before, self.ours, *records))

    def theirs(self, dtype: str, mistakes: Sequence[str]):
        """Returns PyTorch's side before its first round."""
        import torch

        from benchmarks.parity.refprotofl import RefProtoFL
        from benchmarks.parity.theirs import Theirs

        changed = rules.mistaken(self.rules, mistakes)
        side = RefProtoFL if changed.width else Theirs
        return side(self.start, changed, getattr(torch, dtype))


def report(method: str, compared: Comparison, mistakes: Sequence[str]):
    """Returns results and tables of a method, and its first finding, if any."""
    findings = compared.stages(mistakes)
    rows = views.results(compared.ours, compared.alone(mistakes), compared.tested)
    found = compare.first(findings)
    title = " with ".join([method, *([", ".join(mistakes)] * bool(mistakes))])
    tables = [views.by_round(title, rows), views.by_quantity(title, findings)]
    record = {
        "method": method,
        "mistakes": list(mistakes),
        "rounds": rows,
        "findings": [f._asdict() for f in findings],
        "first": found and found._asdict(),
    }
    return record, tables, found


def one_by_one(method: str, compared: Comparison) -> list[dict]:
    """Tries each mistake of the method; returns rows with its first finding."""
    rows, kind = [], method
    if method == "local" and any("running_var" in k for k in compared.start.weights[0]):
        kind = "batch_norm"
    for mistake in MISTAKES[kind]:
        found = compare.first(compared.stages([mistake]))
        first = found and found._asdict()
        rows.append({"method": method, "mistake": mistake, "first": first})
    return rows


def compared_all(s: dict):
    """Returns results, tables and first findings of all methods."""
    results, tables, found, rows = [], [], [], []
    for method in s["method"]:
        compared = Comparison(method, s)
        record, views_, first = report(method, compared, s["perturb"])
        results.append(record)
        tables += views_
        found.append((method, first))
        if s["mistakes"]:
            rows += one_by_one(method, compared)
    tables += [views.mistakes(rows)] if rows else []
    return {"methods": results, "mistakes": rows}, tables, found


def main(argv):
    """Compares every selected method."""
    settings = measure.parse(FLAGS, argv, __doc__)
    if not measure.has_torch():
        sys.exit(NO_TORCH)
    measure.check_choices(settings, "method", ROWS)
    try:
        results, tables, found = compared_all(settings)
    except UserError as e:
        sys.exit(f"error: {e}")
    measure.finish("parity", settings, results, tables)
    for method, first in found:
        print(
            f"{method}: {first or 'every quantity of every round is within tolerance'}"
        )
    if any(bool(first) != bool(settings["perturb"]) for _, first in found):
        sys.exit(1)


if __name__ == "__main__":
    main(sys.argv)
