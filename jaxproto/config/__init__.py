"""Configurations: fields, presets, checks, files and command-line flags."""

from jaxproto.config.checks import check, check_keys, upgrade_saved
from jaxproto.config.factory_fields import default_config, method_fields
from jaxproto.config.fields import differences, flatten, resolved_data_fields
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
    invalid_value,
    replace_follow,
    resolve_paths,
    unknown_flag,
)
from jaxproto.config.presets import (
    apply_fields,
    apply_variant,
    experiment,
    readings_of,
    require_reading,
    resolve_callables,
)
