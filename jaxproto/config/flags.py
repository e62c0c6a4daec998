"""The flags --config and --config.FIELD of a command line, before absl reads them."""

import itertools
import re
from collections.abc import Callable, Sequence
from typing import NamedTuple

from jaxproto.config import builtin, files
from jaxproto.config.checks import check_keys
from jaxproto.config.fields import FOLLOW, flatten
from jaxproto.config.presets import DEFAULT_DATASET
from jaxproto.errors import UserError, choose_from, shorten
from jaxproto.methods import METHODS

FOLLOWS = {"data.seed": FOLLOW}  # field that takes `follow` -> how it is kept


class Flag(NamedTuple):
    """One --config or --config.FIELD."""

    at: int  # place of its value on the command line, of a word of its own or not
    field: str  # "" is --config itself
    value: str


def find_config_flags(arguments: Sequence[str]) -> list[Flag]:
    """The flags of a configuration, in their order."""
    out = []
    for i, (argument, following) in enumerate(itertools.pairwise([*arguments, ""])):
        flag, equals, value = argument.partition("=")
        name = flag.lstrip("-")
        if argument == "--":
            break
        if name == flag:  # no dash: not a flag
            continue
        if name == "config" or re.match(r"(no)?config\.", name):
            at = i if equals or i + 1 == len(arguments) else i + 1
            field = name.partition(".")[2]
            out.append(Flag(at, field, value if equals else following))
    return out


def config_flags(arguments: Sequence[str]) -> tuple[list[str], list[str]]:
    """What --config and --config.FIELD name on a command line."""
    flags = find_config_flags(arguments)
    return [f.value for f in flags if not f.field], [f.field for f in flags if f.field]


def check_flags(arguments: Sequence[str]):
    """Raises UserError for a wrong file, preset or field among command-line flags."""
    given, fields = config_flags(arguments)
    if len(given) > 1:
        raise UserError(
            f"--config is given {len(given)} times ({', '.join(map(shorten, given))}); "
            "leave one."
        )
    if not given or not given[0] or given[0].startswith("-"):
        there = ", ".join(builtin.names())
        raise UserError(
            f"--config is missing: give one of {there}, such as --config=protonorm or "
            "--config=protonorm:spiral, or a file of your own."
        )
    config = files.load(given[0])
    check_keys(config, fields)
    for flag in find_config_flags(arguments):
        if flag.field == "method.name":
            _check_method(flag.value, config.method.name, given[0])


def _check_method(value: str, own: str, file: str):
    """Raises UserError for another method by a flag: its fields would be missing."""
    if choose_from("method", value, METHODS) != own:
        arg = file.partition(":")[2]
        raise UserError(
            f"--config.method.name={value} would leave the fields of {own} "
            f"({file}); another method is another file: "
            f"--config={value}{':' * bool(arg)}{arg}."
        )


def check_words(words: Sequence[str]):
    """Raises UserError for words of a command line that belong to no flag."""
    for word in words[:1]:
        field = re.match(r"config\.[\w.]+=", word)
        way = f"write --{word}" if field else "leave it out; every flag begins with --"
        raise UserError(f"{shorten(word)} is no flag: {way}.")


def resolve_paths(arguments: Sequence[str]) -> list[str]:
    """Flags with the path of a shipped configuration file in place of its name."""
    return _renamed(arguments, builtin.find)


def apply_neutral_preset(arguments: Sequence[str]) -> list[str]:
    """Flags as absl takes them, with the preset `neutral` where it applies.

    That is where `data.name` is given and no preset is: without it a data set of one's
    own would silently get the learning rate, batch size and network of the digits.
    """
    _, fields = config_flags(arguments)
    named = "data.name" in fields
    return _renamed(arguments, _instead_of_digits) if named else list(arguments)


def replace_follow(arguments: Sequence[str]) -> list[str]:
    """Flags with the number that stands for `follow` in its place."""
    out = list(arguments)
    for flag in find_config_flags(arguments):
        if flag.value == "follow" and flag.field in FOLLOWS:
            number = str(FOLLOWS[flag.field])
            out[flag.at] = out[flag.at].removesuffix("follow") + number
    return out


def _renamed(
    arguments: Sequence[str], rename: Callable[[str], str | None]
) -> list[str]:
    """Flags whose --config has the name that `rename` gives it, if it gives one."""
    out = list(arguments)
    for flag in find_config_flags(arguments):
        if not flag.field and flag.value and (file := rename(flag.value)):
            out[flag.at] = out[flag.at].removesuffix(flag.value) + file
    return out


def _instead_of_digits(file: str) -> str | None:
    """`file` with the preset `neutral`, if it has none and falls back on the digits."""
    path, _, arg = file.partition(":")

    def named(*presets):
        return f"{path}:{','.join([*filter(None, [arg]), *presets])}"

    if DEFAULT_DATASET in arg.split(","):
        return None
    try:
        implied, said = files.load(file), files.load(named(DEFAULT_DATASET))
        files.load(named("neutral"))
    except Exception:  # a file of one's own that knows no presets may raise anything
        return None
    return named("neutral") if flatten(implied) == flatten(said) else None
