"""Agreement of nodes on labels, inputs and vocabulary before the first round.

Each node describes its data: kind and shape of an input, names of its labels, numbers
of examples, and for texts the words that enough of them have; never an example. The
server makes the agreement of all descriptions. Labels are numbered in sorted order, and
words by their total frequency. A node that joins later must fit the agreement.
"""

import json
import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

from jaxproto.data import text
from jaxproto.data.labels import check_alike
from jaxproto.errors import UserError, first_few, first_unprintable, shorten
from jaxproto.io import atomic

FILE = "agreement.json"
WHOLE = re.compile(r"[+-]?[0-9]+")  # a label that is a number
TEXTS = "texts"  # kind of an input; other kinds are types of numpy
KINDS = (TEXTS, "uint8", "float32")
MAX_EXAMPLES = 10**7  # training or test examples of a node
MAX_INPUT = 10**7  # numbers of an input
MAX_NAMES = {"labels": 10**4, "words": 10**6}  # of a node
MAX_REPEATS = 1000  # mean occurrences of a word in a training text
AGAIN = "Bring back the old data, or begin a new run in another folder."


class NodeDescription(NamedTuple):
    """Description of a node's data."""

    kind: str  # uint8 (images), float32 (features), texts
    shape: tuple[int, ...]  # of an input; () of texts
    labels: tuple[str, ...]  # in the order of their numbers on the node
    train: int  # examples
    test: int
    words: dict[str, int]  # word of training texts -> frequency


class ClientSizes(NamedTuple):
    """Numbers of examples and labels of a client in the agreement."""

    train: int
    test: int
    labels: tuple[str, ...]


class NodeSchema(NamedTuple):
    """Common description of the data of all nodes."""

    kind: str
    shape: tuple[int, ...]
    labels: tuple[str, ...]  # number -> name
    tokens: tuple[str, ...]  # the vocabulary; () without texts
    number: int  # clients of the federation
    clients: dict[int, ClientSizes]  # clients that took part in the agreement
    late: dict[int, ClientSizes]  # clients that joined later; no other depends on them


def to_json(schema: NodeDescription | NodeSchema) -> str:
    """Serialises to text, which `parse_description` and `parse_schema` parse."""
    return json.dumps(schema._asdict(), sort_keys=True)


def parse_description(serialized: str) -> NodeDescription:
    """Parses a description."""
    try:
        fields = json.loads(serialized)
        kind, labels = fields["kind"], _names("labels", fields["labels"])
        train, test = (_count(n, fields[n], MAX_EXAMPLES) for n in ("train", "test"))
        shape = tuple(_count("shape", n, MAX_INPUT) for n in fields["shape"])
        most = MAX_REPEATS * train
        words = {k: _count("words", n, most) for k, n in fields["words"].items()}
        _names("words", words)
        if kind not in KINDS or (kind == TEXTS) != (not shape):
            raise UserError(f"a node has {shorten(kind)} inputs of shape {shape}.")
        _count("shape", math.prod(shape), MAX_INPUT)
        if (words and kind != TEXTS) or len({*labels}) < len(labels):
            raise UserError("a node has one label twice, or words of images.")
        if len({*map(_is_number, labels)}) != 1:
            raise UserError("the labels of a node must be all numbers or all names.")
        return NodeDescription(kind, shape, labels, train, test, words)
    except UserError:
        raise
    except (AttributeError, KeyError, RecursionError, TypeError, ValueError) as e:
        raise UserError(
            f"a node's description of its data cannot be read ({e!r}); give server "
            "and nodes the same version of jaxproto."
        ) from e


def _count(name: str, value, most: int) -> int:
    if type(value) is not int or not 1 <= value <= most:
        raise UserError(
            f"a node describes its {name} as {shorten(value)}; accepted are whole "
            f"numbers from 1 to {most:,}."
        )
    return value


def _names(name: str, values: Iterable[str]) -> tuple[str, ...]:
    values, most = tuple(values), MAX_NAMES[name]
    if len(values) > most:
        raise UserError(f"a node has {len(values):,} {name}; accepted are {most:,}.")
    for value in values:
        if not isinstance(value, str) or first_unprintable(value):
            raise UserError(
                f"{shorten(value)} is among the {name} of a node; give texts without "
                "control characters."
            )
    return values


def _is_number(label: str) -> bool:
    return WHOLE.fullmatch(label) is not None


def parse_schema(serialized: str) -> NodeSchema:
    """Parses an agreement."""
    try:
        fields = json.loads(serialized)
        shape = tuple(map(int, fields["shape"]))
        labels, tokens = (tuple(map(str, fields[k])) for k in ("labels", "tokens"))
        clients, late = (_sizes(fields[k]) for k in ("clients", "late"))
        number = int(fields["number"])
        return NodeSchema(
            str(fields["kind"]), shape, labels, tokens, number, clients, late
        )
    except (AttributeError, KeyError, TypeError, ValueError) as e:
        raise UserError(
            f"{FILE} is damaged ({e!r}); put it back from a copy, or begin a new run "
            "in another folder."
        ) from e


def read(path: Path) -> NodeSchema:
    """Reads the agreement in a file."""
    try:
        return parse_schema(atomic.read(path).decode())
    except OSError as e:
        raise UserError(
            f"{path}, what the nodes of this run agreed on, cannot be read: {e}; put "
            "it back from a copy."
        ) from e


