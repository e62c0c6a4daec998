"""Commands that need a configuration: --config=FILE.py:ARG and its overrides."""

import sys
from collections.abc import Callable, Sequence

import jax
import ml_collections
from absl import app, flags, logging
from ml_collections import config_flags

from jaxproto import config
from jaxproto.config import show as listing
from jaxproto.errors import UserError

NEUTRAL = (
    "data.name without a data set after the colon of --config: the preset `neutral` "
    "applies (20 clients, batch 32, learning rate 0.01, networks for images).\n"
)
CONFIG = """  --config=FILE.py[:PRESETS]  such as configs/protonorm.py:spiral
  --config.FIELD=VALUE  changes one field, such as --config.method.lam=5
  --print_config  prints every field, its value, who set it and what it may be
"""


def run_command(
    show: Callable[[ml_collections.ConfigDict], bool | None],
    prog: str,
    arguments: Sequence[str],
    about: str,
):
    """Parses the flags, and hands the checked configuration on; does not return.

    Args:
      show: called with the configuration; True is exit code 1.
      prog: what the user typed, for messages.
      about: what --help says first; the flags that the command has defined follow.
    """
    if {"-h", "--help"} & {*arguments}:
        sys.stdout.write(help_text(prog, about))
        sys.exit(0)
    jax.config.parse_flags_with_absl()  # before a required flag exists
    command = [prog, *config.resolve_paths(arguments)]
    chosen = config_flags.DEFINE_config_file(
        "config", lock_config=True, sys_argv=command
    )
    printed = flags.DEFINE_bool("print_config", False, "print all fields and stop")
    flags.mark_flag_as_required("config")
    said: list[str] = []

    def parse(argv):
        config.check_flags(argv[1:])
        said[:] = [argv[0], *config.apply_neutral_preset(argv[1:])]
        if said != argv:
            sys.stdout.write(NEUTRAL)
        try:
            rest = flags.FLAGS(config.replace_follow(said))
        except (flags.Error, TypeError, ValueError) as e:
            raise UserError(" ".join(f"{e}".split())) from e
        config.check_words(rest[1:])
        return rest

    def main(_):
        if not flags.FLAGS["verbosity"].present:
            logging.set_verbosity(logging.WARNING)  # JAX and matplotlib chat otherwise
        config.check(chosen.value)
        if printed.value:
            sys.stdout.write(listing.format_fields(chosen.value, said[1:]))
            return False
        return show(chosen.value) is True

    app.run(main, argv=command, flags_parser=parse)


def plain_config() -> ml_collections.ConfigDict:
    """What the default folder is named after: see `config.unmodified_config`."""
    return config.unmodified_config(config_file())


def config_file() -> str:
    """What --config says: "FILE.py:PRESETS"."""
    return config_flags.get_config_filename(flags.FLAGS["config"])


def help_text(prog: str, about: str) -> str:
    """What the command does, and its flags."""
    own = [flags.FLAGS[name] for name in flags.FLAGS if _is_own(flags.FLAGS[name])]
    lines = [f"  --{_form(f)}  {f.help}\n" for f in own]
    return f"usage: {prog} --config=FILE.py[:PRESETS] [FLAGS]\n\n{about}\n\n" + "".join(
        [CONFIG, *lines]
    )


def _is_own(flag) -> bool:
    """Whether a command of this package has defined it."""
    module = flags.FLAGS.find_module_defining_flag(flag.name) or ""
    return module.startswith("jaxproto.cli") or module.endswith("main.py")


def _form(flag) -> str:
    return flag.name if flag.boolean else f"{flag.name}={flag.name.upper()}"
