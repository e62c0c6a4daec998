"""docs/api/programs.md: which floats are arguments of the compiled programs."""

from pathlib import Path

from jaxproto import config
from jaxproto.config import floats
from jaxproto.methods import METHODS

PAGE = Path(__file__).parents[2] / "docs" / "api" / "programs.md"
OTHER = {0.5: 0.25}  # than a field has


def kinds(method):
    """Field -> argument, "argument, but 0" or static, of every float of a method."""
    c, found = config.default(), {}
    c.method.update(config.method_fields(method))
    for path, value in config.flat(c).items():
        if type(value) is float:
            changed = c.copy_and_resolve_references()
            changed.update_from_flattened_dict({path: OTHER.get(value, 0.5)})
            whether = path in floats.traced(c), path in floats.traced(changed)
            found[path] = KINDS[whether]
    return found


KINDS = {
    (True, True): "argument",
    (False, True): "argument, but 0",
    (False, False): "static",
}


def table():
    """A line for each field and kind, with the methods that have it."""
    of = {method: kinds(method) for method in METHODS}
    rows = sorted({pair for found in of.values() for pair in found.items()})
    lines = ["| field | is | of |", "|---|---|---|"]
    for field, kind in rows:
        having = [f"`{m}`" for m in METHODS if of[m].get(field) == kind]
        who = "all" if len(having) == len(METHODS) else ", ".join(having)
        lines.append(f"| `{field}` | {kind} | {who} |")
    return "\n".join(lines) + "\n"


def test_the_page_of_fields_and_programs_is_what_the_code_does():
    page = PAGE.read_text()
    there = page[page.index("| field |") :] if "| field |" in page else ""
    assert there == table(), f"put this at the end of {PAGE.name}:\n\n{table()}"


def test_fields_that_the_page_calls_free_never_enter_a_program():
    c = config.experiment("fedproto", "digits")
    settings = floats.program_settings(c)
    free = floats.NOT_TRACED | {"rounds"}
    said = PAGE.read_text().partition("never enter a program")[0]
    assert not free & {*settings}
    assert all(f"`{field}`" in said for field in free)
    c = config.experiment("fedkd", "digits")
    assert "rounds" in floats.program_settings(c)


def test_a_field_at_0_is_another_program_only_where_0_is_its_default():
    found = kinds("tinyproto")
    assert found["method.mu"] == "argument, but 0"
    assert kinds("fedprox")["method.mu"] == "argument"
    assert found["optimizer.momentum"] == "argument, but 0"
    assert (found["method.lam"], found["data.alpha"]) == ("argument", "static")
