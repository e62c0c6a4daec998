"""The fields of configurations, and networks that do not fit each other.

What a user may type: `support/bad_rows.py`.
"""

from pathlib import Path
from typing import Annotated, NamedTuple

import jax
import jax.numpy as jnp
import ml_collections
import numpy as np
import pytest
from support import toys
from support.every import check_every
from support.refusal import refused

import jaxproto
from jaxproto import config, federation
from jaxproto.config import factory_fields, fields, registries, show
from jaxproto.data import host_memory
from jaxproto.errors import UserError
from jaxproto.experiment import shape_checks, traced
from jaxproto.hyperparameters import Count, NonNegative, Range
from jaxproto.methods import METHODS
from jaxproto.methods.fedproto import fedproto
from jaxproto.reporting.compare import run_groups
from jaxproto.storage import default_workdir, records, workdir
from jaxproto.storage.run_folder import RunFolder
from jaxproto.types import Spec


def changed(**changes):
    """A configuration with flat fields, even of a wrong type; __ for a dot."""
    flat = config.flatten(config.experiment("protonorm", "digits"))
    flat |= {path.replace("__", "."): value for path, value in changes.items()}
    return ml_collections.ConfigDict(fields.nested(flat))


def test_missing_fields_and_those_of_another_method_are_named(tmp_path):
    lacking = changed()
    del lacking.optimizer.clip_norm
    for c, words in (
        (changed(method__name="local"), "unknown field of method 'local': "),
        (lacking, "the configuration lacks optimizer.clip_norm; start from"),
        (changed(local=5), "lacks local.batch_size, "),
        (changed(method="local"), "lacks method.name"),
    ):
        with refused(words):
            jaxproto.run(c, tmp_path / "run")
        left = {p.name for p in (tmp_path / "run").glob("*")}
        assert left <= {".lock"}  # nothing that blocks the corrected command


MUST_BE = {
    "a whole number.": [("rounds", value) for value in ("five", 2.5, True, None)],
    "True or False.": [("data__pool", 1)],
    "a text.": [("data__name", 3), ("clients_at_once", 4), ("method__reg", np.mean)],
    "a number.": [("method__lam", "1"), ("method__lam", False)],
}


def test_an_impossible_value_is_named_with_what_it_must_be():
    for words, cases in MUST_BE.items():
        for path, value in cases:
            with pytest.raises(UserError) as e:
                config.check(changed(**{path: value}))
            name = path.replace("__", ".")
            assert str(e.value) == f"{name} is {value!r}; it must be {words}"
    with refused("learning_rate is 1e+39, which is inf as a float32"):
        config.check(changed(optimizer__learning_rate=1e39))


def test_features_that_differ_between_cohorts_are_named_with_both_sizes():
    x, method = jax.ShapeDtypeStruct((1, toys.INPUT), jnp.float32), fedproto(toys.SPEC)
    for spec, words in (
        (Spec(5, 12), ("'wide' has feature dimension 12, ", " has 8")),
        (Spec(7, 8), ("'wide' has number of classes 7, ", " has 5")),
    ):
        cohorts = [federation.Cohort("narrow", toys.net(8), (0, 1))]
        cohorts.append(federation.Cohort("wide", toys.net(8, spec), (2,)))
        with refused(*words):
            shape_checks.check_cohorts(method, cohorts, toys.SPEC, x)


def with_method(name, **values):
    made = config.default()
    made.method = ml_collections.ConfigDict({**config.method_fields(name), **values})
    return made


def test_a_new_field_is_one_row(monkeypatch, tmp_path):
    """Default, check, --print_config, folder, argument, resuming, comparison."""
    warm = Range("from 0 to 1", 0, 1)
    row = fields.Field(0.5, "of the first rounds", warm, fields.TRACED)
    monkeypatch.setitem(fields.FIELDS, "optimizer.warmth", row)
    plain, hot = config.load("fedproto"), config.load("fedproto")
    hot.optimizer.warmth = 0.75
    assert plain.optimizer.warmth == config.default().optimizer.warmth == 0.5
    config.check(hot)
    for value, words in {2.0: "from 0 to 1", "x": "a number"}.items():
        with refused(f"optimizer.warmth is {value!r}; it must be {words}."):
            config.check(changed(optimizer__warmth=value))
    flags = ["--config=fedproto", "--config.optimizer.warmth=0.75"]
    text = show.format_fields(hot, flags)
    assert "optimizer.warmth = 0.75  (command line)\n    of the first rounds; " in text
    assert "a number, from 0 to 1\n" in text
    folder = default_workdir.default_workdir(hot, plain).name
    assert folder.endswith("-optimizer.warmth=0.75")
    assert traced.traced_floats(hot)["optimizer.warmth"] == 0.75
    assert traced.program_settings(hot) == traced.program_settings(plain)
    workdir.save_config(tmp_path, plain)
    with refused("optimizer.warmth: 0.5 there, 0.75 here"):
        workdir.check_config(tmp_path, hot)
    found = [RunFolder(Path("a"), config.flatten(c), None) for c in (plain, hot)]
    assert len(run_groups.group_by_seed(found)) == 2


