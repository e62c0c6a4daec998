"""Parser of commands with --config=FILE.py:ARG and its overrides."""

import os
import re
import shutil
import sys
import textwrap
from collections.abc import Callable, Sequence
from typing import Any

import jax
import ml_collections
from absl import app, flags, logging
from ml_collections import config_flags

from jaxproto import config
from jaxproto.cli import import_flag
from jaxproto.config.show import format_fields
from jaxproto.errors import UserError

NEUTRAL = (
    "data.name without a data set after the colon of --config: the preset `neutral` "
    "applies (20 clients, batch 32, learning rate 0.01, networks for images).\n"
)
CONFIG = """  --config=FILE.py[:PRESETS]  such as configs/protonorm.py:spiral
  --config.FIELD=VALUE  changes one field, such as --config.method.lam=5
  --print_config  prints every field, its value, origin and allowed values
  --import=FILE.py  imports a file that registers your methods and networks
"""
GROUPS = {  # heading -> flags below it; all others come first
    "a sweep": ("sweep", "cells_at_once", "launcher", "part", "parts"),
    "one run on several machines": ("coordinator", "processes", "process"),
    "a sweep on Ray": ("task_cpus", "task_gpus", "ray_address"),
}


def run_command(
    command: Callable[[ml_collections.ConfigDict], bool | None],
    prog: str,
    arguments: Sequence[str],
    about: str | None,
):
    """Calls `command` with the checked configuration of the flags; does not return.

    Args:
      command: called with the configuration; exit code 1 if it returns True.
      prog: command that the user typed, for messages.
      about: first lines of --help, before the flags that the command has defined.
    """
    if {"-h", "--help"} & {*arguments}:
        sys.stdout.write(help_text(prog, about))
        sys.exit(0)
    jax.config.parse_flags_with_absl()  # before a required flag exists
    command_line = [prog, *config.resolve_paths(arguments)]
    config_flag = config_flags.DEFINE_config_file(
        "config", lock_config=True, sys_argv=command_line
    )
    print_config = flags.DEFINE_bool("print_config", False, "print all fields and stop")
    flags.mark_flag_as_required("config")
    words: list[str] = []

    def parse(argv):
        config.check_flags(argv[1:])
        words[:] = [argv[0], *config.apply_neutral_preset(argv[1:])]
        if words != argv:
            sys.stdout.write(NEUTRAL)
        try:
            rest = flags.FLAGS(config.replace_follow(words))
        except flags.UnrecognizedFlagError as e:
            raise UserError(
                config.unknown_flag(e.flagname, _own_flags(), words[1:])
            ) from e
        except (flags.Error, TypeError, ValueError) as e:
            raise UserError(config.invalid_value(f"{e}", words[1:])) from e
        config.check_words(rest[1:])
        return rest

    def main(_):
        if not flags.FLAGS["verbosity"].present:
            logging.set_verbosity(logging.WARNING)  # JAX and matplotlib log a lot
        if "imports" in config_flag.value:
            files = map(os.path.abspath, import_flag.imported)  # for any process
            config_flag.value.imports = ",".join(files)
        with jax.disable_jit(False):  # which --debug allows, and `jaxproto.run` refuses
            config.check(config_flag.value)
        if print_config.value:
            sys.stdout.write(format_fields(config_flag.value, words[1:]))
            return False
        return command(config_flag.value) is True

    app.run(main, argv=command_line, flags_parser=parse)


def plain_config() -> ml_collections.ConfigDict:
    """Returns `config.unmodified_config` of --config, for the default folder."""
    return config.unmodified_config(config_file())


def config_file() -> str:
    """Returns the value of --config: "FILE.py:PRESETS"."""
    return config_flags.get_config_filename(flags.FLAGS["config"])


def help_text(prog: str, about: str | None) -> str:
    """Returns the description of a command and its flags."""
    own = _own_flags()
    grouped = [name for names in GROUPS.values() for name in names]
    texts = [f"usage: {prog} --config=FILE.py[:PRESETS] [FLAGS]\n\n{about}\n\n{CONFIG}"]
    texts += [_flag_help(name) for name in own if name not in grouped]
    for heading, names in GROUPS.items():
        lines = [_flag_help(name) for name in names if name in own]
        texts += [f"\n{heading}:\n", *lines] if lines else []
    return "".join(texts)


def _flag_help(name: str) -> str:
    """Returns a flag and its description, as wide as the terminal."""
    flag, width = flags.FLAGS[name], min(shutil.get_terminal_size().columns, 100)
    usage = flag.name if flag.boolean else f"{flag.name}={flag.name.upper()}"
    line = f"  --{usage}  {' '.join(flag.help.split())}"
    options: dict[str, Any] = {"break_on_hyphens": False, "break_long_words": False}
    return textwrap.fill(line, width, subsequent_indent=" " * 6, **options) + "\n"


def _own_flags() -> list[str]:
    """Returns the names of the flags that commands of this package have defined."""
    find = flags.FLAGS.find_module_defining_flag
    modules = {name: find(name) or "" for name in flags.FLAGS}
    return [
        name
        for name, module in modules.items()
        if re.match(r"jaxproto\.(\w+\.)?cli\.", module) or module.endswith("main.py")
    ]
