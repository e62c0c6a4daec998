"""The flags --config and --config.FIELD, checked and completed before absl parses."""

import difflib
import itertools
import re
from collections.abc import Callable, Sequence
from typing import NamedTuple

from jaxproto.config import builtin, files
from jaxproto.config.checks import check_keys, words_for_fields
from jaxproto.config.factory_fields import all_fields
from jaxproto.config.fields import FOLLOW, flatten
from jaxproto.config.presets import DEFAULT_DATASET
from jaxproto.errors import UserError, choose_from, shorten
from jaxproto.methods import METHODS

FOLLOWS = {"data.seed": FOLLOW}  # field that takes `follow` -> its number


class Flag(NamedTuple):
    """A --config or --config.FIELD on a command line."""

    at: int  # index of the argument with the value
    field: str  # "" for --config itself
    value: str


def find_config_flags(arguments: Sequence[str]) -> list[Flag]:
    """Returns the flags --config and --config.FIELD, in order."""
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
    """Returns the values of --config, and the fields of --config.FIELD."""
    flags = find_config_flags(arguments)
    return [f.value for f in flags if not f.field], [f.field for f in flags if f.field]


def check_flags(arguments: Sequence[str]):
    """Raises UserError for a wrong file, preset or field among command-line flags."""
    values, fields = config_flags(arguments)
    if len(values) > 1:
        raise UserError(
            f"--config is given {len(values)} times "
            f"({', '.join(map(shorten, values))}); leave one."
        )
    file = values[0] if values else ""
    if not file or file.startswith("-"):
        raise UserError(
            f"--config is missing: give one of {', '.join(builtin.names())}, such as "
            "--config=protonorm or --config=protonorm:spiral, or a file of your own."
        )
    config = files.load(file)
    check_keys(config, fields)
    _, colon, arg = file.partition(":")
    for flag in find_config_flags(arguments):
        inside = [path for path in flatten(config) if path.startswith(f"{flag.field}.")]
        if inside and not flag.value.startswith("{"):
            raise UserError(
                f"--config.{flag.field}={flag.value}: it is a group of fields; set one "
                f"of {', '.join(inside)}."
            )
        name, is_method = flag.value, flag.field == "method.name"
        if is_method and choose_from("method", name, METHODS) != config.method.name:
            raise UserError(
                f"--config.method.name={name} would leave the fields of "
                f"{config.method.name} ({file}); another method is another file: "
                f"--config={name}{colon}{arg}."
            )


def unknown_flag(name: str, known: Sequence[str], arguments: Sequence[str]) -> str:
    """Returns the message for a flag that does not exist, with a similar flag or field.

    Args:
      name: Flag without dashes, such as "rounds" for --config.rounds.
      known: Flags of the command.
      arguments: Command line with a valid --config.
    """
    paths = [*flatten(files.load(config_flags(arguments)[0][0]))]
    words = words_for_fields(paths)
    meant = {word: f"config.{path}" for word, path in words.items()}
    meant |= {path: f"config.{path}" for path in paths} | {flag: flag for flag in known}
    near = difflib.get_close_matches(name, meant, n=1)
    hint = f". Did you mean --{meant[near[0]]}?" if near else "; see --help"
    return f"Unknown command line flag {shorten(name)}{hint}"


def invalid_value(error: str, arguments: Sequence[str]) -> str:
    """Returns the message for a value that is no value of its field.

    Args:
      error: absl's message, which stays that of other flags.
      arguments: Command line with a valid --config.
    """
    config = flatten(files.load(config_flags(arguments)[0][0]))
    fields = all_fields(str(config.get("method.name")))
    for flag in find_config_flags(arguments):
        given = f"flag --config.{flag.field}={flag.value}: "
        if error.startswith(given) and flag.field in fields:
            return f"{given}it must be {fields[flag.field].words}."
    return " ".join(error.split())


def check_words(words: Sequence[str]):
    """Raises UserError for words of a command line that belong to no flag."""
    if words:
        word = words[0]
        field = re.match(r"config\.[\w.]+=", word)
        hint = f"write --{word}" if field else "leave it out; every flag begins with --"
        raise UserError(f"{shorten(word)} is no flag: {hint}.")


def resolve_paths(arguments: Sequence[str]) -> list[str]:
    """Replaces the name of a built-in configuration file with its path."""
    return _replace_file(arguments, builtin.find)


def apply_neutral_preset(arguments: Sequence[str]) -> list[str]:
    """Adds the preset `neutral` to --config where it applies.

    It applies where `data.name` is set without a preset. A user's own data set would
    otherwise silently get the learning rate, batch size and network of the digits.
    """
    if "data.name" not in config_flags(arguments)[1]:
        return list(arguments)
    return _replace_file(arguments, _with_neutral_preset)


def replace_follow(arguments: Sequence[str]) -> list[str]:
    """Replaces the value `follow` with its number in `FOLLOWS`."""
    out = list(arguments)
    for flag in find_config_flags(arguments):
        if flag.value == "follow" and flag.field in FOLLOWS:
            number = str(FOLLOWS[flag.field])
            out[flag.at] = out[flag.at].removesuffix("follow") + number
    return out


def _replace_file(arguments: Sequence[str], replace: Callable[[str], str]) -> list[str]:
    """Replaces the value of --config."""
    out = list(arguments)
    for flag in find_config_flags(arguments):
        if not flag.field and flag.value:
            out[flag.at] = out[flag.at].removesuffix(flag.value) + replace(flag.value)
    return out


def _with_neutral_preset(file: str) -> str:
    """Adds the preset `neutral` to "FILE.py:ARG" if it falls back on the digits."""
    path, _, arg = file.partition(":")
    digits, neutral = (
        f"{path}:{','.join(filter(None, [arg, preset]))}"
        for preset in (DEFAULT_DATASET, "neutral")
    )
    if DEFAULT_DATASET in arg.split(","):
        return file
    try:
        implied, explicit = files.load(file), files.load(digits)
        files.load(neutral)
    except Exception:  # a user's file without presets may raise anything
        return file
    return neutral if flatten(implied) == flatten(explicit) else file
