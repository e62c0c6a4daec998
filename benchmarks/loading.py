"""Seconds and peak memory to load a data set, the first time and the second.

    python -m benchmarks.loading --names=tfds:fashion_mnist --data_dir=DIR
    python -m benchmarks.loading --names=npz:cifar10.npz,csv:ag_news

Each load is a new process. The first has an empty cache, the second the cache that the
first has written. A load is what a run does before it builds networks: it decodes the
data or maps the cache, divides them among 20 clients by the papers' partition and, for
texts, makes vocabulary and tokens.
"""

import sys
import tempfile

from benchmarks import measure
from benchmarks.peers import shared
from jaxproto import config
from jaxproto.experiment import data

FLAGS = measure.flag_values(
    "data_dir",
    names=(["tfds:fashion_mnist"], "values of data.name"),
    pixels=(0, "height and width; 0: unchanged"),
    vocab_size=(32_000, "data.vocab_size"),
)


def once(name: str, settings: dict) -> dict:
    """Measures seconds and memory of one load; a fresh process calls this."""
    fields = config.default_config()
    fields.data.update(
        name=name,
        data_dir=settings["data_dir"],
        pixels=settings["pixels"],
        vocab_size=settings["vocab_size"],
        partition="pfllib",
    )
    before, clock = shared.peaks()[0], measure.Clock()
    dataset = data.build_data(fields.data).dataset
    clock.lap("seconds")
    return {
        **clock.parts,
        "before": before,
        "peak": shared.peaks()[0],
        "examples": len(dataset.y),
        "bytes": dataset.x.nbytes,
    }


def main(argv):
    """Measures every data set twice."""
    settings = measure.parse(FLAGS, argv, __doc__)
    results, rows = {}, []
    for name in settings["names"]:
        call = {"name": name, "settings": settings}
        with tempfile.TemporaryDirectory() as cache:
            results[name] = [
                measure.fresh("benchmarks.loading", "once", call, XDG_CACHE_HOME=cache)
                for _ in range(2)
            ]
        for order, r in zip(("first", "second"), results[name], strict=True):
            sizes = (r[k] / 2**20 for k in ("bytes", "before", "peak"))
            rows.append((name, order, r["examples"], r["seconds"], *sizes))
    columns = ("data set", "load", "examples", "s")
    columns = (*columns, "MiB of x", "MiB before", "peak MiB")
    title = "Loading a data set"
    measure.finish("loading", settings, results, [measure.table(title, columns, rows)])


if __name__ == "__main__":
    main(sys.argv)
