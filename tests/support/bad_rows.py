"""Bad inputs as a user types them, each with words that its message must have."""

import itertools
from typing import NamedTuple

from jaxproto import config
from jaxproto.config.factory_fields import all_fields
from jaxproto.config.fields import FIELDS, Names
from jaxproto.hyperparameters import Range
from jaxproto.methods import METHODS
from support import bad_files


class Row(NamedTuple):
    """Arguments after main.py ({}: folder of bad files), and words of the message."""

    arguments: tuple[str, ...]
    words: str


LOCAL = "--config=local:spiral"


def outside(own: Range, whole: bool) -> list:
    """Returns numbers that are not in a range: beside its ends, and far from them."""
    step = 1 if whole else 1e-3
    beside = [own.low, own.low - step, own.low - 5, own.high + step, own.high]
    numbers = [v for v in beside if abs(v) < 2**70 and not own.fits(v)]
    numbers += [2**40] * whole if not own.fits(2**40) else []
    return list(dict.fromkeys(int(v) if whole else v for v in numbers))


def every_field() -> list[tuple]:
    """Returns configuration, path and field: of the run, and of every method."""
    found = [(LOCAL, path, field) for path, field in FIELDS.items()]
    for name in METHODS:
        own = [(path, f) for path, f in all_fields(name).items() if path not in FIELDS]
        found += [(f"--config={name}", *row) for row in own]
    return found


def of_ranges() -> tuple[list[Row], list[Row]]:
    """Every number outside of its range: below it or at its end, and others."""
    first, others = [], []
    for file, path, field in every_field():
        if isinstance(field.allowed, Range):
            bad = outside(field.allowed, isinstance(field.default, int))
            rows = [Row((file, f"--config.{path}={v}"), f"{path} is {v}") for v in bad]
            first += rows[:1]
            others += rows[1:]
    return first, others


def of_types() -> list[Row]:
    """Texts in place of numbers, nan and infinite numbers, and unknown names."""
    rows, flat = [], config.flatten(config.default())
    for path, value in flat.items():
        if isinstance(value, bool | int | float):
            words = f"flag --config.{path}=many"
            rows.append(Row((LOCAL, f"--config.{path}=many"), words))
    floats = [path for path, value in flat.items() if isinstance(value, float)]
    for path, value in itertools.product(floats, ("nan", "inf")):
        rows.append(Row((LOCAL, f"--config.{path}={value}"), f"{path} is {value}; it "))
    tiny = "--config.participation.fraction=1e-60"
    rows.append(Row((LOCAL, tiny), "0.0 as a float32"))
    for file, path, field in every_field():
        if isinstance(field.allowed, Names) and field.allowed.only:
            kind = "method" if path == "method.name" else field.allowed.kind or path
            words = f"unknown {kind} 'nothing'"
            rows.append(Row((file, f"--config.{path}=nothing"), words))
    return rows


