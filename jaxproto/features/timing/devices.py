"""Devices of the clients in simulated time: their speeds, and the work of a step."""

import csv
import dataclasses
import math
import os
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import jax
import ml_collections
import numpy as np

from jaxproto.config.field import OFF
from jaxproto.config.fields import resolved_data_fields
from jaxproto.core.hyperparameters import is_zero
from jaxproto.core.jax_settings import make_key
from jaxproto.core.types import Net, Tree
from jaxproto.data.dataset import Dataset
from jaxproto.errors import UserError, choose_from
from jaxproto.experiment import statelessness
from jaxproto.experiment.sampler import max_participants
from jaxproto.experiment.traced import Floats, traced_floats
from jaxproto.features.timing.asynchronous import asynchronous
from jaxproto.io import atomic
from jaxproto.round.client import (
    LocalTask,
    begin_local_training,
    finish_local_training,
    local_step,
)
from jaxproto.round.federation import Cohort, Parts
from jaxproto.round.simulated_time import Timing, steps_within

STREAM = 22  # of random numbers from `data.seed`
GIGA, MEGABIT = 1e9, 1e6 / 8  # number of operations, and of bytes
LOGNORMAL, FILE = "lognormal", "file:"
COLUMNS = ("client", "speed", "bandwidth")
STEP, BYTE = "time.step", "time.byte"  # names of arrays among the floats


class Devices(NamedTuple):
    """Devices of the clients, by client id."""

    speed_K: np.ndarray  # floating-point operations per second
    bandwidth_K: np.ndarray  # bytes per second, in either direction


def with_time(
    parts: Parts,
    config: ml_collections.ConfigDict,
    floats: Mapping[str, Any],
    dataset: Dataset,
) -> Parts:
    """Returns the parts with simulated time, its step limit and its buffer.

    Args:
      config: Configuration, with its traced floats replaced.
      floats: Values of `floats_of`; without them time is not simulated.
      dataset: Data set, for the shapes of uploads.
    """
    if STEP not in floats:  # to count the operations of a step
        return parts
    time, clients = config.time, config.data.clients
    deadline = math.inf if is_zero(time.deadline) else time.deadline
    timing = Timing(floats[STEP], floats[BYTE], deadline, config.wire.down)
    parts = parts._replace(timing=timing)
    if not is_zero(time.training):
        limit = partial(steps_within, timing, time.training)
        local = dataclasses.replace(parts.local, limit_steps=limit)
        parts = parts._replace(local=local)
    if time.buffer:
        shape = partial(upload_shape, parts, dataset)
        method = asynchronous(
            parts.method, time.buffer, timing, config.wire.up, clients, shape
        )
        parts = parts._replace(method=method)
    return parts


def floats_of(
    config: ml_collections.ConfigDict,
    cohorts: Sequence[Cohort],
    parts: Callable[[Floats], Parts],
    network: Callable[[str], Net],
    dataset: Dataset,
) -> dict[str, np.ndarray]:
    """Returns the seconds [K] of a step and of a byte.

    Args:
      parts: floats -> parts with the networks whose operations are counted.
      network: Name -> network whose operations are counted.

    Raises:
      UserError: the devices are invalid, or simulated time does not go with a field.
    """
    devices, counted = devices_of(config), parts({})
    if counted.method.two_exchanges:
        raise UserError(
            f"time.devices is {config.time.devices!r}, but {config.method.name} has "
            f"two exchanges per round, and simulated time has one; set it to {OFF}."
        )
    work_K = np.zeros(config.data.clients)
    for cohort in cohorts:
        net = network(cohort.name)
        operations = step_operations(parts, traced_floats(config), net, dataset)
        work_K[list(cohort.ids)] = operations
    if config.time.by_network:
        devices = match_networks(devices, work_K)
    seconds = {STEP: work_K / devices.speed_K, BYTE: 1 / devices.bandwidth_K}
    return {name: seconds_K.astype(np.float32) for name, seconds_K in seconds.items()}


def step_operations(
    parts: Callable[[Floats], Parts], floats: Floats, net: Net, dataset: Dataset
) -> float:
    """Counts the floating-point operations of a local step, by XLA's cost analysis.

    The floats are arguments, so the count does not depend on their values.
    """
    plain = parts({})
    shapes = statelessness.client_shapes(plain.method, net, plain.local, dataset)

    def task(floats, down, examples):
        p = parts(floats)
        return LocalTask(p.method, net, p.local, make_key(0), down, examples)

    def begin(floats, client, down, examples, shard):
        return begin_local_training(task(floats, down, examples), client, shard)

    def step(state, floats, client, down, examples, shard):
        return local_step(task(floats, down, examples), client, shard, 0, state)

    state = jax.eval_shape(begin, floats, *shapes)
    counts = jax.jit(step).lower(state, floats, *shapes).cost_analysis() or {}
    return counts["flops"]


