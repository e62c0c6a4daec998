"""Agreement of nodes on labels, inputs and vocabulary before the first round.

Each node describes its data: kind and shape of an input, names of labels, numbers of
examples, and the words that at least `data.min_texts` of its texts have. A description
has no examples. The server merges all descriptions to the agreement, a `NodeSchema`.
Labels are numbered in sorted order, and words by their total frequency. A node that
joins later must fit the agreement.
"""

import json
import math
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

from jaxproto.data import text
from jaxproto.data.labels import WHOLE, check_alike
from jaxproto.errors import UserError, first_few, first_unprintable, shorten
from jaxproto.io import atomic

FILE = "agreement.json"
TEXTS = "texts"  # kind of inputs; other kinds are numpy types
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
    number: int  # of clients of the federation
    clients: dict[int, ClientSizes]  # clients that took part in the agreement
    late: dict[int, ClientSizes]  # clients that joined later, unknown to the others


def to_json(schema: NodeDescription | NodeSchema) -> str:
    """Serialises to JSON, which `parse_description` or `parse_schema` parses."""
    return json.dumps(schema._asdict(), sort_keys=True)


def parse_description(serialized: str) -> NodeDescription:
    """Parses and checks a node's description of its data."""
    try:
        fields = json.loads(serialized)
        kind, labels = fields["kind"], _names("labels", fields["labels"])
        train, test = (_count(n, fields[n], MAX_EXAMPLES) for n in ("train", "test"))
        shape = tuple(_count("shape", n, MAX_INPUT) for n in fields["shape"])
        limit = MAX_REPEATS * train
        words = {k: _count("words", n, limit) for k, n in fields["words"].items()}
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


def _count(name: str, value, limit: int) -> int:
    """Returns an integer from 1 to `limit`; raises UserError for other values."""
    if type(value) is not int or not 1 <= value <= limit:
        raise UserError(
            f"a node describes its {name} as {shorten(value)}; accepted are whole "
            f"numbers from 1 to {limit:,}."
        )
    return value


def _names(name: str, values: Iterable[str]) -> tuple[str, ...]:
    """Returns printable texts; raises UserError for other values or too many."""
    values, limit = tuple(values), MAX_NAMES[name]
    if len(values) > limit:
        raise UserError(f"a node has {len(values):,} {name}; accepted are {limit:,}.")
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
        int(i): ClientSizes(int(train), int(test), tuple(map(str, labels)))
        for i, (train, test, labels) in entries.items()
    }


def merge_descriptions(
    nodes: Mapping[int, NodeDescription], number: int, vocab_size: int
) -> NodeSchema:
    """Makes the agreement of nodes.

    Nodes that differ from the majority in their inputs or in the form of their labels
    are left out.

    Args:
      nodes: client id -> description.
      number: number of clients of the federation.
      vocab_size: largest number of tokens; 0 is all words.
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
        counts = sum((Counter(node.words) for node in nodes.values()), Counter())
        tokens = text.order_by_frequency(counts, vocab_size)
        if len(tokens) <= len(text.SPECIAL):
            raise UserError(
                "no word is in data.min_texts training texts of any node, so that no "
                "node tells one; choose a smaller data.min_texts."
            )
    clients = {
        i: ClientSizes(node.train, node.test, node.labels) for i, node in nodes.items()
    }
    kind, shape = nodes[first].kind, nodes[first].shape
    return NodeSchema(kind, shape, labels, tokens, number, clients, {})


def _majority(nodes: Mapping[int, NodeDescription]) -> Mapping[int, NodeDescription]:
    """Returns the descriptions of the form that most have; all without a majority."""
    form = {i: (n.kind, n.shape, _is_number(n.labels[0])) for i, n in nodes.items()}
    usual, count = Counter(form.values()).most_common(1)[0]
    if 2 * count <= len(nodes):
        return nodes
    return {i: node for i, node in nodes.items() if form[i] == usual}


def _labels(nodes: Mapping[int, NodeDescription]) -> tuple[str, ...]:
    """Returns all labels, sorted: numbers by value, others as text."""
    labels = sorted({label for node in nodes.values() for label in node.labels})
    check_alike("nodes", labels)
    numbers = [label for label in labels if _is_number(label)]
    if len(numbers) == len(labels):
        return tuple(sorted(labels, key=int))
    if numbers:
        word = next(label for label in labels if label not in numbers)
        first, second = (
            next(i for i in sorted(nodes) if label in nodes[i].labels)
            for label in (numbers[0], word)
        )
        raise UserError(
            f"client {first} has the label {numbers[0]!r} and client {second} the "
            f"label {word!r}: labels are numbers or names; give all nodes the same "
            "ones."
        )
    return tuple(labels)


def _check_alike(id: int, node: NodeDescription, owner: str, other):
    """Raises UserError if a client's inputs differ in kind or shape from `other`.

    `other` is a description or an agreement; `owner` is its name.
    """
    if node.kind != other.kind:
        raise UserError(
            f"client {id} has inputs of type {node.kind}, but {owner} has "
            f"{other.kind}; give all nodes data of one kind."
        )
    if node.shape != other.shape:
        advice = "give all nodes one"
        if len(node.shape) == 3:
            advice = (
                "set data.pixels to one size for all, and the same number of channels"
            )
        raise UserError(
            f"client {id} has inputs of shape {node.shape}, but {owner} has "
            f"{other.shape}; {advice}."
        )


def add_client(schema: NodeSchema, id: int, node: NodeDescription) -> NodeSchema:
    """Returns the agreement with a client that joins.

    Raises:
      UserError: the data do not fit the agreement, or differ from those that the client
        described before.
    """
    _check_alike(id, node, "the agreement", schema)
    unknown = [label for label in node.labels if label not in schema.labels]
    if unknown:
        raise UserError(
            f"client {id} has the labels {first_few(map(repr, unknown))}, which the "
            f"agreement does not know; it has {first_few(map(repr, schema.labels))}. "
            "Rename or remove them, or begin a new run in another folder with all "
            "nodes there."
        )
    sizes = ClientSizes(node.train, node.test, node.labels)
    agreed = {**schema.clients, **schema.late}.get(id, sizes)
    if sizes != agreed:
        raise UserError(
            f"client {id} has {_sizes_as_text(sizes)}, but the agreement says "
            f"{_sizes_as_text(agreed)}. {AGAIN}"
        )
    if id in schema.clients:
        return schema
    return schema._replace(late={**schema.late, id: sizes})


def _sizes_as_text(sizes: ClientSizes) -> str:
    labels = first_few(map(repr, sizes.labels))
    return f"{sizes.train} training and {sizes.test} test examples of {labels}"


def num_train_examples(schema: NodeSchema) -> int:
    """Returns the training examples of all clients that took part in the agreement."""
    return sum(client.train for client in schema.clients.values())


def schema_for(schema: NodeSchema, id: int) -> NodeSchema:
    """Returns the agreement as a client gets it, without the labels of others."""
    clients = {
        i: client if i == id else client._replace(labels=())
        for i, client in schema.clients.items()
    }
    late = {i: client for i, client in schema.late.items() if i == id}
    return schema._replace(clients=clients, late=late)
