"""The fields of configurations, and networks that do not fit each other."""

from typing import Annotated, NamedTuple

import jax
import jax.numpy as jnp
import ml_collections
import numpy as np
from flax.traverse_util import unflatten_dict
from support import toys
from support.every import check_every
from support.refusal import refused

from jaxproto import config
from jaxproto.config import factory_fields, fields
from jaxproto.core.hyperparameters import NonNegative, Range, argument_group
from jaxproto.core.types import Spec
from jaxproto.data import host_memory
from jaxproto.experiment import method_builder
from jaxproto.methods import METHODS
from jaxproto.methods.fedproto import fedproto
from jaxproto.round import federation
from jaxproto.round.cohort import check_cohorts
from jaxproto.storage import records, workdir


def changed(**changes):
    """A configuration with flat fields, even of a wrong type; __ for a dot."""
    flat = config.flatten(config.experiment("protonorm", "digits"))
    flat |= {path.replace("__", "."): value for path, value in changes.items()}
    return ml_collections.ConfigDict(unflatten_dict(flat, sep="."))


CANNOT = [  # more: `support/bad_rows.py`
    ({"method__name": "local"}, "unknown field of method 'local': "),
    ({"rounds": True}, "rounds is True; it must be a whole number."),
    ({"method__lam": "1"}, "method.lam is '1'; it must be a number."),
    ({"data__pool": 1}, "data.pool is 1; it must be True or False."),
    ({"method__reg": np.mean}, "; it must be a text."),
    ({"optimizer__learning_rate": 1e39}, "is 1e+39, which is inf as a float32"),
]


def test_fields_of_another_method_and_impossible_values_are_named():
    for changes, words in CANNOT:
        with refused(words):
            config.check(changed(**changes))
    with refused("unknown method 'protnorm'. Did you mean 'protonorm'?"):
        config.default_config("protnorm")


def test_features_that_differ_between_cohorts_are_named_with_both_sizes():
    x, method = jax.ShapeDtypeStruct((1, toys.INPUT), jnp.float32), fedproto(toys.SPEC)
    for spec, words in (
        (Spec(5, 12), ("'wide' has feature dimension 12, ", " has 8")),
        (Spec(7, 8), ("'wide' has number of classes 7, ", " has 5")),
    ):
        cohorts = [federation.Cohort("narrow", toys.net(8), (0, 1))]
        cohorts.append(federation.Cohort("wide", toys.net(8, spec), (2,)))
        with refused(*words):
            check_cohorts(method, cohorts, toys.SPEC, x)


def with_method(name, **values):
    made = config.default_config()
    made.method = ml_collections.ConfigDict({**config.method_fields(name), **values})
    return made


def test_a_resumed_run_may_change_fields_by_their_rules(tmp_path):
    """Of early stopping after such an end, the folder of the data only to be read."""
    plain, mine = changed(), changed(imports="mine.py")
    patient, moved = changed(early_stopping__patience=3), changed(data__data_dir="a")
    workdir.save_config(tmp_path, plain)
    for other in (mine, patient, moved):
        assert workdir.settings(other) == workdir.settings(plain)
    workdir.check_config(tmp_path, mine)
    with refused("early_stopping.patience: 0 there, 3 here"):
        workdir.check_config(tmp_path, patient)
    ended = {"status": "stopped early", "rounds": 5, "rules": {}}
    records.write_json(tmp_path / "summary.json", ended)
    workdir.check_config(tmp_path, patient)
    with refused("data.data_dir: '' there, 'a' here"):
        workdir.check_config(tmp_path, moved)


