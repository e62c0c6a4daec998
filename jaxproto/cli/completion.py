"""Shell completion: eval "$(jaxproto completion bash)", or zsh."""

import sys
from collections.abc import Sequence

from jaxproto.cli.argparse_types import Parser

SCRIPT = """{zsh}_jaxproto() {{
  local word="${{COMP_WORDS[COMP_CWORD]}}" names="{commands}"
  case "${{COMP_WORDS[COMP_CWORD-1]}}" in
    --config|=) [ "${{COMP_WORDS[COMP_CWORD-2]}}" != --config ] || names="{configs}" ;;
    list) names="{kinds}" ;;
    plot) names="{plots}" ;;
    *) [ "$COMP_CWORD" -le 1 ] || names="--config= --help --import=" ;;
  esac
  [ "$word" != = ] || word=""
  COMPREPLY=($(compgen -W "$names" -- "$word"))
}}
complete -o default -o nospace -F _jaxproto jaxproto
"""
ZSH = "autoload -U +X bashcompinit && bashcompinit\n"


def main(prog: str, arguments: Sequence[str]):
    """Prints the script of a shell."""
    from jaxproto import cli
    from jaxproto.cli import list_names
    from jaxproto.config import builtin

    parser = Parser(prog=prog, description=__doc__)
    parser.add_argument("shell", choices=("bash", "zsh"))
    shell = parser.parse_args(arguments).shell
    names = {
        "commands": cli.COMMANDS,
        "configs": builtin.names(),
        "kinds": list_names.KINDS,
        "plots": list_names.KINDS["plots"]() if "plots" in list_names.KINDS else (),
    }
    words = {key: " ".join(value) for key, value in names.items()}
    sys.stdout.write(SCRIPT.format(zsh=ZSH if shell == "zsh" else "", **words))
