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
    "htfllib": ("torchvision", "scikit-learn", "h5py"),
}
TORCH = ("pfl", "flower", "htfllib")  # who needs it
SOURCE = "https://github.com/TsingZ0/HtFLlib"  # no package: its repository is copied
COMMIT = "e959261"  # of 2026-04-23


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


def htfllib(folder: Path) -> Path:
    """The copy of HtFLlib's repository."""
    return folder.expanduser().absolute() / "htfllib" / "HtFLlib"


def install(folder: Path, name: str, s: dict):
    """Makes the environment of a contender.

    Args:
      s: settings: `torch`, a requirement, where it is needed; `python`, the interpreter
        that the environment is made with; `htfllib`, a repository.

    Raises:
      subprocess.CalledProcessError: what pip could not do, it has printed.
    """
    wanted = [*REQUIREMENTS[name], *([s["torch"]] if name in TORCH else [])]
    own = folder.expanduser() / name
    subprocess.run([s["python"], "-m", "venv", str(own)], check=True)
    pip = [str(python(folder, name)), "-m", "pip", "install", "--quiet"]
    subprocess.run([*pip, *wanted], check=True)
    if name == "htfllib":
        copy = str(htfllib(folder))
        subprocess.run(["git", "clone", "--quiet", s["htfllib"], copy], check=True)
        subprocess.run(["git", "-C", copy, "checkout", "--quiet", COMMIT], check=True)
    marker(folder, name).write_text("\n".join(wanted) + "\n")
