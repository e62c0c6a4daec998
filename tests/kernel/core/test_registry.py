"""Registries: the library's names are fixed, the user's own are not."""

from importlib import metadata
from unittest import mock

import pytest
from support.every import every
from support.refusal import refused

from jaxproto import METHODS, models
from jaxproto.callbacks import WRITERS
from jaxproto.config import optimizers, registries
from jaxproto.config.registries import OPTIONS
from jaxproto.core import register
from jaxproto.core import registry as registry_module
from jaxproto.core.registry import Place, Registry, places
from jaxproto.data.partitions.registry import (
    PARTITIONS,
)
from jaxproto.data.registry import DATASETS, FILES
from jaxproto.metrics import METRICS, metric
from jaxproto.round import participation
from jaxproto.wire import pack

CASES = [
    (METHODS, "fedproto", "method 'fedproto'"),
    (METRICS, "accuracy", "metric 'accuracy'"),
    (models.NETS, "mlp", "network 'mlp'"),
    (models.NETS, "Ht0", "network 'Ht0'"),  # a group, which would be used instead
    (models.GROUPS, "Ht0", "group of networks 'Ht0'"),
    (models.GROUPS, "mlp", "group of networks 'mlp'"),
    (participation.SAMPLERS, "all", "sampler 'all'"),
    (PARTITIONS, "iid", "partition 'iid'"),
    (DATASETS, "digits", "data set 'digits'"),
    (DATASETS, "nodes", "data set 'nodes'"),
    (FILES, "npz", "data set prefix 'npz'"),
    (WRITERS, "csv", "writer 'csv'"),
    (WRITERS, "jsonl", "writer 'jsonl'"),
    (optimizers.SCHEDULES, "constant", "schedule 'constant'"),
    (registries.ORDERS, "fixed", "order 'fixed'"),
    (registries.INIT_KEYS, "same", "initial key 'same'"),
    (registries.SHORT_CLIENT_POLICIES, "wrap", "policy of short clients 'wrap'"),
    (registries.OPTIMIZER_STATES, "keep", "policy of optimiser states 'keep'"),
    (OPTIONS, "reg", "argument of methods 'reg'"),
    (OPTIONS["reg"], "mse_mean", "value of method.reg 'mse_mean'"),
]


@every(CASES)
def test_a_built_in_name_keeps_its_value_and_a_name_of_ones_own_changes(
    registry, name, words
):
    before, value = [*registry], registry.get(name)
    with refused(words, "cannot be replaced", f"'my_{name}'") as e:
        registry[name] = len
    assert "\n" not in str(e.value)
    assert registry.is_builtin(name) and registry.get(name) is value
    if value:  # as those who restore it, which moves it to the end
        with mock.patch.dict(registry._entries):
            del registry[name]
            registry[name] = value
    registry["my_own"] = len
    registry["my_own"] = max  # as in an edited cell of a notebook
    assert registry.pop("my_own") is max and not registry.is_builtin("my_own")
    assert [*registry] == before


@pytest.mark.parametrize(
    ("registry", "value"),
    [
        (METHODS, METHODS["local"](None)),
        (participation.SAMPLERS, "uniform"),
        (PARTITIONS, 3),
    ],
)
def test_what_is_no_function_is_refused_where_all_others_are(registry, value):
    with refused(f"{registry.kind} 'mine' is", "must be a function"):
        registry["mine"] = value


def test_the_decorator_of_metrics_replaces_no_built_in():
    for name in ("accuracy", "macro_f1"):
        with refused(f"metric '{name}' is the library's own"):
            metric(name)(len)


def test_names_are_known_without_an_import_and_a_missing_module_is_one_line():
    table = Registry(
        "thing", {"far": Place("no_such_module:x"), **places("wire", "pack")}
    )
    assert [*table] == ["far", "pack"] and "far" in table and table.imported() == []
    assert table["pack"] is pack and table.imported() == ["pack"]
    with refused("thing 'far' cannot be used: No module named", "no_such_module:x"):
        _ = table["far"]


def test_a_decorator_for_every_kind(monkeypatch):
    for kind in register.TABLES:
        table = register.table(kind)
        with monkeypatch.context() as patch:
            patch.setattr(table, "_entries", dict(table._entries))
            assert getattr(register, kind)("my_own")(len) is len
            mine = table["my_own"]
            assert len in (mine, getattr(mine, "sums", None))
            with refused("is the library's own"):
                getattr(register, kind)(next(iter(table)))(len)
    with pytest.raises(AttributeError, match=r"no kind 'methods' .*: method, network"):
        _ = register.methods


def test_installed_packages_add_entries_by_entry_points(monkeypatch):
    point = metadata.EntryPoint("theirs", "jaxproto.wire:pack", "jaxproto.things")
    points = metadata.EntryPoints([point])
    monkeypatch.setattr(registry_module, "_entry_points", lambda: points)
    table = Registry("thing", places("wire", "unpack"), group="jaxproto.things")
    assert [*table] == ["unpack", "theirs"] and table["theirs"] is pack
    assert table.added() == ["theirs"] and not table.is_builtin("theirs")
