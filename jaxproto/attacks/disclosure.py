"""Fields that cross the network, and what each reveals of clients' data.

Only fields that are made before training reveal nothing. All others are functions of
clients' data, exact or not: KNOWN says what is known of them, MEASURED what attacks
found on a run. Neither secure aggregation nor encryption protects them here.
"""

from collections.abc import Iterator, Mapping

import jax
import ml_collections
import pandas as pd

from jaxproto import wire
from jaxproto.attacks.message_fields import (
    BITS,
    COUNTS,
    ENTRIES,
    FEATURES,
    MEANS,
    NOTHING,
    NUMBERS,
    PRESENCE,
    VALUES,
    Field,
    message_fields,
)
from jaxproto.data.partitions.partition import (
    FederationData,
)
from jaxproto.data.registry import NODES
from jaxproto.errors import UserError, group_by_reason
from jaxproto.experiment import build
from jaxproto.experiment.build import Experiment
from jaxproto.experiment.check import check_experiment
from jaxproto.features.privacy.ledger import privacy_ledger
from jaxproto.lab.analysis import cost
from jaxproto.lab.analysis.frames import data_frame
from jaxproto.nodes import private_data
from jaxproto.nodes.data_schema import NodeSchema
from jaxproto.summary.table_formats import TableView, Value
from jaxproto.wrappers.privacy import CLIENT, EXAMPLE, OFF

KNOWN = {  # what a field reveals -> what is known of it
    NOTHING: "made before training without private data, or public examples.",
    PRESENCE: "exactly which classes the client holds in its training data (down: "
    "which any client holds).",
    COUNTS: "exactly how many training examples of each class the client has.",
    NUMBERS: "exact numbers, such as how many training examples the client has.",
    BITS: "one bit per entry, exactly.",
    MEANS: "means over a class's examples of features, logits or parts of them: "
    "functions of the data. Features can be inverted to inputs (Mahendran, Vedaldi, "
    "CVPR 2015), outputs too (Fredrikson, Jha, Ristenpart, CCS 2015); a mean of one "
    "example is that example's. Down: made of all clients' means.",
    VALUES: "weights or other numbers trained on the data, functions of it. What a "
    "step changes can be inverted to inputs (Zhu, Liu, Han, NeurIPS 2019; Geiping et "
    "al., NeurIPS 2020) and labels (Yin et al., CVPR 2021), that of a dense first "
    "layer exactly (Boenisch et al., EuroS&P 2023), and a model tells members of its "
    "training data apart (Shokri et al., S&P 2017; Carlini et al., S&P 2022). Down: "
    "made of all clients' uploads, or the server's own.",
    ENTRIES: "which of the trained values are sent, and how many: where a choice "
    "depends on them, a function of the data too.",
    FEATURES: "mean and variance of each channel over the client's data, exactly. "
    "Gradient inversion is stronger with them (Yin et al., CVPR 2021).",
}

NOISY = " with noise"
EVERY, ONE = "every class", "the number 1"
PRIVATE = {  # kind of field with noise under `privacy.unit` -> what is known of it
    MEANS: "clipped class means, or sums of clipped rows of a class, with noise",
    VALUES: "weights trained on the data, with noise",
    PRESENCE: "the classes whose noisy weights are surely above 0; of TinyProto all",
}
PLAIN = {  # kind of field that reveals no data under `privacy.unit` -> its meaning
    EVERY: "bits that are set for every class, whatever the client holds.",
    ONE: "the weight of whoever is there, whatever the client holds.",
}
GUARANTEE = {  # unit -> protected data, and against whom
    CLIENT: "all data of a client, against a participant, who sees the broadcasts and "
    "knows its own share of the noise; the server is trusted, as an upload alone has "
    "only its share",
    EXAMPLE: "one example of a client, against the server, too, if it follows the "
    "protocol",
}
REHEARSED = (
    "epsilon is that of nodes with secret noise. Every simulation, and nodes with "
    "privacy.secret off, are rehearsed: whoever has the configuration can remove the "
    "noise."
)