def test_a_run_whose_rounds_depend_on_their_number_says_by_which_field(tmp_path):
    cosine, kd = changed(optimizer__schedule="cosine"), config.load("fedkd")
    for made, field in (
        (cosine, "optimizer.schedule=cosine"),
        (kd, "method.name=fedkd"),
    ):
        workdir.save_config(tmp_path, made)
        begun, made.rounds = made.rounds, 99
        with refused(f"rounds: {begun} there, 99 here\nWith {field} every round dep"):
            workdir.check_config(tmp_path, made)


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
    @argument_group
    class Together(NamedTuple):
        share: Annotated[float, "static", Range("up to 1", high=1)] = 0.5
        free: float = 1.0

    def mine(spec, *, some: Together = Together(), lam: "NonNegative" = 1.0, plain=3):  # noqa: B008
        """A method."""

    def unresolved(spec, *, lam: "NothingOfThisName" = 1.0):  # noqa: F821
        """A method."""

    monkeypatch.setitem(METHODS, "mine", mine)
    monkeypatch.setitem(METHODS, "unresolved", unresolved)
    config.check(with_method("unresolved", lam=-1.0))
    config.check(with_method("mine", free=-1e9, plain=-3))
    with refused("method.share is 1.5; it must be up to 1."):
        config.check(with_method("mine", share=1.5))
    with refused("method.lam is -1.0; it must be at least 0."):
        config.check(with_method("mine", lam=-1.0))


def test_a_default_that_is_no_field_is_refused(monkeypatch):
    for default, kind in (
        ([0.1, 1.0], "list"),
        ((64, 64), "tuple"),
        ({"a": 1}, "dict"),
        (np.ones(2), "ndarray"),
        (np.float32(1), "float32"),
    ):

        def mine(spec, *, lam: float = 1.0, lams=default):
            """A method."""

        monkeypatch.setitem(METHODS, "mine", mine)
        with refused("argument 'lams'", f"of type {kind}: fields are") as e:
            config.default_config("mine")
        assert "\n" not in str(e.value)


def test_arguments_of_ones_own_may_be_called_like_those_of_the_package(monkeypatch):
    """Their defaults hold: no option, preset or value of the run replaces them."""

    def mine(spec, *, rounds=3, inner_rate=0.2, reg=0.1, aux="a", lam=9.0):
        """A method.

        Args:
          lam: weight of my own.
        """
        assert (rounds, inner_rate, reg, aux, lam) == (3, 0.2, 0.1, "a", 9.0)
        return METHODS["local"](spec)

    monkeypatch.setitem(METHODS, "mine", mine)
    c = config.experiment("mine", "digits")
    method_builder.build_method(c.method, Spec(10, 64), run=c)
    assert factory_fields.all_fields("mine")["method.lam"].help == "weight of my own"
    assert "rounds" in fields.resumable(c, fields.MORE)
    monkeypatch.setitem(METHODS, "mine", lambda spec, *, name="a": None)
    with refused("called 'name', which is the field of the method's name"):
        config.experiment("mine")


def test_the_meaning_of_a_field_of_ones_own_is_that_of_the_docstring(monkeypatch):
    def mine(spec, *, lam: float = 1.0, share: float = 0.5, low=0, high=1):
        """A method.

        Args:
          spec: number of classes and feature dimension.
          share: of the old prototypes,
            in every round.
          low, high: both ends.
        """

    monkeypatch.setitem(METHODS, "mine", mine)
    told = factory_fields.all_fields("mine")
    assert told["method.share"].help == "of the old prototypes, in every round"
    assert told["method.low"].help == told["method.high"].help == "both ends"
    of_fedproto = factory_fields.all_fields("fedproto")
    assert told["method.lam"].help == of_fedproto["method.lam"].help != ""
    mine.__doc__ = None
    assert factory_fields.all_fields("mine")["method.share"].help == ""


def test_memory_is_that_of_the_machine_or_of_its_container(tmp_path, monkeypatch):
    (tmp_path / "max").write_text("1024\n")
    monkeypatch.setattr(host_memory, "LIMIT", tmp_path / "max")
    host_memory.check_memory("things", 1024, "take fewer")
    with refused("things need about 0.0 GiB of memory, but the machine has 0.0 GiB; "):
        host_memory.check_memory("things", 1025, "take fewer")
    (tmp_path / "max").write_text("max\n")
    assert host_memory.host_memory_bytes() > 1024


def test_follow_is_a_seed_of_the_data_alone():
    given = ["--config=local", "--config.data.seed=follow", "--workdir=follow"]
    typed = config.replace_follow([*given, "--config.data.seed", "follow"])
    want = [given[0], "--config.data.seed=-1", given[2], "--config.data.seed", "-1"]
    assert typed == want
