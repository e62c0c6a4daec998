"""Virtual environments of the frameworks, in a folder of the user."""

import os
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

DEFAULT = Path("~/.cache/jaxproto/peers")
REQUIREMENTS = {  # for `pip install`, besides PyTorch
    "pfl": ("pfl==0.6.0",),
    "fedjax": ("fedjax==0.0.17", "jax==0.10.2"),  # versions that work together
    "flower": ("flwr[simulation]==1.41.0",),
    "htfllib": ("torchvision", "scikit-learn", "h5py"),
}
TORCH = ("pfl", "flower", "htfllib")  # contenders that need PyTorch
SOURCE = "https://github.com/TsingZ0/HtFLlib"  # no package, so it is cloned
COMMIT = "e959261"  # of 2026-04-23


def python(folder: Path, name: str) -> Path:
    """Returns the interpreter of a contender."""
    if name not in REQUIREMENTS:
        return Path(sys.executable)
    binaries = ("Scripts", "python.exe") if os.name == "nt" else ("bin", "python")
    return folder.expanduser().absolute().joinpath(name, *binaries)


def absent(folder: Path, names: Iterable[str]) -> list[str]:
    """Returns contenders without a complete environment."""
    return [
        name
        for name in names
        if name in REQUIREMENTS and not marker(folder, name).exists()
    ]


def marker(folder: Path, name: str) -> Path:
    """Returns the file that lists what was installed, which is written last."""
    return folder.expanduser() / name / "installed.txt"


def htfllib(folder: Path) -> Path:
    """Returns the folder of HtFLlib's repository."""
    return folder.expanduser().absolute() / "htfllib" / "HtFLlib"


def install(folder: Path, name: str, s: dict):
    """Makes the environment of a contender.

    Args:
      folder: folder of all environments.
      name: contender.
      s: settings: `torch`, requirement of PyTorch; `python`, interpreter that makes the
        environment; `htfllib`, repository.

    Raises:
      subprocess.CalledProcessError: a command failed, and has printed why.
    """
    wanted = [*REQUIREMENTS[name], *([s["torch"]] if name in TORCH else [])]
    environment = folder.expanduser() / name
    subprocess.run([s["python"], "-m", "venv", str(environment)], check=True)
    pip = [str(python(folder, name)), "-m", "pip", "install", "--quiet"]
    subprocess.run([*pip, *wanted], check=True)
    if name == "htfllib":
        copy = str(htfllib(folder))
        subprocess.run(["git", "clone", "--quiet", s["htfllib"], copy], check=True)
        subprocess.run(["git", "-C", copy, "checkout", "--quiet", COMMIT], check=True)
    marker(folder, name).write_text("\n".join(wanted) + "\n")
