"""Notes on fields of methods that rows share by name with unequal values."""

from collections.abc import Iterable, Sequence

from jaxproto.config.factory_fields import builtin_field
from jaxproto.lab.compare.run_groups import SeedGroup, by_value

Rows = Sequence[SeedGroup]  # with labels


def footnotes(rows: Rows) -> Iterable[str]:
    """Yields a sentence for each such field of the rows of one block."""
    for block in dict.fromkeys(g.block for g in rows):
        here = [g for g in rows if g.block == block]
        keys = {k for g in here for k in g.config if k.startswith("method.")}
        for key in sorted(keys - {"method.name"}):
            for alike in _of_one_meaning([g for g in here if key in g.config], key):
                if _is_hidden(alike, key):
                    values = by_value((g.config[key], g.label) for g in alike)
                    yield f"{block}: {key} differs: {values}."


def _of_one_meaning(rows: Rows, key: str) -> list[list[SeedGroup]]:
    """Returns the rows by the meaning of a method's field; all if one is a user's.

    Built-in methods mean the same by numbers with one description. Their defaults,
    which are their papers', and their options, which name them, are left out.
    """
    fields = [(g, f) for g in rows if (f := builtin_field(g.method, key))]
    if len(fields) < len(rows):
        return [[*rows]]
    alike: dict[str, list[SeedGroup]] = {}
    changed = set()
    for g, field in fields:
        if isinstance(field.default, int | float):
            alike.setdefault(field.help, []).append(g)
            changed |= {field.help} if g.config[key] != field.default else set()
    return [alike[meaning] for meaning in alike if meaning in changed]


def _is_hidden(rows: Rows, key: str) -> bool:
    """Returns whether a row without the field in its label has no equal elsewhere.

    The rows of another method must have its value, as those of a sweep do.
    """
    values: dict[str, set] = {}
    for g in rows:
        values.setdefault(g.method, set()).add(g.config[key])
    return any(
        key not in g.label_fields
        and any(g.config[key] not in v for v in values.values())
        for g in rows
    )
