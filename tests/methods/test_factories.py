"""Fields of a method of one's own."""

from jaxproto.config.factory_fields import all_fields
from jaxproto.methods import METHODS


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
    told = all_fields("mine")
    assert told["method.share"].help == "of the old prototypes, in every round"
    assert told["method.low"].help == told["method.high"].help == "both ends"
    assert told["method.lam"].help == all_fields("fedproto")["method.lam"].help != ""
    mine.__doc__ = None
    assert all_fields("mine")["method.share"].help == ""
