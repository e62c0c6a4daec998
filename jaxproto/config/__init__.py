"""Configurations: fields, presets, readings, registries, and what is built of them."""

from jaxproto.config.fields import (
    BEFORE,
    apply,
    check,
    check_flags,
    check_keys,
    default,
    differences,
    experiment,
    flat,
    load,
    method_fields,
    read,
    resolved,
    saved,
    with_neutral,
    with_paths,
)

__all__ = [
    "BEFORE",
    "apply",
    "check",
    "check_flags",
    "check_keys",
    "default",
    "differences",
    "experiment",
    "flat",
    "load",
    "method_fields",
    "read",
    "resolved",
    "saved",
    "with_neutral",
    "with_paths",
]