RUN = "digits, ten clients with uneven classes, mlp, ten rounds: results/leakage"
MEASURED = {  # what a field reveals -> what attacks found on RUN, with `jaxproto leak`
    PRESENCE: "rows of prototypes name the client's classes with precision 1.0 and, "
    "but of RefProtoFL, recall 1.0, in every format and under noise.",
    COUNTS: "RefProtoFL's, of the classes that public examples do not cover: error "
    "0.24 over all classes, where equal counts err by 1.42.",
    MEANS: "TinyProto's scaled rows give the counts away by their lengths: error 0.03, "
    "0.2 under noise of half their size, where equal counts err by 1.42. Membership: "
    "area 0.55 of FedProto (0.51 to 0.59); by shadow federations, of runs that train "
    "longer on fewer examples, 0.64 (0.61 to 0.66); of an example that a class gains "
    "between two rounds, 0.95 (0.91 to 0.97). Images: PSNR 19.79 dB, where public "
    "means have 23.1.",
    VALUES: "FedAvg's last layer names classes with precision 1.0 and recall 0.79, "
    "counts with error 0.45, where equal counts err by 1.42. Membership: area 0.5 "
    "(0.46 to 0.54); by shadow federations, of runs that train longer on fewer "
    "examples, 0.59 (0.57 to 0.62). One step on one example gives its image with PSNR "
    "39.84 dB, where public means have 14.97. The first layer, which is dense, gives "
    "training images back exactly: 162 of 4031 after a whole round, 701 of 4031 if the "
    "server crafts its broadcast; none in float16 or int8.",
    ENTRIES: "RefProtoFL's, of the last layer, name classes with precision 0.44 and "
    "recall 0.93.",
}


FIRST = (  # messages before the first round, for nodes with data of their own
    "before round 1, up: kind and shape of an input, the labels that the node has "
    "(class presence), its numbers of training and test examples; of texts, each word "
    "in at least {min_texts} of its training texts (data.min_texts), and how often.",
    "before round 1, down: kind and shape of an input, all labels and words without "
    "whose they are, the numbers of training and test examples of each client.",
)
WITHOUT = (
    "Messages of the rounds depend on what nodes agree on: "
    "--agreement=WORKDIR/agreement.json shows them, too."
)


BESIDE = (  # values that nodes send beside uploads; a simulation has none
    "beside uploads, on nodes: {loss}; steps, finite, sent: exactly how many local "
    "steps, whether all numbers are finite, and how many scalars the upload has; at an "
    "evaluation, evaluation sums: every metric over the test examples, exactly.{spent}"
)
LOSS = "loss: the mean training loss, an exact function of the training examples"
BESIDE_BY_UNIT = {  # `privacy.unit` -> loss and spent of BESIDE
    OFF: (LOSS, ""),
    CLIENT: (LOSS, " Epsilon counts none of this, as the server is trusted."),
    EXAMPLE: (
        "no training loss",
        " Epsilon counts none of this: steps follow from public sizes, test examples "
        "are not protected, and rules that read training examples without noise "
        "(local, global_own) are not evaluated.",
    ),
}


def disclosure(config: ml_collections.ConfigDict, every: bool = False) -> pd.DataFrame:
    """Returns what crosses the network, and what it reveals: `jaxproto disclosure`.

    Nothing is trained. `frame.attrs["notes"]` has the notes of the table.

    Args:
      config: as of `view`.
      every: as of `view`.
    """
    return data_frame(view(config, every))


def view(
    config: ml_collections.ConfigDict, every: bool, made: NodeSchema | None = None
) -> TableView:
    """Returns the fields of a configured method, or of every method.

    Methods other than the configured one have the defaults of their fields.

    Args:
      config: configuration of a run; with `every`, `privacy.unit` must be off.
      every: whether to list every method, or the configured one.
      made: schema that nodes with data of their own have agreed on.

    Raises:
      UserError: `every` with `privacy.unit` on.
    """
    unit = config.privacy.unit
    if every and unit != OFF:
        raise UserError(
            f"privacy.unit is {unit!r}, which not every method has: leave out --all, "
            "or set privacy.unit to off."
        )
    if config.data.name != NODES:
        return _message_table(config, every, None)
    title = f"What crosses the network: {config.method.name}"
    first = [line.format(min_texts=config.data.min_texts) for line in FIRST]
    if made is None:
        return TableView(title, Field._fields, (), (*first, WITHOUT))
    agreed = private_data.server_view(made, config.data.max_len)
    listed = _message_table(config, every, agreed)
    return listed._replace(notes=(*first, *listed.notes))


