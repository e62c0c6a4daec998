"""Types and ranges of the entries of a run's files: configuration, summary, records."""

from collections.abc import Mapping
from typing import Any

from jaxproto.config.factory_fields import all_fields
from jaxproto.core.hyperparameters import MAX_INT
from jaxproto.errors import first_unprintable
from jaxproto.io.json_files import EVERY, SHOWN, Number, Schema, find_error

NUMBER = Number()  # or null
COUNT = Number(0, whole=True, null=False, most=MAX_INT)
NUMBERS = {EVERY: NUMBER}
KNOWN = Number(null=False)  # never null
RECORD: Schema = {  # a line of `metrics.jsonl`
    "round": COUNT,
    "rules?": {EVERY: NUMBERS},
    "validation?": {EVERY: NUMBERS},
    "metrics?": {EVERY: {EVERY: {EVERY: (NUMBER, NUMBERS, [NUMBER])}}},
    "bytes_total?": {EVERY: KNOWN},
    **dict.fromkeys(("bytes_up?", "bytes_down?", "seconds?", "loss?"), NUMBER),
    "every_round?": {EVERY: [NUMBER]},
    "by_client?": {EVERY: [COUNT]},
    "by_domain?": {EVERY: ([str], [COUNT])},
    "warnings?": [str],
}
DIGEST = {"best": NUMBER, "final": NUMBER, EVERY: NUMBER}
WITHOUT_ACCURACY = {"pooled": {"final": None}}
SUMMARY: Schema = {
    "status": str,
    "rounds": COUNT,
    "rules": {EVERY: {"pooled": DIGEST, "client_mean": DIGEST}},
    "metrics?": {EVERY: {EVERY: {EVERY: (DIGEST, {"final": NUMBERS})}}},
    "commonest_class?": {"pooled": KNOWN, "client_mean": KNOWN, "examples": COUNT},
    "collapsed?": {EVERY: COUNT},
    "warnings?": [str],
    "stopped_by?": {"callback": str, "digest": str, "rounds": COUNT},
    "bytes_total?": (NUMBERS, type(None)),
    **dict.fromkeys(("seconds_per_round?", "compile_seconds?"), NUMBER),
    **dict.fromkeys(("scalars_per_round?", "bytes_per_round?"), NUMBERS),
    **dict.fromkeys(("peak_memory_bytes?", "simulated_seconds?"), NUMBERS),
}

PROVENANCE: Schema = {
    "history": [
        {"after_round": COUNT, "sections": {EVERY: {EVERY: (str, bool, NUMBER)}}}
    ]
}


def find_record_error(record: Mapping) -> str:
    """Returns a clause that names the first wrong entry of a record, or ""."""
    return find_error(record, RECORD)


def find_summary_error(summary: Mapping) -> str:
    """Returns a clause that names the first wrong entry of a summary, or ""."""
    error = find_error(summary, SUMMARY)
    for rule in () if error else summary.get("collapsed", ()):
        if summary["rules"].get(rule, WITHOUT_ACCURACY)["pooled"]["final"] is None:
            error = f"collapsed has rule {rule}, which has no accuracy"
    return error and f"it is no summary of a run: {error}"


def find_provenance_error(provenance: Mapping) -> str:
    """Returns a clause that names the first wrong entry of `provenance.json`, or ""."""
    error = find_error(provenance, PROVENANCE)
    return error and f"it is no provenance of a run: {error}"


def find_config_error(config: Mapping) -> str:
    """Returns a clause that names the first wrong field of a configuration, or ""."""
    error = find_error(config, _config_schema(config)) or _find_text_error(config)
    return error and f"it is no configuration: {error}"


def _config_schema(config: Mapping) -> Schema:
    """Returns the types of all known fields; `method.name` alone is required."""
    method = config.get("method")
    name = method.get("name") if isinstance(method, dict) else ""
    schema: dict[str, Any] = {}
    for path, field in all_fields(str(name)).items():
        kind: Any = type(field.default)
        if kind in (int, float):
            kind = Number(whole=kind is int, null=False)
        section, dot, key = path.partition(".")
        place = schema.setdefault(f"{section}?", {}) if dot else schema
        place[f"{key or section}?"] = kind
    return schema | {"method": schema.pop("method?") | {"name": str}}


def _find_text_error(config: Mapping, above: str = "") -> str:
    """Returns a clause that names the first field with a wrong name or text, or ""."""
    for key, value in config.items():
        if "." in key or first_unprintable(key):
            return f"{above}{key[:SHOWN]!r} is no name of a field"
        if isinstance(value, dict):
            if above:
                return f"{above}{key} is {str(value)[:SHOWN]!r}"
            if error := _find_text_error(value, f"{key}."):
                return error
        elif bad := first_unprintable(str(value)):
            return f"{above}{key} has the character {bad}"
    return ""
