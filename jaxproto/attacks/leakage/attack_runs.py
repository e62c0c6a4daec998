"""Attacks over runs, formats and noise levels, reported as a table and images."""

import math
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from jaxproto import wire
from jaxproto.attacks.leakage import (
    attacker,
    class_inference,
    crafted_broadcast,
    dense_inversion,
    gradient_inversion,
    joined_rounds,
    membership,
    next_upload,
    prototype_inversion,
    result_tables,
    scores,
    shadow_federations,
)
from jaxproto.attacks.leakage.attack_cases import (
    BODIES,
    BROADCASTS,
    CLIENTS,
    ROUND,
    AttackCase,
    AttackRequest,
    AttackResult,
    Images,
    attack_cases,
    cases_of,
)
from jaxproto.attacks.leakage.next_upload import NextRound
from jaxproto.errors import UserError, choose_from
from jaxproto.features.privacy import guarantee as privacy
from jaxproto.features.privacy import ledger as privacy_ledger
from jaxproto.lab import compare, leave_out
from jaxproto.summary.table_formats import TableView
from jaxproto.wrappers.privacy import OFF


class Attack(NamedTuple):
    """Attack with its description and columns."""

    about: str
    run: Callable  # NextRound, AttackRequest, ids -> Iterator of cases and results
    keys: tuple[str, ...]  # columns that identify a row
    success: str  # column of the heatmap
    lacking: str  # message that a method without rows does not send
    on_images: bool = False  # no other data
    note: str = "The attacker's network, where it needs one: {body}."


class AttackTable(NamedTuple):
    """Table of an attack, its rows before rounding, and images."""

    view: TableView
    rows: list[dict]
    images: Images | None  # of the first client


def on_each_case(attack: Callable[[AttackCase], Iterator[AttackResult]]) -> Callable:
    """Returns a function that attacks every case of a run."""

    def run(next: NextRound, request: AttackRequest, ids: Sequence[int]):
        for case in attack_cases(next, request, ids):
            for result in attack(case):
                yield case, result

    return run


def attack_updates(next: NextRound, request: AttackRequest, ids: Sequence[int]):
    """Inverts weight updates to images, for every size of an update.

    A whole round is attacked only in closed form.
    """
    exp = next.run.exp
    gradient = privacy.noiseless_gradient(next.run.config, next.local)
    task = gradient_inversion.AttackTask(
        exp.method, next.local.opt, exp.cohorts[0].net, gradient
    )
    for id in ids:
        for size in request.sizes:
            captured = next_upload.upload(next, id, *size)
            for case in cases_of(captured, captured.stages.trained, request):
                counts = dense_inversion.count_images(case)
                if size == ROUND:
                    no_scores = dict.fromkeys(gradient_inversion.SCORES)
                    yield case, AttackResult([{"size": "round", **no_scores, **counts}])
                    continue
                result = gradient_inversion.invert_update(task, case, size)
                if result is None:
                    return
                (similarity, images), (batch, steps) = result, size
                row = {"size": f"{batch} x {steps}", **similarity, **counts}
                priority = steps == 1, batch * steps  # large batches of one step first
                yield case, AttackResult([row], images, priority=priority)


ATTACKS = {
    "prototypes": Attack(
        "images from uploaded prototypes",
        on_each_case(prototype_inversion.attack_prototypes),
        ("start",),
        "psnr",
        "no prototypes of its own data",
        on_images=True,
    ),
    "updates": Attack(
        "images and labels from a weight update",
        attack_updates,
        ("size",),
        "psnr",
        "no whole network",
        on_images=True,
        note=dense_inversion.NOTE,
    ),
    "membership": Attack(
        "whether an example was trained on",
        on_each_case(membership.attack_membership),
        ("source",),
        "AUC",
        "neither prototypes nor its own whole network",
    ),
    "lira": Attack(
        "whether an example was trained on, by shadow federations",
        shadow_federations.attack_lira,
        ("source", "test"),
        "AUC",
        "neither prototypes nor its own whole network",
    ),
    "joined": Attack(
        "an example that a client gains between two rounds, from its prototypes",
        joined_rounds.attack_joined,
        (),
        "AUC",
        "no unscaled prototypes",
        on_images=True,
    ),
    "classes": Attack(
        "which classes a client holds, and how many examples of each",
        on_each_case(class_inference.attack_classes),
        ("source",),
        "recall",
        "neither prototypes nor a last layer",
    ),
}