def _message_table(
    config: ml_collections.ConfigDict, every: bool, agreed: FederationData | None
) -> TableView:
    unit = config.privacy.unit
    exp = build.experiment(config, jax.default_backend(), data=agreed)
    loss, spent = BESIDE_BY_UNIT[unit]
    beside = BESIDE.format(loss=loss, spent=spent)
    if every:
        exps = cost.experiment_of_each_method(config, exp)
        by_method = {
            name: e if isinstance(e, str) else _fields_of(e) for name, e in exps.items()
        }
        listed = table(by_method, "every method", named=True)
        return listed._replace(notes=(*listed.notes, beside))
    check_experiment(exp)
    private = [_private(unit, field) for field in _fields_of(exp)]
    listed, notes = table({config.method.name: private}, config.method.name), [beside]
    if unit != OFF:
        notes += _guarantees(config, exp, private)
    return listed._replace(notes=(*listed.notes, *notes))


def _private(unit: str, field: Field) -> Field:
    """Returns a field as it is under `privacy.unit`."""
    if unit == OFF:
        return field
    reveals = field.reveals + NOISY * (field.reveals in PRIVATE)
    if field.way == "up" and field.reveals == PRESENCE:
        reveals = EVERY
    if unit == CLIENT and field.reveals == NUMBERS:
        reveals = ONE
    return field._replace(reveals=reveals)


def _guarantees(
    config: ml_collections.ConfigDict, exp: Experiment, listed: list[Field]
) -> Iterator[str]:
    """Yields notes on the guarantees of noisy fields, and on measured attacks."""
    unit, rounds = config.privacy.unit, config.rounds
    spent = privacy_ledger(config, exp)(rounds)["privacy"]
    labels = {f.reveals for f in listed}
    noisy = [k for k in PRIVATE if k + NOISY in labels]
    bound = (
        f"(epsilon {spent['epsilon']:.3g}, delta {spent['delta']:g}) after {rounds} "
        f"rounds, of {GUARANTEE[unit]}."
    )
    yield from (f"{k}{NOISY}: {PRIVATE[k]}: {bound}" for k in noisy)
    yield REHEARSED
    yield from (f"{k}: {v}" for k, v in PLAIN.items() if k in labels)
    yield from (f"{k} without noise, measured: {MEASURED[k]}" for k in noisy)
    yield f"Measured on {RUN} without `privacy.unit`: docs/measurements/privacy.md."


def _fields_of(exp: Experiment) -> list[Field]:
    shapes = exp.method, exp.cohorts[0].net, exp.spec, exp.formats
    inputs = cost.public_classes(exp), exp.dataset.x[0]
    return message_fields(*shapes, *inputs, once=cost.sent_once(exp))


def table(
    by_method: Mapping[str, list[Field] | str], title: str, named: bool = False
) -> TableView:
    """Returns one row per field.

    Args:
      by_method: fields of each method, or the reason why it does not fit.
      title: what the title of the table names.
      named: whether the first column is the method.
    """
    reasons = {k: v for k, v in by_method.items() if isinstance(v, str)}
    pairs = [(k, f) for k, v in by_method.items() if not isinstance(v, str) for f in v]
    rows: list[tuple[Value, ...]] = [
        (*(name,) * named, f.way, f.name, "x".join(map(str, f.shape)) or "1", *f[3:])
        for name, f in pairs
    ]
    labels, size = {f.reveals for _, f in pairs}, sum(f.bytes for _, f in pairs)
    about = f"{size:,} bytes at most, and {wire.HEADER} of header per message."
    if not rows:
        about = "Nothing crosses the network."
    notes = [about] * (not named or not rows)
    notes += [f"{label}: {known}" for label, known in KNOWN.items() if label in labels]
    cited = [f"{k}, measured: {v}" for k, v in MEASURED.items() if k in labels]
    if cited:
        notes += [*cited, f"Measured on {RUN}, with `jaxproto leak`."]
    notes += group_by_reason(reasons)
    head = ("method",) * named + Field._fields
    return TableView(
        f"What crosses the network: {title}", head, tuple(rows), tuple(notes)
    )
