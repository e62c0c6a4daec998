"""Attacks and robust centres of the user."""

from support import own_code
from support.refusal import refused

from jaxproto.features.robustness.registry import ATTACKS, CENTRES

define = own_code.define  # a fixture


def own_centre(value):
    median = CENTRES["median"]
    return lambda x_KN, sent_K, share: median(x_KN, sent_K, share) + value


def test_an_edited_centre_trains_anew(define, tmp_path, monkeypatch):
    args = "robust.aggregate", CENTRES, own_centre
    own_code.check_trains_anew(*args, tmp_path, monkeypatch)


def test_built_in_names_are_fixed():
    for table, name in (CENTRES, "krum"), (ATTACKS, "scale"):
        with refused(f"{table.kind} '{name}' is the library's own"):
            table[name] = len
