"""Origin of functions: this package, a library, or the user."""

import functools
import inspect
import sys

import optax
import pytest

from jaxproto.config import user_code
from jaxproto.methods.fedproto import fedproto
from jaxproto.origin import is_external


@pytest.fixture
def namespaced(tmp_path, monkeypatch):
    """A user's module `jaxproto.mine` in another folder, as a namespace package has."""
    import jaxproto

    (tmp_path / "mine.py").write_text("def mine(spec): return spec\n")
    monkeypatch.setattr(jaxproto, "__path__", [*jaxproto.__path__, str(tmp_path)])
    from jaxproto.mine import mine

    yield mine
    del sys.modules["jaxproto.mine"]


def test_an_entry_is_external_by_the_file_of_its_code_not_by_the_name_of_its_module(
    namespaced,
):
    @functools.wraps(fedproto)
    def wrapped(spec):
        return fedproto(spec)

    assert namespaced.__module__ == "jaxproto.mine"
    for entry in (namespaced, wrapped, functools.partial(namespaced), optax.sgd):
        assert is_external(entry)
    assert not is_external(functools.partial(fedproto))
    assert not any(user_code.entries())


def test_every_function_of_the_registries_is_of_the_package():
    for kind, table in user_code.registries().items():
        functions = {n: f for n, f in table.items() if inspect.isfunction(f)}
        external = {name for name, f in functions.items() if is_external(f)}
        assert external <= {"detached"}, kind  # of JAX
