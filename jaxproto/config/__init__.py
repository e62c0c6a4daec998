"""Configurations: fields, presets, readings, registries, and what is built of them."""

from jaxproto.config.checks import check, check_keys, saved
from jaxproto.config.factory_fields import method_fields
from jaxproto.config.fields import data_fields, default, differences, flat
from jaxproto.config.files import load, of_sweep, of_tables, plain
from jaxproto.config.flags import (
    check_flags,
    check_words,
    with_neutral,
    with_numbers,
    with_paths,
)
from jaxproto.config.presets import apply, experiment, read, resolved

__all__ = [
    "apply",
    "check",
    "check_flags",
    "check_keys",
    "check_words",
    "data_fields",
    "default",
    "differences",
    "experiment",
    "flat",
    "load",
    "method_fields",
    "of_sweep",
    "of_tables",
    "plain",
    "read",
    "resolved",
    "saved",
    "with_neutral",
    "with_numbers",
    "with_paths",
]
