"""The data of a configuration: the data set, and who has which examples."""

import inspect
from functools import partial
from typing import NamedTuple

from jaxproto.data import node_schema, nodes, text
from jaxproto.data.node_schema import NodeSchema
from jaxproto.data.partitions import from_file as partition_file
from jaxproto.data.partitions import public_examples
from jaxproto.data.partitions.registry import PARTITIONS, Partition
from jaxproto.data.registry import Dataset
from jaxproto.errors import choose_from
from jaxproto.experiment import memory


class FederationData(NamedTuple):
    """The data of an experiment."""

    dataset: Dataset
    partition: Partition
    num_examples: int  # of all clients, to train on


def server_data(schema: NodeSchema, config) -> FederationData:
    """The data as the server of nodes with their own knows them.

    Args:
      config: the fields `data` of the federation.
    """
    return FederationData(
        *nodes.server_view(schema, config.max_len),
        node_schema.num_train_examples(schema),
    )


def node_data(
    schema: NodeSchema, id: int, own: nodes.NodeData, config
) -> FederationData:
    """The data as a node has them; see `server_data`."""
    data = nodes.node_view(schema, id, own, config.max_len)
    return FederationData(*data, node_schema.num_train_examples(schema))


def build_data(config, tokens: tuple[str, ...] | None = None) -> FederationData:
    """The data set, and who has which examples; texts as tokens.

    Args:
      tokens: the vocabulary of a run on texts that goes on; None makes one.
    """
    dataset = public_examples.load(
        config.name,
        data_dir=config.data_dir or None,
        seed=config.seed,
        pooled=config.pool,
        share=config.public_share,
        classes=config.public_classes,
        other=config.public_source,
        pixels=config.pixels,
    )
    memory.check_counts(config.clients, dataset.num_classes)
    partition = build_partition(config, dataset)
    sizes = {"vocab_size": config.vocab_size, "max_len": config.max_len}
    dataset = text.encode(dataset, partition, **sizes, known=tokens)
    return FederationData(dataset, partition, sum(map(len, partition.train)))


def build_partition(config, dataset: Dataset) -> Partition:
    """Who has which examples; public ones are nobody's."""
    kind, _, path = config.partition.partition(":")
    divide = partial(partition_file.load, path, dataset)
    if kind != "file":
        divide = partial(public_examples.divide, dataset, build_scheme(config))
    return divide(
        clients=config.clients,
        pooled=config.pool,
        train_share=config.train_share,
        seed=config.seed,
    )


def build_scheme(config):
    """The partition scheme, with those of its arguments that the config has."""
    there = [*PARTITIONS, "file:PATH"]
    make = PARTITIONS[choose_from("partition", config.partition, there)]
    known = inspect.signature(make).parameters
    return make(**{k: config[k] for k in known if k in config})
