"""Data of a configuration: the data set and its partition."""

import inspect
import os
from functools import partial

from jaxproto.config import presets
from jaxproto.core.types import kind_of
from jaxproto.data import registry, text
from jaxproto.data.dataset import Dataset
from jaxproto.data.partitions import public_examples
from jaxproto.data.partitions.label_skew import Scheme
from jaxproto.data.partitions.partition import (
    FederationData,
    Partition,
    centralise,
    hold_out,
)
from jaxproto.data.partitions.registry import (
    PARTITIONS,
    READ,
    SCHEMES,
    USAGE,
)
from jaxproto.errors import UserError, choose_from, place_of
from jaxproto.experiment import memory
from jaxproto.io import atomic


def build_data(config, tokens: tuple[str, ...] | None = None) -> FederationData:
    """Loads the data set and partitions it; encodes texts as tokens.

    Args:
      config: the fields `data`.
      tokens: vocabulary of a resumed run on texts; None builds one.
    """
    if config.name not in registry.DATASETS and config.name in presets.DATASETS:
        raise UserError(
            f"data.name={config.name}: give it as a preset, such as "
            f"--config=configs/fedproto.py:{config.name}; data.name itself is "
            f"{presets.DATASETS[config.name].get('data.name', 'another data set')}."
        )
    dataset = public_examples.load(config)
    memory.check_counts(config.clients, dataset.num_classes)
    partition = build_partition(config, dataset)
    if config.tokens and tokens is None:
        file = os.path.expanduser(config.tokens)
        atomic.check_regular("data.tokens", file)
        tokens = text.read(file)
    dataset = text.encode(
        dataset,
        partition,
        vocab_size=config.vocab_size,
        max_len=config.max_len,
        known=tokens,
    )
    return FederationData(dataset, partition, sum(map(len, partition.train)))


def build_partition(config, dataset: Dataset) -> Partition:
    """Partitions the examples that are not public."""
    kind, _, path = config.partition.partition(":")
    if kind in READ:
        divide = partial(READ[kind], path, dataset)
    else:
        divide = partial(public_examples.divide, dataset, build_scheme(config))
    parts = divide(
        clients=config.clients,
        pooled=config.pool,
        train_share=config.train_share,
        seed=config.seed,
    )
    parts = hold_out(parts, config.validation_share, config.seed)
    return centralise(parts) if config.centralised else parts


def build_scheme(config):
    """Builds the partition scheme from the fields `data`."""
    kind, _, call = config.partition.partition(":")
    if kind in SCHEMES:
        return SCHEMES[kind](call)
    names = [*PARTITIONS, *USAGE]
    factory = PARTITIONS[choose_from("partition", config.partition, names)]
    parameters = inspect.signature(factory).parameters.values()
    for p in parameters:
        if p.name not in config and p.default is p.empty:
            choose_from(f"argument of partition {config.partition!r}", p.name, config)
    scheme = factory(**{p.name: config[p.name] for p in parameters if p.name in config})
    if not isinstance(scheme, Scheme):
        raise UserError(
            f"partition {config.partition!r} returns {kind_of(scheme)}; its factory "
            f"must return a Scheme ({place_of(factory)})."
        )
    return scheme
