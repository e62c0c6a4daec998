"""Seconds and bytes per round as clients, classes or features grow.

    python -m benchmarks.scaling

ProtoNorm trains a small network on small images, and every client has the same number
of examples. One of the three sizes varies at a time. Bytes are those of the messages
of a round. `exponent` is the slope b of value = a * size**b: 1 is linear.
"""

import sys

import jax

from benchmarks import measure, synthetic

FLAGS = measure.flag_values(
    *("network", "rounds", "form"),
    clients=(["20", "50", "100", "500"], "the first is the default"),
    classes=(["10", "100", "200", "1000"], "the first is the default"),
    dims=(["64", "128", "256", "512", "1024"], "the first is the default"),
    train=64,
    test=64,
    pixels=8,
)

FACTORS = ("clients", "classes", "dims")
MEASURED = ("training", "evaluation", "bytes")


def one(sizes: dict[str, int], s: dict) -> dict:
    """Returns medians over the rounds of one federation."""
    s = {**s, **sizes, "group": s["network"], "dim": sizes["dims"]}
    _, exp = synthetic.equal_clients(s, channels=1)
    run = synthetic.Run(exp)
    times = measure.timed(run.timed_round, s["rounds"]).record()["parts"]
    size = run.seen.bytes_up + run.seen.bytes_down
    return {**sizes, **times, "bytes": size, "compile": run.compile_seconds}


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


def main(argv):
    """Measures rounds over every factor."""
    settings, results = measure.parse(FLAGS, argv, __doc__), {}
    tables, known = [], {}
    for factor in FACTORS:
        rows = vary(factor, settings, known)
        exponents = measure.exponents(rows, factor, MEASURED)
        results[factor] = {"rows": rows, "exponents": exponents}
        kinds = (*MEASURED, "compile")
        cells = [[str(r[factor]), *(r[k] for k in kinds)] for r in rows]
        cells.append(["exponent", *exponents.values(), None])
        columns = (factor, "training s", "evaluation s", "bytes", "compile s")
        tables.append(measure.table(f"A round, {factor} varied", columns, cells))
    measure.finish("scaling", settings, results, tables)


if __name__ == "__main__":
    main(sys.argv)
