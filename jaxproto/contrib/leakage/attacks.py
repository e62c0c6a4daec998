"""Attacks over runs, formats and noise: a table, and images of the first client."""

import math
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from jaxproto import wire
from jaxproto.config import privacy
from jaxproto.contrib.leakage import (
    attacker,
    class_inference,
    gradient_inversion,
    membership,
    next_upload,
    prototype_inversion,
    result_tables,
    scores,
)
from jaxproto.contrib.leakage.attacker import AttackerKnowledge
from jaxproto.contrib.leakage.next_upload import CapturedUpload, NextRound
from jaxproto.errors import UserError, choose_from
from jaxproto.privacy import OFF
from jaxproto.reporting import compare
from jaxproto.summary.table_formats import TableView
from jaxproto.training import privacy_ledger
from jaxproto.types import Client

BODIES = ("own", "other")
CLIENTS, SIZES = 3, ((1, 1), (2, 1), (4, 1), (8, 1), (2, 4))
Images = tuple[dict[str, np.ndarray], np.ndarray]  # by name, true ones first; classes


class AttackRequest(NamedTuple):
    """What is attacked."""

    workdirs: Sequence[str]
    clients: Sequence[int] = ()  # by id; () is the first ones
    formats: Sequence[str] = ()  # of values on the wire; () is that of each run
    noises: Sequence[float] = (0.0,)  # standard deviations, see `uploads.sent`
    body: str = "own"  # the network of the attacker, where it needs one
    sizes: Sequence[tuple[int, int]] = SIZES  # of updates: batch, steps
    seed: int = 0
    data_dir: str = ""


class AttackCase(NamedTuple):
    """A client with what the attacker has, and how its message travels."""

    made: CapturedUpload
    has: AttackerKnowledge
    body: Client
    form: str
    noise: float
    seed: int

    @property
    def sent(self):
        """Both messages as the server has them."""
        return next_upload.on_the_wire(self.made, self.form, self.noise, self.seed)


class AttackResult(NamedTuple):
    """What an attack says of a client."""

    rows: list[dict]
    images: Images | None = None
    scores: tuple[np.ndarray, np.ndarray] | None = None  # members, others


class Attack(NamedTuple):
    """An attack as a command has it."""

    about: str
    each: Callable  # NextRound, Asked, ids -> Iterator of cases and what is found
    keys: tuple[str, ...]  # columns that say what a row is of
    success: str  # the column that a picture shows
    lacking: str  # what a method without rows does not send


class AttackTable(NamedTuple):
    """A table, its rows before rounding, and images."""

    view: TableView
    rows: list[dict]
    images: Images | None  # of the first client


def attack_cases(
    next: NextRound, asked: AttackRequest, ids: Sequence[int]
) -> Iterator[AttackCase]:
    """Every client in every format with every noise, after its own training."""
    for id in ids:
        made = next_upload.upload(next, id)
        yield from _travelling(made, attacker_network(made, asked.body), asked)


def _travelling(
    made: CapturedUpload, body: Client, asked: AttackRequest
) -> Iterator[AttackCase]:
    run = made.next.run
    has = attacker.attacker_knowledge(run.exp, made.id, asked.seed)
    for form in asked.formats or (run.exp.formats.up,):
        for noise in asked.noises:
            yield AttackCase(made, has, body, form, noise, asked.seed)


def attacker_network(made: CapturedUpload, which: str) -> Client:
    """The client whose network the attacker has, as it was when features were made."""
    if which == "other":
        _, cohort = next_upload.cohort_and_index(made.next.run, made.id)
        if len(cohort.ids) < 2:
            raise UserError(
                f"client {made.id} is the only one with the architecture "
                f"{cohort.name}: there is no other body; ask for own."
            )
        at = cohort.ids.index(made.id)
        made = next_upload.upload(made.next, cohort.ids[at - 1])
    early = next_upload.prototypes(made.stages.early, ()) is not None
    return made.stages.received if early else made.stages.trained


def attack_prototypes(next: NextRound, asked: AttackRequest, ids: Sequence[int]):
    """Inversion of prototypes."""
    attacker.check_images(next.run.exp)
    scores.check_installed()
    for case in attack_cases(next, asked, ids):
        made = prototype_inversion.invert_prototypes(
            case.made, case.sent, case.has, case.body, case.seed
        )
        if made is not None:
            yield case, AttackResult(made[0], made[1:] if len(made[2]) else None)


def attack_updates(next: NextRound, asked: AttackRequest, ids: Sequence[int]):
    """Inversion of weight updates, for every size of a batch."""
    attacker.check_images(next.run.exp)
    scores.check_installed()
    exp = next.run.exp
    gradient = privacy.noiseless_gradient(next.run.config, next.local)
    task = gradient_inversion.AttackTask(
        exp.method, next.local.opt, exp.cohorts[0].net, gradient
    )
    for id in ids:
        for size in asked.sizes:
            made = next_upload.upload(next, id, *size)
            for case in _travelling(made, made.stages.trained, asked):
                found = gradient_inversion.invert_update(
                    task, made, case.sent[1], case.has, size, case.seed
                )
                if found is None:
                    return
                yield case, AttackResult([found[0]], found[1:])


