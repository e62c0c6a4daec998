"""Threads of the host that run programs on all cores."""

import os
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import jax
import numpy as np


def run_parallel(calls: Iterable[partial]) -> list:
    """Runs independent calls of compiled programs side by side; returns the results.

    On CPU, XLA runs the programs of one Python thread one after the other, and small
    products leave cores idle. One thread per core, and large networks first, made a
    round of the group Ht0 a quarter faster (benchmarks/RESULTS.md). A thread waits for
    its program, because a call returns before the program has ended. Programs of
    several devices start in one order, which is equal in every process.
    """
    calls = list(calls)
    threads = min(len(calls), os.cpu_count() or 1)
    if threads < 2 or any(map(_uses_several_devices, calls)):
        return [call() for call in calls]
    sizes = [sum(a.nbytes for a in jax.tree.leaves(call.args)) for call in calls]
    order = np.argsort(sizes)[::-1]
    with ThreadPoolExecutor(threads) as pool:
        done = pool.map(lambda i: jax.block_until_ready(calls[i]()), order)
        results = dict(zip(order, done, strict=True))
    return [results[i] for i in range(len(calls))]


def _uses_several_devices(call: partial) -> bool:
    arrays = (a for a in jax.tree.leaves(call.args) if isinstance(a, jax.Array))
    return any(len(a.sharding.device_set) > 1 for a in arrays)
