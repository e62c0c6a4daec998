"""Axes of a sweep: texts and values, and what is wrong with them."""

from support.every import check_every
from support.refusal import refused
from support.sweeping import tiny

from jaxproto.config import files
from jaxproto.sweeps import parse_axes
from jaxproto.sweeps.axes import cell_changes

C = tiny()


def values(*texts):
    """The values of the first axis; of one field without tuples."""
    first = parse_axes(C, texts)[0].values
    return [v[0] for v in first] if all(len(v) == 1 for v in first) else list(first)


TEXTS = [
    ("seed= 3, 4", [3, 4]),
    ("seed=0:3", [0, 1, 2]),
    ("seed=0:10:4", [0, 4, 8]),
    ("seed=2:0:-1", [2, 1]),
    ("local.epochs=lin:1:5:3", [1, 3, 5]),
    ("local.epochs=log:1:8:4", [1, 2, 4, 8]),
    ("method.lam=1,2.5,1e-3", [1.0, 2.5, 0.001]),
    ("method.lam=log:10:0.1:3", [10.0, 1.0, 0.1]),
    ("method.lam=lin:0:0.3:4", [0.0, 0.1, 0.2, 0.3]),
    ("method.lam=lin:0:1234567.5:2", [0.0, 1234567.5]),
    ("data.pool=true,FALSE", [True, False]),
    ("data.pool=1,0", [True, False]),
    ("data.seed=follow,3", [-1, 3]),
    ("local.order=shuffled,fixed", ["shuffled", "fixed"]),
    ('model.group=digits, "mlp,cnn4_d"', ["digits", "mlp,cnn4_d"]),
    ('data.name="npz:a+b=1.npz",digits', ["npz:a+b=1.npz", "digits"]),
    ("method.lam=1e+3,2", [1000.0, 2.0]),
    ("seed=0:2+method.lam=lin:1:2:2+rounds=5,6", [(0, 1.0, 5), (1, 2.0, 6)]),
    # Inner values of equal factors have six digits:
    ("method.lam=log:1e-3:1e-2:3", [0.001, 0.00316228, 0.01]),
    ("method.lam=log:1e-300:1e300:3", [1e-300, 1.0, 1e300]),
]


def types(found):
    return [[*map(type, v)] if isinstance(v, tuple) else type(v) for v in found]


def test_a_text_stands_for_its_values_in_the_type_of_the_field():
    def check(text, want):
        found = values(text)
        assert found == want and types(found) == types(want)

    check_every(TEXTS, check)


def test_python_gives_values_texts_and_pairs_of_which_the_last_changes_fastest():
    given = {"seed": range(2), "method.lam": "log:1:10:2"}
    given["local.epochs", "method.upscale"] = [(1, 2), [3, 4.5]]
    seed, lam, pair = parse_axes(C, given)
    assert seed.values == ((0,), (1,)) and lam.values == ((1.0,), (10.0,))
    assert pair.fields == ("local.epochs", "method.upscale")
    assert pair.values == ((1, 2.0), (3, 4.5))
    assert [list(map(type, row)) for row in pair.values] == [[int, float]] * 2
    both = [dict(zip(pair.fields, values, strict=True)) for values in pair.values]
    cells = [{"seed": s, **one} for s in (0, 1) for one in both]
    assert cell_changes([seed, pair]) == cells


NO_AXES = [
    ([], "a sweep needs an axis, such as --sweep=seed=0,1,2 or"),
    ("seed=0,1", "the axes 'seed=0,1' are neither a dictionary {field: values} nor"),
    ([3], "the axes [3] are neither a dictionary"),
    (["seed="], "the axis 'seed=' has no values: FIELD=VALUES, such as"),
    (["seed=3:0"], "the axis seed has no values, such as"),
    ({"seed": []}, "the axis seed has no values, such as"),
    (["seed=0:9:0"], "the values '0:9:0' have a step of 0."),
    (["method.lma=1"], "field of 'config.method': 'lma'. Did you mean 'lam'?"),
    (["method.lam.x=1"], "'config.method.lam' is a value and has no field 'x'."),
    (["method=fedproto"], "method is a group of fields; name one of them."),
    (["method.name=fedproto,fedtgp"], "method.name cannot be an axis, because"),
    (["seed=0,,1"], "seed is '' in the sweep; it must be a whole number."),
    (["seed=lin:0:1:3"], "seed is 0.5 in the sweep; it must be a whole number."),
    ({"seed": [True]}, "seed is True in the sweep; it must be a whole number."),
    ({"local.order": [3]}, "local.order is 3 in the sweep; it must be a text."),
    (["method.lam=0:3"], "method.lam is '0:3' in the sweep; it must be a number."),
    (["data.pool=yes"], "data.pool is 'yes' in the sweep; it must be True or False."),
    (["method.lam=1,1.0"], "the axis method.lam has 1.0 more than once; give it"),
    (["method.lam=log:1:9"], "the values 'log:1:9' are not log:FIRST:LAST:COUNT."),
    (["method.lam=lin:1:x:3"], "'lin:1:x:3' are not lin:FIRST:LAST:COUNT."),
    (["method.lam=lin:1:inf:3"], "need finite ends and a count above 1."),
    (["method.lam=log:0:1:3"], "'log:0:1:3' are by equal factors: ends above 0."),
    (["seed=1,2+method.lam=3"], "equally many values (seed: 2, method.lam: 1)."),
    (["seed=1", "seed=2"], "two axes of the sweep change seed; give it once."),
    (['model.group="mlp,cnn4'], "a text that holds a comma stands in double quotes"),
    ({"seed": 3}, "the axis seed is 3; it must be a list of values."),
    ({("seed", "rounds"): [(1,)]}, "seed+rounds needs 2 values in each entry."),
]


def test_what_is_no_axis_is_refused():
    def check(given, message):
        with refused(message):
            parse_axes(C, given)

    check_every(NO_AXES, check)


HEAD = "from jaxproto import config\nfrom jaxproto.errors import UserError\n"
HEAD += "def get_config(arg='digits'):\n    return config.experiment('local', arg)\n"
NO_SWEEPS = [
    ("", "c.py defines no get_sweep: give the axes of the sweep, such as --sweep="),
    ("get_sweep = 3", "c.py defines no get_sweep"),
    ("def get_sweep():\n    return 1 / 0", "c.py, line 6: ZeroDivisionError: div"),
    ("def get_sweep():\n    raise UserError('no such thing.')", "no such thing."),
    ("def get_sweep():\n    raise SystemExit(3)", "c.py, line 6: SystemExit: 3"),
]


def test_a_file_has_the_axes_of_its_sweep_or_one_line_of_error(tmp_path):
    def axes(text):
        (tmp_path / "c.py").write_text(HEAD + text)
        return files.sweep_axes(f"{tmp_path / 'c.py'}:spiral")

    def check(text, message):
        with refused(message):
            axes(text)

    check_every(NO_SWEEPS, check)
    assert axes("def get_sweep():\n    return ['seed=0,1']") == ["seed=0,1"]
    found = axes("def get_sweep(arg):\n    return {'seed': [arg]}")
    assert found == {"seed": ["spiral"]}