def run_attack(
    name: str, request: AttackRequest, report: Callable[[str], object] = lambda _: None
) -> AttackTable:
    """Runs an attack and returns its table.

    Args:
      name: Key of ATTACKS.
      report: Receives a line about each run before it is attacked.

    Raises:
      UserError: a run, a client or a format cannot be attacked.
    """
    attack = ATTACKS[choose_from("attack", name, ATTACKS)]
    choose_from("body", request.body, BODIES)
    choose_from("broadcast", request.broadcast, BROADCASTS)
    for form in request.formats:
        choose_from("format", form, wire.FORMATS)
    if any(not (math.isfinite(n) and n >= 0) for n in request.noises):
        raise UserError(f"noise is {request.noises}; give numbers, at least 0.")
    if attack.on_images:
        scores.check_installed()
    rows: list[dict] = []
    notes, images = _notes(attack, request), None
    runs = leave_out.read_all(request.workdirs, compare.load)
    groups = compare.group_by_seed(runs)
    any_private = any(g.config["privacy.unit"] != OFF for g in groups)

    def attack_run(run):
        report(f"{name} of {run.path}")
        next = next_upload.next_round(run.path, request.data_dir)
        if attack.on_images:
            attacker.check_images(next.run.exp)
        ids = request.clients or range(min(CLIENTS, len(next.run.exp.counts.train)))
        if request.broadcast == "crafted":
            next = crafted_broadcast.with_crafted(next, request.seed)
        columns = {}
        if any_private:
            entry = privacy_ledger.privacy_ledger(next.run.config, next.run.exp)
            spent = entry(next.run.round).get("privacy", {}).get("epsilon")
            columns = {"unit": next.run.config.privacy.unit, "epsilon": spent}
        return run.path, ([*attack.run(next, request, ids)], columns)

    grouped_runs = [run for group in groups for run in group.runs]
    attacked = dict(leave_out.read_all(grouped_runs, attack_run))
    for group in groups:
        parts = [attacked[run.path] for run in group.runs if run.path in attacked]
        if not parts:
            continue
        results = [result for run_results, _ in parts for result in run_results]
        run_columns = (columns for _, columns in parts)
        largest = max(run_columns, key=lambda row: row.get("epsilon") or 0.0)
        columns = {"method": group.method, **largest}
        if not results:
            notes.append(f"{group.method}: sends {attack.lacking}.")
            continue
        pooled = result_tables.pooled(attack.keys, results)
        rows += [{**columns, **row} for row in pooled]
        drawn = [result for _, result in results if result.images is not None]
        if images is None and drawn:
            images = max(drawn, key=lambda result: result.priority).images
    if any_private:
        notes.append(NOTE)
        rows = result_tables.by_epsilon(rows)
    return AttackTable(
        result_tables.view(f"{name}: {attack.about}", rows, notes), rows, images
    )


NOTE = "epsilon: of the run, without the round that is attacked."


def _notes(attack: Attack, request: AttackRequest) -> list[str]:
    """Returns the notes below the table."""
    clients = ", ".join(map(str, request.clients)) or f"the first {CLIENTS}"
    notes = [
        f"Clients: {clients}; means over them and over runs that differ in their seed. "
        f"Seed {request.seed}. Uploads are those of one more round after the last "
        "checkpoint.",
        "noise: standard deviation over the root mean square of what is sent, besides "
        "that of privacy.unit; not clipped, so no differential privacy.",
    ]
    if request.broadcast == "crafted":
        notes.append(crafted_broadcast.NOTE)
    return [*notes, attack.note.format(body=request.body)]
