"""A run whose files have a limit, as on a full disk: `python filling.py FOLDER`."""

import json
import resource
import sys
from pathlib import Path

from jaxproto.errors import UserError
from support import attacked

LIMITS = (0, 100, 400, 1000, 1500, 3000, 6000)  # bytes


def main(folder: Path):
    attacked.quick()
    file = attacked.data(folder / "toy.npz")
    c = attacked.small("protonorm", file, eval_every=2)
    attacked.run(c, folder / "free")
    said = {}
    for limit in (*LIMITS, resource.RLIM_INFINITY):
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
        try:
            attacked.run(c, folder / "run")
        except UserError as e:
            said[limit] = str(e)
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY,) * 2)
    same = attacked.end(folder / "run") == attacked.end(folder / "free")
    left = [p.name for p in folder.rglob("*") if p.suffix in (".new", ".partial")]
    sys.stdout.write(json.dumps({"said": said, "same": same, "left": left}) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
