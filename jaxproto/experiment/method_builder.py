"""Builds the method and the networks of a run from its configuration."""

import dataclasses
import inspect
import operator
from collections.abc import Callable
from functools import partial
from typing import Any

import ml_collections
import numpy as np

from jaxproto import models
from jaxproto.config import default_config, features, registries
from jaxproto.core.method import Method
from jaxproto.core.types import Net, Spec
from jaxproto.data.dataset import Dataset
from jaxproto.errors import choose_from
from jaxproto.experiment.method_check import make_method
from jaxproto.methods import METHODS
from jaxproto.methods.options import INHERITED_FIELDS, NETWORKS
from jaxproto.models.ops import Ops


def build_method(
    config: ml_collections.ConfigDict,
    spec: Spec,
    num_examples: int = 0,
    run: ml_collections.ConfigDict | None = None,
    network: Callable[..., Net] | None = None,
    public: np.ndarray | None = None,
) -> Method:
    """Builds the method of a configuration.

    Args:
      config: the fields `method`.
      num_examples: training examples of all clients; replaces an argument of that name
        that is 0.
      run: the full configuration, for `INHERITED_FIELDS` and `DERIVED_ARGUMENTS`;
        None is the default one.
      network: name -> network, for a method with a network of its own.
      public: inputs of the public examples, for an argument of that name.
    """
    name = choose_from("method", config.name, METHODS)
    run = run or default_config()
    plain = registries.plain_arguments(METHODS[name])
    arguments: dict[str, Any] = {k: v for k, v in config.items() if k != "name"}
    for key, value in config.items():
        if key in plain:
            continue
        if key in registries.OPTIONS:
            choices = registries.OPTIONS[key]
            arguments[key] = choices[choose_from(f"method.{key}", value, choices)]
        elif key in NETWORKS:
            if network is None:
                raise ValueError(f"method {name!r} has a network: give `network`")
            net_name = choose_from(f"method.{key}", value, models.NETS)
            dims: dict[str, int] = {}
            if "aux_dim" in config:
                dims["feat_dim"] = min(config.aux_dim, spec.feat_dim)
            arguments[key] = network(net_name, **dims)
    if arguments.get("num_examples") == 0:
        arguments["num_examples"] = num_examples
    for key, path in INHERITED_FIELDS.items():
        if key not in plain and arguments.get(key) == 0:
            arguments[key] = operator.attrgetter(path)(run)
    derived = {*inspect.signature(METHODS[name]).parameters} - plain
    arguments |= {
        k: f(run, arguments)
        for k, f in registries.DERIVED_ARGUMENTS.items()
        if k in derived
    }
    given = features.arguments(run)
    arguments |= {k: v for k, v in given.items() if k in derived}
    if "public" in derived:
        arguments["public"] = public
    arguments = registries.group_arguments(METHODS[name], arguments)
    return dataclasses.replace(make_method(name, spec, arguments), name=name)


def network_factory(
    dataset: Dataset,
    spec: Spec,
    compute_dtype: str = "float32",
    forms: Ops | None = None,
) -> Callable[[str], Net]:
    """Returns the function name -> network for the inputs of a data set.

    Args:
      forms: Forms of the operations; None is those of the platform.
    """
    return partial(
        models.build,
        input_shape=tuple(dataset.x.shape[1:]),
        num_classes=spec.num_classes,
        feat_dim=spec.feat_dim,
        ops=forms,
        compute_dtype=compute_dtype,
        vocab_size=len(dataset.tokens) or None,
    )


def public_inputs(dataset: Dataset) -> np.ndarray | None:
    """Returns the inputs of the public examples [P, ...]; None without any."""
    return None if dataset.public is None else np.asarray(dataset.x[dataset.public])
