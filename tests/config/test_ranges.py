"""Every number of a configuration has a range, declared where the number is."""

from typing import Annotated, NamedTuple

import ml_collections
from support.refusal import refused

from jaxproto import config
from jaxproto.config import choices, ranges, registries
from jaxproto.data import room
from jaxproto.methods import METHODS
from jaxproto.types import Count, NonNegative, Range


def is_number(value) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def with_method(name, **fields):
    made = config.default()
    given = {**config.method_fields(name), **fields}
    made.method = ml_collections.ConfigDict(given)
    return made


def test_every_number_has_a_range_that_its_default_fits():
    for name in METHODS:
        fields, own = config.method_fields(name), ranges.of_method(name)
        numbers = {f"method.{k}": v for k, v in fields.items() if is_number(v)}
        assert own.keys() == numbers.keys(), name
        for path, value in numbers.items():
            assert own[path].fits(value), (name, path)
            assert own[path].words in choices.allowed(path, value, {}, own), name
    fields = config.flat(config.default())
    numbers = {path: value for path, value in fields.items() if is_number(value)}
    assert ranges.RANGES.keys() == numbers.keys()
    assert all(ranges.RANGES[path].fits(value) for path, value in numbers.items())


def test_ends_are_those_of_an_interval():
    for ends, inside in {"[]": [1, 2], "(]": [2], "[)": [1], "()": []}.items():
        own = Range("", 1, 2, ends)
        assert [n for n in (1, 2) if own.fits(n)] == inside
        assert own.fits(1.5) and not own.fits(0) and not own.fits(float("nan"))


def test_the_seed_of_the_data_may_follow_that_of_the_run():
    made = config.experiment("local", "spiral")
    made.seed, made.data.seed = 7, ranges.FOLLOW
    config.check(made)
    assert config.data_fields(made).seed == 7 and made.data.seed == ranges.FOLLOW
    given = ["--config=local", "--config.data.seed=follow", "--workdir=follow"]
    typed = config.with_numbers([*given, "--config.data.seed", "follow"])
    want = [given[0], "--config.data.seed=-1", given[2], "--config.data.seed", "-1"]
    assert typed == want


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

    monkeypatch.setattr(registries, "VALUES", (*registries.VALUES, Together))
    monkeypatch.setitem(METHODS, "mine", mine)
    monkeypatch.setitem(METHODS, "unresolved", unresolved)
    said = registries.annotations(mine)
    assert said["share"] == ("static", Range("up to 1", high=1))
    assert said["free"] == said["plain"] == said["spec"] == ()
    assert len(said["lam"]) == len(said["number"]) == 1
    config.check(with_method("unresolved", lam=-1.0))
    config.check(with_method("mine", free=-1e9, plain=-3))
    with refused("method.share is 1.5; it must be up to 1."):
        config.check(with_method("mine", share=1.5))
    with refused("method.lam is -1.0; it must be at least 0."):
        config.check(with_method("mine", lam=-1.0))


def test_a_number_must_be_in_its_range_as_compiled_programs_see_it():
    made = config.default()
    made.optimizer.learning_rate = 1e-50
    with refused("optimizer.learning_rate is 1e-50, which is 0.0 as a float32"):
        config.check(made)
    made.optimizer.learning_rate = 1e39
    with refused("optimizer.learning_rate is 1e+39, which is inf as a float32"):
        config.check(made)
    config.check(with_method("fedtgp", server_batch=0))
    with refused("server_batch is -1; it must be 0 (that of local.batch_size) or at"):
        config.check(with_method("fedtgp", server_batch=-1))


def test_memory_is_that_of_the_machine_or_of_its_container(tmp_path, monkeypatch):
    (tmp_path / "max").write_text("1024\n")
    monkeypatch.setattr(room, "LIMIT", tmp_path / "max")
    assert room.memory() == 1024
    room.check("things", 1024, "take fewer")
    with refused("things need about 0.0 GiB of memory, but the machine has 0.0 GiB; "):
        room.check("things", 1025, "take fewer")
    (tmp_path / "max").write_text("max\n")
    assert room.memory() > 1024