def attack_membership(next: NextRound, asked: AttackRequest, ids: Sequence[int]):
    """Membership by prototypes and by weights."""
    for case in attack_cases(next, asked, ids):
        made, sent, has = case.made, case.sent, case.has
        both = {
            "prototypes": membership.by_prototype(made, sent, has, case.body),
            "weights": membership.by_loss(made, sent, has),
        }
        for source, found in both.items():
            if found is not None:
                row = {"source": source, "AUC": scores.auc(*found)}
                yield case, AttackResult([row], scores=found)


def attack_classes(next: NextRound, asked: AttackRequest, ids: Sequence[int]):
    """Presence and counts."""
    for case in attack_cases(next, asked, ids):
        true = next.run.exp.counts.train[case.made.id]
        found = class_inference.class_evidence(
            case.made, case.sent, case.has, case.body
        )
        if found:
            yield (
                case,
                AttackResult(
                    [class_inference.score_classes(one, true) for one in found]
                ),
            )


ATTACKS = {
    "prototypes": Attack(
        "images from uploaded prototypes",
        attack_prototypes,
        ("start",),
        "psnr",
        "no prototypes of its own data",
    ),
    "updates": Attack(
        "images and labels from a weight update of few examples",
        attack_updates,
        ("batch", "steps"),
        "psnr",
        "no whole network",
    ),
    "membership": Attack(
        "whether an example was trained on",
        attack_membership,
        ("source",),
        "AUC",
        "neither prototypes nor a network",
    ),
    "classes": Attack(
        "which classes a client holds, and how many examples of each",
        attack_classes,
        ("source",),
        "recall",
        "neither prototypes nor a last layer",
    ),
}


def run_attack(
    name: str, asked: AttackRequest, told: Callable[[str], object] = lambda _: None
):
    """Runs an attack.

    Args:
      name: one of ATTACKS.
      asked: runs, clients, formats, noises.
      told: is told what is attacked next.

    Returns:
      What it found, `AttackTable`.

    Raises:
      UserError: a run, a client or a format that cannot be attacked.
    """
    attack = ATTACKS[choose_from("attack", name, ATTACKS)]
    choose_from("body", asked.body, BODIES)
    for form in asked.formats:
        choose_from("format", form, wire.FORMATS)
    if any(not (math.isfinite(n) and n >= 0) for n in asked.noises):
        raise UserError(f"noise is {asked.noises}; give numbers, at least 0.")
    rows: list[dict] = []
    notes, images = _notes(attack, asked), None
    groups = compare.group_by_seed(map(compare.load, asked.workdirs))
    some_private = any(g.config["privacy.unit"] != OFF for g in groups)
    for group in groups:
        found, kind = [], {"method": group.method}
        for run in group.runs:
            told(f"{name} of {run.path}")
            next = next_upload.next_round(run.path, asked.data_dir)
            ids = asked.clients or range(min(CLIENTS, len(next.run.exp.counts.train)))
            found += attack.each(next, asked, ids)
            kind |= _guarantee(next) if some_private else {}
        if not found:
            notes.append(f"{group.method}: sends {attack.lacking}.")
            continue
        rows += [{**kind, **row} for row in result_tables.pooled(attack.keys, found)]
        images = images or _first(attack, found)
    if some_private:
        notes.append(NOTE)
        rows = result_tables.by_epsilon(rows)
    return AttackTable(
        result_tables.view(f"{name}: {attack.about}", rows, notes), rows, images
    )


NOTE = "epsilon: of the run, without the round that is attacked."


def _guarantee(next: NextRound) -> dict:
    """Columns that say what privacy a run has."""
    run = next.run
    spent = privacy_ledger.privacy_ledger(run.config, run.exp)(run.round).get(
        "privacy", {}
    )
    return {"unit": run.config.privacy.unit, "epsilon": spent.get("epsilon")}


def _notes(attack: Attack, asked: AttackRequest) -> list[str]:
    """What a reader must know of every row."""
    who = ", ".join(map(str, asked.clients)) or f"the first {CLIENTS}"
    notes = [
        f"Clients: {who}; means over them and over runs that differ in their seed. "
        f"Seed {asked.seed}. Uploads are those of one more round after the last "
        "checkpoint.",
        "noise: standard deviation over the root mean square of what is sent, besides "
        "that of privacy.unit; not clipped, so no differential privacy.",
    ]
    if attack.each is not attack_updates:
        notes.append(f"The attacker's network, where it needs one: {asked.body}.")
    return notes


def _first(attack: Attack, found: list) -> Images | None:
    """Images of the first client; of updates, of the largest batch in one step."""
    shown = [(case, one) for case, one in found if one.images is not None]
    if not shown:
        return None
    if attack.each is attack_updates:
        one_step = [p for p in shown if p[1].rows[0]["steps"] == 1] or shown
        first = [p for p in one_step if p[0].made.id == one_step[0][0].made.id]
        return max(first, key=lambda p: p[1].rows[0]["batch"])[1].images
    return shown[0][1].images
