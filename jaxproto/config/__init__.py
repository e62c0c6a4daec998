"""Configurations: fields, presets, readings, registries, and what is built of them."""

from jaxproto.config.fields import (
    apply,
    check,
    check_keys,
    data_fields,
    default,
    differences,
    experiment,
    flat,
    method_fields,
    read,
    resolved,
    saved,
)
from jaxproto.config.files import load, of_sweep, of_tables, plain
from jaxproto.config.flags import (
    check_flags,
    check_words,
    with_neutral,
    with_numbers,
    with_paths,
)

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