def upload_shape(parts: Parts, dataset: Dataset, net: Net) -> Tree:
    """Returns the shapes of a client's upload."""
    method, local = parts.method, parts.local
    shapes = statelessness.client_shapes(method, net, local, dataset)

    def upload(client, down, examples, shard):
        task = LocalTask(method, net, local, make_key(0), down, examples)
        state = begin_local_training(task, client, shard)
        state = local_step(task, client, shard, 0, state)
        return finish_local_training(task, state, client, shard)[1]

    return jax.eval_shape(upload, *shapes)


def check_buffer(config: ml_collections.ConfigDict):
    """Raises UserError if other fields do not go with asynchronous rounds."""
    time, buffer = config.time, config.time.buffer
    if time.devices == OFF or not buffer:
        return
    most = max_participants(config)
    if buffer > most:
        raise UserError(
            f"time.buffer is {buffer}, but at most {most} clients take part in a "
            "round, and so many uploads would never be on their way; set it to a "
            f"number up to {most}."
        )
    if not is_zero(time.deadline):
        raise UserError(
            f"time.buffer is {buffer} and time.deadline is {time.deadline}: rounds end "
            "with an upload, not after a time; set one of them to 0."
        )
    if config.privacy.unit != OFF:
        raise UserError(
            f"time.buffer is {buffer} and privacy.unit is {config.privacy.unit!r}: the "
            "privacy account counts the uploads of synchronous rounds; set "
            f"time.buffer to 0 or privacy.unit to {OFF}."
        )


def files(config: ml_collections.ConfigDict) -> dict[str, Devices]:
    """Returns the devices of a file."""
    named = config.time.devices.startswith(FILE)
    return {"time.devices": devices_of(config)} if named else {}


def devices_of(config: ml_collections.ConfigDict) -> Devices:
    """Returns the devices that `time.devices` draws or names."""
    num_clients, time = config.data.clients, config.time
    if time.devices.startswith(FILE):
        return read_devices(time.devices.removeprefix(FILE), num_clients)
    choose_from("time.devices", time.devices, [OFF, LOGNORMAL, f"{FILE}PATH"])
    rng = np.random.default_rng([resolved_data_fields(config).seed, STREAM])
    factor_2K = np.exp(time.sigma * rng.standard_normal((2, num_clients)))
    median = np.array([[time.speed * GIGA], [time.bandwidth * MEGABIT]])
    return Devices(*(median * factor_2K))


def read_devices(path: str, num_clients: int) -> Devices:
    """Reads a CSV file with a line per client, speeds in GFLOP/s and Mbit/s.

    Raises:
      UserError: the file cannot be read, or lacks a client or a positive number.
    """
    name = f"time.devices={FILE}{path}"
    atomic.check_regular(name, os.path.expanduser(path))
    try:
        with open(os.path.expanduser(path), newline="", encoding="utf-8-sig") as file:
            rows = [[float(row[c]) for c in COLUMNS] for row in csv.DictReader(file)]
    except (OSError, KeyError, TypeError, ValueError, csv.Error) as e:
        raise UserError(
            f"{name}: cannot be read ({e}). Give a CSV file with a number in each of "
            f"the columns {', '.join(COLUMNS)}."
        ) from e
    id_K, speed_K, bandwidth_K = np.array(sorted(rows)).reshape(-1, 3).T
    if not np.array_equal(id_K, np.arange(num_clients)):
        raise UserError(
            f"{name}: its {len(rows)} lines are not one for each client from 0 to "
            f"{num_clients - 1} (data.clients={num_clients}). Add or remove lines."
        )
    devices = Devices(GIGA * speed_K, MEGABIT * bandwidth_K)
    wrong_K = ~np.all([(a > 0) & np.isfinite(a) for a in devices], axis=0)
    if wrong_K.any():
        raise UserError(
            f"{name}: client {wrong_K.argmax()} has a speed or a bandwidth that is no "
            "number above 0. Correct it."
        )
    return devices


def match_networks(devices: Devices, work_K: np.ndarray) -> Devices:
    """Permutes devices so that faster devices have networks with more work per step."""
    device_K = np.empty(len(work_K), int)
    device_K[work_K.argsort(kind="stable")] = devices.speed_K.argsort(kind="stable")
    return Devices(*(a[device_K] for a in devices))