RULES = [  # of resuming; whether the run stopped early; values that may go on
    (fields.NEVER, True, []),
    (fields.MOVED, True, []),
    (fields.MORE, False, [0.75]),
    (fields.FREE, False, [0.25, 0.75]),
    (fields.STOPPED, False, []),
    (fields.STOPPED, True, [0.25, 0.75]),
]


def test_rules_of_a_field_that_are_not_as_usual(monkeypatch, tmp_path):
    stopped_early = {"status": "stopped early", "rounds": 5, "rules": {}}
    for i, (rule, stopped, goes_on) in enumerate(RULES):
        how = {"program": fields.UNUSED, "names_run": False, "compared": False}
        row = fields.Field(0.5, "of the first rounds", **how, resume=rule)
        monkeypatch.setitem(fields.FIELDS, "optimizer.warmth", row)
        plain, path = changed(), tmp_path / str(i)
        path.mkdir()
        workdir.save_config(path, plain)
        if stopped:
            records.write_json(path / "summary.json", stopped_early)
        for value in (0.25, 0.75):
            other = changed(optimizer__warmth=value)
            same = workdir.settings(other) == workdir.settings(plain)
            assert same == (rule != fields.NEVER)
            if value in goes_on:
                workdir.check_config(path, other)
                continue
            with refused(f"optimizer.warmth: 0.5 there, {value} here"):
                workdir.check_config(path, other)
    names = {default_workdir.default_workdir(c, plain) for c in (other, plain)}
    assert len(names) == 1
    assert "optimizer.warmth" not in traced.traced_floats(other)
    assert traced.program_settings(other) == traced.program_settings(plain)
    both = (RunFolder(path, config.flatten(c), None) for c in (plain, other))
    first, second = (run_groups.group_by_seed([run])[0] for run in both)
    assert first.config == second.config


def test_every_field_says_what_it_means_and_every_number_what_it_may_be():
    def check(name, path, field):
        assert field.help and field.words, path
        number = type(field.default) in (int, float)
        assert number == isinstance(field.allowed, Range)
        assert not number or field.allowed.fits(field.default)
        assert field.program != fields.TRACED or type(field.default) is float

    rows = ((m, row) for m in METHODS for row in factory_fields.all_fields(m).items())
    check_every([(m, *row) for m, row in rows], check)


def test_a_factory_of_ones_own_may_have_ranges_or_none(monkeypatch):
    class Together(NamedTuple):
        share: Annotated[float, "static", Range("up to 1", high=1)] = 0.5
        free: float = 1.0

    def mine(
        spec,
        *,
        some: Together = Together(),  # noqa: B008
        lam: "NonNegative" = 1.0,
        number: Count | None = None,
        plain=3,
    ):
        """A method."""

    def unresolved(spec, *, lam: "NothingOfThisName" = 1.0):  # noqa: F821
        """A method."""

    together = (*registries.GROUPED_ARGUMENTS, Together)
    monkeypatch.setattr(registries, "GROUPED_ARGUMENTS", together)
    monkeypatch.setitem(METHODS, "mine", mine)
    monkeypatch.setitem(METHODS, "unresolved", unresolved)
    config.check(with_method("unresolved", lam=-1.0))
    config.check(with_method("mine", free=-1e9, plain=-3))
    with refused("method.share is 1.5; it must be up to 1."):
        config.check(with_method("mine", share=1.5))
    with refused("method.lam is -1.0; it must be at least 0."):
        config.check(with_method("mine", lam=-1.0))


def test_follow_is_a_seed_of_the_data_alone():
    given = ["--config=local", "--config.data.seed=follow", "--workdir=follow"]
    typed = config.replace_follow([*given, "--config.data.seed", "follow"])
    want = [given[0], "--config.data.seed=-1", given[2], "--config.data.seed", "-1"]
    assert typed == want


def test_memory_is_that_of_the_machine_or_of_its_container(tmp_path, monkeypatch):
    (tmp_path / "max").write_text("1024\n")
    monkeypatch.setattr(host_memory, "LIMIT", tmp_path / "max")
    host_memory.check_memory("things", 1024, "take fewer")
    with refused("things need about 0.0 GiB of memory, but the machine has 0.0 GiB; "):
        host_memory.check_memory("things", 1025, "take fewer")
    (tmp_path / "max").write_text("max\n")
    assert host_memory.host_memory_bytes() > 1024