NAMES = [  # field, value, words of the message
    ("method.name", "protnorm", "unknown method 'protnorm'. Did you mean"),
    ("method.name", "fedavg", "--config=fedavg:spiral"),
    ("model.group", "resnet44", "unknown network or group 'resnet44'"),
    ("model.group", "mlp,cnn5", "unknown network 'cnn5'"),
    ("model.group", "cnn4", "'cnn4'"),
    ("model.group", "fasttext", "network 'fasttext' reads texts"),
    ("data.name", "spirals", "unknown data set 'spirals'"),
    ("data.name", "npzz:a", "unknown data set prefix 'npzz'"),
    ("data.name", "npz:", "npz:"),
    ("data.name", "a\x1b[2J", r"data.name is 'a\x1b[2J', with the character \x1b"),
    ("data.partition", "dirichelt", "unknown partition 'dirichelt'"),
    ("data.partition", "feature", "does not say where its examples come from"),
    ("data.name", "npz:\udcff.npz", r"data.name is 'npz:\udcff.npz', with the char"),
    ("data.public_source", "spirals", "unknown data set 'spirals'"),
    ("data.public_source", "digits", "public data 'digits' have inputs of shape"),
    ("data.pixels", "5", "data.pixels resizes uint8 images"),
    ("data.clients", "100000", "100000 clients with at least"),
    ("data.min_size", "100000", "at least 100000 examples each"),
    ("local.batch_size", "2147483647", "local.batch_size=2147483647 need about"),
    ("model.feat_dim", "1000000000", "feat_dim is 1000000000. Set feat_dim to 2"),
    ("optimizer.decay", "0.5", "optimizer.decay is 0.5, but optimizer.schedule"),
    ("participation.fraction", "0.5", "participation.fraction is 0.5, but law 'all'"),
    ("wire.down", "", "unknown wire.down ''"),
    ("clients_at_once", "0", "clients_at_once is '0'"),
    ("clients_at_once", "\u0663", "clients_at_once is '\u0663'"),
    ("eval.clients", "\u0663", "eval.clients is '\u0663'"),
    ("name", "a\x07b", r"name is 'a\x07b', with the character \x07"),
    ("seed", "follow", "flag --config.seed=follow"),
    ("data", "3", "--config.data=3"),
    ("metod.lam", "1", "unknown field of 'config': 'metod'. Did you mean 'method'"),
    ("method.lma", "1", "unknown field of 'config.method': 'lma'"),
    ("rounds.x", "1", "'config.rounds' is a value and has no field 'x'"),
    ("model.group", "mlp,resnet4", "'resnet4' takes images"),
    ("data.name", "mnist", "data.name=mnist: give it as a preset, such as "),
    ("data.pool", "false", "'spiral' has no official test part"),
    ("attack.clients", "3,x", "attack.clients is '3,x'; it must be ids from 0 to"),
    ("attack.clients", "999", "attack.clients is '999'; it must be ids from 0 to"),
]
SEEDS = (LOCAL, "--sweep=seed=0,1")
NANS = ("--config.attack.kind=nan", "--config.attack.clients=0,1")
NANS += ("--config.data.clients=2",)
PARTS = (LOCAL, "--config.data.partition=pathological")
ONE_CLASS = ("--config.data.classes_per_client=1", "--config.data.clients=3")
CROWD = ("--config.data.clients=600", "--config.data.min_size=1")
UNPREPARED = ("--config.data.name=tfds:mnist", "--config.data.data_dir=/no")
ADAM = ("--config.optimizer.name=adam", "--config.optimizer.momentum=0.9")
IDLE = ("--config.local.short=skip", "--config.local.batch_size=999")
WORDS = [  # after main.py, words of the message
    ((), "--config is missing: give one of comparison, cps_ppa_cpkd, "),
    (("--config", "--workdir=x"), "--config is missing"),
    (("--config.rounds=3",), "--config is missing"),
    (("--config", "protonrm"), "file protonrm (no such file). Did you mean 'protonorm"),
    (("--config=q",), "there is no configuration file q (no such file). With"),
    (("--config=main.py",), "main.py is no configuration file"),
    (("--config=mine/local.py",), "no configuration file mine/local.py"),
    ((LOCAL, "--config=fedavg"), "--config is given 2 times ("),
    ((LOCAL, "config.rounds=5"), "'config.rounds=5' is no flag: write --config.rou"),
    ((LOCAL, "rounds=5"), "'rounds=5' is no flag: leave it out"),
    ((LOCAL, "--", "--config.rounds=5"), "'--config.rounds=5' is no flag"),
    ((LOCAL, "\x1b[2J"), r"'\x1b[2J' is no flag"),
    ((LOCAL, "--wrkdir=x"), "Unknown command line flag 'wrkdir'"),
    ((LOCAL, "--rounds=3"), "flag 'rounds'. Did you mean --config.rounds?"),
    (("--config=protonorm", "--lam=3"), "flag 'lam'. Did you mean --config.method.lam"),
    ((LOCAL, "--config.data.pool=maybe"), "flag --config.data.pool=maybe"),
    ((LOCAL, "--noconfig.data.pol"), "'pol'. Did you mean 'pool'?"),
    (("--config=local:spirall",), "unknown preset 'spirall'. Did you mean 'spiral'?"),
    (("--config=local:digits,spiral",), "'digits,spiral' name 2 data sets, digits and"),
    (("--config=local:paper,code",), "'paper,code' name 2 readings"),
    (("--config=fedavg:code",), "unknown preset 'code'"),
    (("--config=local:\x1b[2J",), r"unknown preset '\x1b[2J'"),
    (("--config=comparison:tinyproto,book",), "unknown reading of tinyproto 'book'"),
    (("--config=comparison:fedavg,code",), "has one reading only: leave 'code' out"),
    (("--config=comparison:fedproto,papr",), "Did you mean 'paper'"),
    (("--config=sweeps/clients:fedtgp,fedproto",), "names 2 methods; sweep over each"),
    (("--config=sweeps/clients:fedtpg",), "unknown preset 'fedtpg'. There are: ag_"),
    (("--config=sweeps/client",), "Did you mean 'sweeps/clients.py'? With the pack"),
    (("--config=refprotofl", "--config.data.public_share=0"), "needs public examples"),
    (("--config=fedavg", "--config.model.group=digits"), "fedavg averages networks"),
    (("--config=protonorm", "--config.data.pixels=4096"), "a smaller data.pixels"),
    (("--config=protonorm", "--config.model.feat_dim=1000000000"), "model.feat_dim=10"),
    (("--config=tinyproto", "--config.model.feat_dim=1000000000"), "model.feat_dim=10"),
    (("--config=vhl", f"--config.method.virtual_classes={10**9}"), "virtual_classes="),
    (("--config=fednova", "--config.optimizer.name=adam"), "optimizer.name is 'adam'"),
    (("--config=vhl:spiral", "--config.model.group=spiral_mlp"), "virtual images"),
    (("--config=tinyproto", "--config.method.s=65"), "65"),
    (("--config=fedproto", *NANS), "all clients that are evaluated are hostile"),
    ((LOCAL, "--sweep=seed=0:100000000"), "100,000,000 cells; give at most 10,000"),
    ((LOCAL, "--sweep=seed=0:200", "--sweep=rounds=1:300"), "59,800 cells"),
    ((LOCAL, "--sweep=seed=\u0663"), "seed is '\u0663' in the sweep"),
    ((LOCAL, "--sweep=seed"), "the axis 'seed' has no values: FIELD=VALUES, such as"),
    ((LOCAL, "--sweep=local.lma=1"), "'lma'"),
    ((LOCAL, "--part=0/2"), "--part=0/2 is for a sweep: add its axes, such as --swe"),
    ((LOCAL, "--cells_at_once=one"), "--cells_at_once=one is for a sweep: add its a"),
    ((*SEEDS, "--part=x"), "--part=x is not a part; write K/N, such as"),
    ((*SEEDS, "--part=2/2"), "parts of 2 are 0/2 to 1/2."),
    ((*SEEDS, "--part=0/0"), "part 0/0 is none: write K/N"),
    ((*SEEDS, "--cells_at_once=few"), "cells_at_once is 'few'; it is"),
    ((*PARTS, "--config.data.classes_per_client=11"), "is 11, but only 6 classes"),
    ((*PARTS, *ONE_CLASS), "hold 3 classes, but 6 have examples"),
    (("--config=local", *CROWD), "gets 0 training and "),
    ((LOCAL, *UNPREPARED), "no prepared data set in /no"),
    (("--config=local", "--config.model.group=spiral_mlp"), "takes inputs of shape"),
    ((LOCAL, *ADAM), "optimizer.momentum is 0.9, but 'adam' takes none"),
    (
        ("--config=local", *IDLE),
        "no client would train: local.batch_size is 999, but the largest",
    ),
]
WORKDIRS = [  # folder, words of the message
    ("{}/back\\slash", "back\\slash has \\ in its path"),
    ("{}/a[b]", "a[b] has [ in its path"),
    ("{}/a*", "a* has * in its path"),
    ("{}/gs:/a", "gs:/a has gs: in its path"),
    ("{}/a\x1b[2J", r"has \x1b in its path"),
    ("{}/a\nb", r"a\nb has \n in its path"),
    ("{}/nul\0", r"nul\x00 has \x00 in its path"),
    ("{}/" + "x" * 300, "File name too long"),
    ("{}/\udcff", r"\udcff has \udcff in its path"),
    ("{}/folder/file/run", "cannot write to the work directory"),
    ("{}/config/pipe.py", "cannot write to the work directory"),
    ("/proc/1/nothing", "cannot write to the work directory"),
]


