"""A virtual environment for every framework, in a folder of the user's."""

import os
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

DEFAULT = Path("~/.cache/jaxproto/peers")
REQUIREMENTS = {  # what `pip install` gets, besides TORCH
    "pfl": ("pfl==0.6.0",),
    "fedjax": ("fedjax==0.0.17", "jax==0.10.2"),  # a pair that was seen to work
    "flower": ("flwr[simulation]==1.41.0",),
}
TORCH = ("pfl", "flower")  # who needs it


def python(folder: Path, name: str) -> Path:
    """The interpreter of a contender."""
    if name not in REQUIREMENTS:
        return Path(sys.executable)
    binaries = ("Scripts", "python.exe") if os.name == "nt" else ("bin", "python")
    return folder.expanduser().absolute().joinpath(name, *binaries)


def absent(folder: Path, names: Iterable[str]) -> list[str]:
    """Contenders without an environment that is complete."""
    return [
        name
        for name in names
        if name in REQUIREMENTS and not marker(folder, name).exists()
    ]


def marker(folder: Path, name: str) -> Path:
    """A file that says what was installed; written last."""
    return folder.expanduser() / name / "installed.txt"


def install(folder: Path, name: str, torch: str, interpreter: str):
    """Makes the environment of a contender.

    Args:
      torch: requirement of PyTorch, where it is needed.
      interpreter: Python that the environment is made with.

    Raises:
      subprocess.CalledProcessError: what pip could not do, it has printed.
    """
    wanted = [*REQUIREMENTS[name], *([torch] if name in TORCH else [])]
    own = folder.expanduser() / name
    subprocess.run([interpreter, "-m", "venv", str(own)], check=True)
    pip = [str(python(folder, name)), "-m", "pip", "install", "--quiet"]
    subprocess.run([*pip, *wanted], check=True)
    marker(folder, name).write_text("\n".join(wanted) + "\n")
