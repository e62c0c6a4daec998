"""Configurations: fields, presets, checks, files and command-line flags."""

from jaxproto.config.checks import check, check_keys, upgrade_saved
from jaxproto.config.factory_fields import method_fields
from jaxproto.config.fields import default, differences, flatten, resolved_data_fields
from jaxproto.config.files import (
    from_name,
    load,
    paper_width_config,
    parse_sweep_arg,
    unmodified_config,
)
from jaxproto.config.flags import (
    apply_neutral_preset,
    check_flags,
    check_words,
    replace_follow,
    resolve_paths,
    unknown_flag,
)
from jaxproto.config.presets import (
    apply_fields,
    apply_variant,
    experiment,
    resolve_callables,
)

__all__ = [
    "apply_fields",
    "apply_neutral_preset",
    "apply_variant",
    "check",
    "check_flags",
    "check_keys",
    "check_words",
    "default",
    "differences",
    "experiment",
    "flatten",
    "from_name",
    "load",
    "method_fields",
    "paper_width_config",
    "parse_sweep_arg",
    "replace_follow",
    "resolve_callables",
    "resolve_paths",
    "resolved_data_fields",
    "unknown_flag",
    "unmodified_config",
    "upgrade_saved",
]
