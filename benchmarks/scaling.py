"""Seconds and bytes per round as clients, classes or features grow.

    python -m benchmarks.scaling

ProtoNorm trains a small network on small images, and every client has the same number
of examples. One of the three sizes varies at a time. `exponent` is the slope b of
value = a * size**b: 1 is linear.
"""

import statistics
import sys

import jax
from absl import flags

from benchmarks import measure, synthetic
from jaxproto.training import rounds, run_evaluation

FLAGS = measure.flag_values()
flags.DEFINE_string("network", "mlp", "network of all clients", flag_values=FLAGS)
flags.DEFINE_list("clients", "20,50,100,500", "first: default", flag_values=FLAGS)
flags.DEFINE_list("classes", "10,100,200,1000", "first: default", flag_values=FLAGS)
flags.DEFINE_list("dims", "64,128,256,512,1024", "first: default", flag_values=FLAGS)
flags.DEFINE_integer("train", 64, "training examples per client", flag_values=FLAGS)
flags.DEFINE_integer("test", 64, "test examples per client", flag_values=FLAGS)
flags.DEFINE_integer("pixels", 8, "height and width", flag_values=FLAGS)
flags.DEFINE_integer("rounds", 10, "timed rounds", flag_values=FLAGS)
flags.DEFINE_string("form", "auto", "value of clients_at_once", flag_values=FLAGS)

FACTORS = ("clients", "classes", "dims")
MEASURED = ("training", "evaluation", "bytes")


def one(sizes: dict[str, int], s: dict) -> dict:
    """Returns medians over the rounds of one federation."""
    _, exp = synthetic.equal_clients(
        clients=sizes["clients"],
        train=s["train"],
        test=s["test"],
        shape=(s["pixels"], s["pixels"], 1),
        classes=sizes["classes"],
        model__group=s["network"],
        model__feat_dim=sizes["dims"],
        clients_at_once=s["form"],
    )
    work, state, seconds = synthetic.start(exp)
    laps, seen = [], None
    for r in range(s["rounds"] + 1):
        clock = measure.Clock()
        state, seen = rounds.next_state(work, r, state)
        clock.lap("training")
        run_evaluation.evaluate(work, r + 1, state, seen, [1.0])
        clock.lap("evaluation")
        laps.append(clock.parts)
    times = {k: statistics.median(p[k] for p in laps[1:]) for k in laps[0]}
    size = seen.bytes_up + seen.bytes_down
    return {**sizes, **times, "bytes": size, "compile": seconds}


def vary(factor: str, s: dict, known: dict) -> list[dict]:
    """Measures every size of one factor, with the others at their default.

    Args:
      factor: clients, classes or dims.
      s: values of the flags.
      known: earlier results by sizes, because all factors share the default sizes.
    """
    default, rows = {name: measure.whole(s[name])[0] for name in FACTORS}, []
    for size in measure.whole(s[factor]):
        sizes = {**default, factor: size}
        key = tuple(sizes.values())
        if key not in known:
            known[key] = one(sizes, s)
            jax.clear_caches()
            print(f"{factor} {size}: done", flush=True)
        rows.append(known[key])
    return rows


def exponents(factor: str, rows: list[dict]) -> dict[str, float | None]:
    """Returns the exponent of every measured value over the factor."""
    if len(rows) < 2:
        return dict.fromkeys(MEASURED)
    sizes = [r[factor] for r in rows]
    return {k: measure.exponent(sizes, [r[k] for r in rows]) for k in MEASURED}


def main(argv):
    """Measures rounds over every factor."""
    settings, results = measure.parse(FLAGS, argv, __doc__), {}
    tables, known = [], {}
    for factor in FACTORS:
        rows = vary(factor, settings, known)
        grows = exponents(factor, rows)
        results[factor] = {"rows": rows, "exponents": grows}
        cells = [[r[factor], *(r[k] for k in MEASURED), r["compile"]] for r in rows]
        cells = [[str(c[0]), *c[1:]] for c in cells]
        cells.append(["exponent", *grows.values(), None])
        columns = (factor, "training s", "evaluation s", "bytes", "compile s")
        tables.append(measure.table(f"A round, {factor} varied", columns, cells))
    measure.finish("scaling", settings, results, tables)


if __name__ == "__main__":
    main(sys.argv)
