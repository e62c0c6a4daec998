"""Threads of the host: what XLA does not put on all cores by itself."""

import os
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import jax
import numpy as np


def compile_pool() -> ThreadPoolExecutor:
    """Two threads compile what is lowered while more is traced; four on eight cores.

    No more: XLA itself uses several, and every program that is being compiled holds a
    GiB or more if its network is large.
    """
    return ThreadPoolExecutor(max(2, min(4, (os.cpu_count() or 1) // 2)))


def run_parallel(calls: Iterable[partial]) -> list:
    """Results of compiled programs that need nothing of each other.

    On CPU, XLA runs the programs of one Python thread one after the other, and those
    with small products leave cores idle: one thread per core, and large networks
    first, made a round of Ht0 a quarter faster (benchmarks/RESULTS.md). A thread waits
    for its program: a call returns before the program has ended, and the thread would
    be given the next one. Programs of several devices begin in one order, the same in
    every process.
    """
    calls = list(calls)
    threads = min(len(calls), os.cpu_count() or 1)
    if threads < 2 or any(map(_on_several, calls)):
        return [call() for call in calls]
    size = [sum(a.nbytes for a in jax.tree.leaves(call.args)) for call in calls]
    results = [None] * len(calls)
    with ThreadPoolExecutor(threads) as pool:
        order = np.argsort(size)[::-1]
        done = pool.map(lambda i: jax.block_until_ready(calls[i]()), order)
        for i, result in zip(order, done, strict=True):
            results[i] = result
    return results


def _on_several(call: partial) -> bool:
    arrays = (a for a in jax.tree.leaves(call.args) if isinstance(a, jax.Array))
    return any(len(a.sharding.device_set) > 1 for a in arrays)