def _sizes(entries: Mapping) -> dict[int, ClientSizes]:
    return {
        int(i): ClientSizes(int(n), int(m), tuple(map(str, labels)))
        for i, (n, m, labels) in entries.items()
    }


def merge_descriptions(
    nodes: Mapping[int, NodeDescription], number: int, vocab_size: int
) -> NodeSchema:
    """Makes the agreement of nodes.

    Args:
      nodes: client -> description, of those that take part.
      number: number of clients of the federation.
      vocab_size: largest number of tokens; 0 is all words.

    Nodes that differ from the majority in inputs or form of labels are left out.
    """
    nodes = _majority(nodes)
    first = min(nodes)
    for i in sorted(nodes):
        _check_alike(i, nodes[i], f"client {first}", nodes[first])
    labels = _labels(nodes)
    if len(labels) < 2:
        raise UserError(
            f"all examples of clients {first_few(sorted(nodes))} have one label, "
            f"{labels[0]!r}, so that there is nothing to learn; give examples of two "
            "classes at least."
        )
    tokens: tuple[str, ...] = ()
    if nodes[first].kind == TEXTS:
        counts = sum((Counter(of.words) for of in nodes.values()), Counter())
        tokens = text.order_by_frequency(counts, vocab_size)
        if len(tokens) <= len(text.SPECIAL):
            raise UserError(
                "no word is in data.min_texts training texts of any node, so that no "
                "node tells one; choose a smaller data.min_texts."
            )
    clients = {
        i: ClientSizes(nodes[i].train, nodes[i].test, nodes[i].labels) for i in nodes
    }
    kind, shape, *_ = nodes[first]
    return NodeSchema(kind, shape, labels, tokens, number, clients, {})


def _majority(nodes: Mapping[int, NodeDescription]) -> Mapping[int, NodeDescription]:
    """Returns the descriptions that most nodes agree with; all without a majority."""
    form = {i: (of.kind, of.shape, _is_number(of.labels[0])) for i, of in nodes.items()}
    usual, count = Counter(form.values()).most_common(1)[0]
    if 2 * count <= len(nodes):
        return nodes
    return {i: of for i, of in nodes.items() if form[i] == usual}


def _labels(nodes: Mapping[int, NodeDescription]) -> tuple[str, ...]:
    """Returns all labels, sorted: numbers by value, others as text."""
    every = sorted({label for of in nodes.values() for label in of.labels})
    check_alike("nodes", every)
    whole = [label for label in every if _is_number(label)]
    if len(whole) == len(every):
        return tuple(sorted(every, key=int))
    if whole:
        word = next(label for label in every if label not in whole)
        who, other = (
            next(i for i in sorted(nodes) if label in nodes[i].labels)
            for label in (whole[0], word)
        )
        raise UserError(
            f"client {who} has the label {whole[0]!r} and client {other} the label "
            f"{word!r}: labels are numbers or names; give all nodes the same ones."
        )
    return tuple(every)


def _check_alike(id: int, own: NodeDescription, who: str, other):
    """Raises UserError if inputs differ in kind or shape."""
    if own.kind != other.kind:
        raise UserError(
            f"client {id} has inputs of type {own.kind}, but {who} has {other.kind}; "
            "give all nodes data of one kind."
        )
    if own.shape != other.shape:
        way = "set data.pixels to one size for all, and the same number of channels"
        raise UserError(
            f"client {id} has inputs of shape {own.shape}, but {who} has "
            f"{other.shape}; {way if len(own.shape) == 3 else 'give all nodes one'}."
        )


def add_client(schema: NodeSchema, id: int, own: NodeDescription) -> NodeSchema:
    """Returns the agreement with a client that joins."""
    _check_alike(id, own, "the agreement", schema)
    strange = [label for label in own.labels if label not in schema.labels]
    if strange:
        raise UserError(
            f"client {id} has the labels {first_few(map(repr, strange))}, which the "
            f"agreement does not know; it has {first_few(map(repr, schema.labels))}. "
            "Rename or remove them, or begin a new run in another folder with all "
            "nodes there."
        )
    now = ClientSizes(own.train, own.test, own.labels)
    before = {**schema.clients, **schema.late}.get(id, now)
    if now != before:
        raise UserError(
            f"client {id} has {_sizes_as_text(now)}, but the agreement says "
            f"{_sizes_as_text(before)}. {AGAIN}"
        )
    if id in schema.clients:
        return schema
    return schema._replace(late={**schema.late, id: now})


def _sizes_as_text(of: ClientSizes) -> str:
    labels = first_few(map(repr, of.labels))
    return f"{of.train} training and {of.test} test examples of {labels}"


def num_train_examples(schema: NodeSchema) -> int:
    """Returns the number of training examples of all clients."""
    return sum(of.train for of in schema.clients.values())


def schema_for(schema: NodeSchema, id: int) -> NodeSchema:
    """Returns the agreement as a client gets it, without the labels of others."""
    others = {i: of._replace(labels=()) for i, of in schema.clients.items()}
    own = {i: of for i, of in schema.clients.items() if i == id}
    late = {i: of for i, of in schema.late.items() if i == id}
    return schema._replace(clients={**others, **own}, late=late)