def of_files(folders: dict[str, str]) -> list[Row]:
    rows = []

    def data(name, words, group="mlp"):
        given = (LOCAL, f"--config.data.name={name}", f"--config.model.group={group}")
        few = ("--config.data.clients=2", "--config.data.min_size=2")
        rows.append(Row((*given, *few), words))

    for name, (_, words) in bad_files.NPZ.items():
        data(f"npz:{{}}/npz/{name}.npz", words)
    for name in ("cut", "text", "objects", "flipped"):
        data(f"npz:{{}}/npz/{name}.npz", f"{name}.npz: cannot be read as npz")
    data("npz:{}/npz/crowded.npz", "(3000 in all)")
    data("npz:{}/npz/one.npy", "Save {}/npz/one.npy again with np.savez.")
    data("npz:{}/npz/keyless.npz", "x_train, y_train, x_test, y_test missing")
    for name, (_, words) in bad_files.CSV.items():
        data(f"csv:{{}}/csv/{name}.csv", words, "fasttext")
    data("csv:{}/csv", "no such file. Looked for", "fasttext")
    data("csv:{}/csv/pipes", "test.csv is a pipe", "fasttext")
    data("csv:{}/csv/empty.csv,{}/csv/no.csv", "no such file", "fasttext")
    for kind in ("npz", "csv"):
        data(f"{kind}:{{}}/{kind}/no.{kind}", f"no.{kind}: no such file")
        data(f"{kind}:{{}}/{kind}/pipe.{kind}", "is a pipe. Give a regular file")
        data(f"{kind}:/dev/zero", "/dev/zero is a device")
        data(f"{kind}:/dev/null", "/dev/null is a device")
    data("npz:{}/npz/folder.npz", "is a folder. Give a regular file")
    for name, words in folders.items():
        data(f"folder:{{}}/folder/{name}", words)
    data("folder:/proc/self", "folder:/proc/self: ")
    data("folder:/dev", "folder:/dev: ")
    data("tfds:mnist:9.9.9", "tfds:mnist")
    data("tfds:../..", "tfds:")
    table = {f"{k}.csv": words for k, (_, words) in bad_files.PARTITION.items()}
    table |= {"no.csv": "no.csv: no such file", "pipe.csv": "pipe.csv is a pipe"}
    for name, words in {**table, "folder.csv": "is a folder"}.items():
        path = f"--config.data.partition=file:{{}}/partition/{name}"
        rows.append(Row((LOCAL, path, "--config.data.clients=2"), words))
    rows.append(Row((LOCAL, "--config.data.partition=file:/dev/zero"), "is a device"))
    for name, (_, words) in bad_files.CONFIGS.items():
        rows.append(Row((f"--config={{}}/config/{name}.py",), words))
    given = "--config={}/config/raises.py:digits"
    rows.append(Row((given,), "raises.py: TypeError: get_config() takes 0"))
    for name in ("pipe.py", "folder.py"):
        rows.append(Row((f"--config={{}}/config/{name}",), "it is no regular file"))
    return rows


def all_of(folders: dict[str, str]) -> dict[str, list[Row]]:
    ranges, others = of_ranges()
    return {
        "ranges": ranges,
        "other ranges": others,
        "types": of_types(),
        "names": [Row((LOCAL, f"--config.{k}={v}"), words) for k, v, words in NAMES],
        "words": [Row(*pair) for pair in WORDS],
        "workdirs": [Row((LOCAL, f"--workdir={p}"), words) for p, words in WORKDIRS],
        "files": of_files(folders),
    }
