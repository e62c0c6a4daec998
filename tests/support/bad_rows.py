"""Bad inputs as a user types them, each with words that its message must have.

A row has arguments after main.py ({}: folder of bad files), and words of the message.
"""

from support import bad_files

LOCAL = "--config=local:spiral"


NAMES = [  # field, value, words of the message
    ("rounds", "0", "rounds is 0; it must be at least 1 and below 2**31."),
    ("rounds", "2147483648", "rounds is 2147483648; it "),
    ("local.epochs", "0.5", "from 1 to 10,000 (for less, local.max_batches)."),
    ("eval.metrics", "f1", "unknown metric 'f1'. Did you mean 'macro_f1'?"),
    ("eval.metrics", "acuracy", "unknown metric 'acuracy'. Did you mean 'accuracy'?"),
    ("rounds", "many", "flag --config.rounds=many: it must be a whole number, at le"),
    ("data.pool", "maybe", "flag --config.data.pool=maybe: it must be True or False."),
    ("data.alpha", "0", "data.alpha is 0.0; it "),
    ("participation.fraction", "nan", "participation.fraction is nan; it "),
    ("participation.fraction", "1e-60", "0.0 as a float32"),
    ("method.name", "protnorm", "unknown method 'protnorm'. Did you mean"),
    ("method.name", "fedavg", "--config=fedavg:spiral"),
    ("model.group", "resnet44", "unknown network or group 'resnet44'"),
    ("model.group", "mlp,cnn5", "unknown network 'cnn5'"),
    ("model.group", "fasttext", "network 'fasttext' reads texts"),
    ("data.name", "spirals", "unknown data set 'spirals'"),
    ("data.name", "npzz:a", "unknown data set prefix 'npzz'"),
    ("data.name", "npz:", "npz:"),
    ("data.name", "", "unknown data set ''"),
    ("data.name", "a\x1b[2J", r"data.name is 'a\x1b[2J', with the character \x1b"),
    ("data.partition", "dirichelt", "unknown partition 'dirichelt'"),
    ("data.partition", "feature", "does not say where its examples come from"),
    ("data.name", "npz:\udcff.npz", r"data.name is 'npz:\udcff.npz', with the char"),
    ("data.public_source", "digits", "public data 'digits' have inputs of shape"),
    ("data.pixels", "5", "data.pixels resizes uint8 images"),
    ("data.clients", "100000", "100000 clients with at least"),
    ("local.batch_size", "2147483647", "local.batch_size=2147483647 need about"),
    ("model.feat_dim", "1000000000", "feat_dim is 1000000000. Set model.feat_dim to 2"),
    ("optimizer.decay", "0.5", "optimizer.decay is 0.5, but optimizer.schedule"),
    ("participation.fraction", "0.5", "participation.fraction is 0.5, but law 'all'"),
    ("wire.down", "", "unknown wire.down ''"),
    ("clients_at_once", "\u0663", "clients_at_once is '\u0663'"),
    ("seed", "follow", "flag --config.seed=follow"),
    ("data", "3", "--config.data=3: it is a group of fields; set one of data.alpha, "),
    ("lr", "0.1", "'config': 'lr'. Did you mean 'optimizer.learning_rate'?"),
    ("optimizer.lr", "0.1", "'lr'. Did you mean 'optimizer.learning_rate'?"),
    ("batch_size", "8", "'batch_size'. Did you mean 'local.batch_size'?"),
    ("epochs", "8", "'epochs'. Did you mean 'local.epochs'?"),
    ("num_clients", "8", "'num_clients'. Did you mean 'data.clients'?"),
    ("dataset", "mnist", "'dataset'. Did you mean 'data.name'?"),
    ("metod.lam", "1", "unknown field of 'config': 'metod'. Did you mean 'method'"),
    ("rounds.x", "1", "'config.rounds' is a value and has no field 'x'"),
    ("model.group", "mlp,resnet4", "'resnet4' takes images"),
    ("data.name", "mnist", "data.name=mnist: give it as a preset, such as "),
    ("data.pool", "false", "'spiral' has no official test part"),
    ("attack.clients", "999", "attack.clients is '999'; it must be ids from 0 to"),
]
SEEDS = (LOCAL, "--sweep=seed=0,1")
NANS = ("--config.attack.kind=nan", "--config.attack.clients=0,1")
NANS += ("--config.data.clients=2",)
PARTS = (LOCAL, "--config.data.partition=pathological")
ONE_CLASS = ("--config.data.classes_per_client=1", "--config.data.clients=3")
SHARDS = ("--config.data.partition=shards", "--config.data.classes_per_client=9999")
PFLLIB = ("--config.data.partition=pfllib", "--config.data.least_samples=9999")
CROWD = ("--config.data.clients=600", "--config.data.min_size=1")
UNPREPARED = ("--config.data.name=tfds:mnist", "--config.data.data_dir=/no")
ADAM = ("--config.optimizer.name=adam", "--config.optimizer.momentum=0.9")
IDLE = ("--config.local.short=skip", "--config.local.batch_size=999")
WORDS = [  # after main.py, words of the message
    ((), "--config is missing: give one of comparison, cps_ppa_cpkd, "),
    (("--config", "--workdir=x"), "--config is missing"),
    (("--config", "protonrm"), "file protonrm (no such file). Did you mean 'protonorm"),
    (("--config=local.yaml",), "file local.yaml (no such file). Did you mean 'local.p"),
    (("--config={}/config/raises.py:digits",), "raises.py: TypeError: get_config() ta"),
    (("--config=main.py",), "main.py is no configuration file"),
    ((LOCAL, "--config=fedavg"), "--config is given 2 times ("),
    ((LOCAL, "config.rounds=5"), "'config.rounds=5' is no flag: write --config.rou"),
    ((LOCAL, "rounds=5"), "'rounds=5' is no flag: leave it out"),
    ((LOCAL, "--wrkdir=x"), "Unknown command line flag 'wrkdir'"),
    (("--config=protonorm", "--lam=3"), "flag 'lam'. Did you mean --config.method.lam"),
    ((LOCAL, "--lr=0.1"), "flag 'lr'. Did you mean --config.optimizer.learning_rate?"),
    ((LOCAL, "--noconfig.data.pol"), "'pol'. Did you mean 'pool'?"),
    (("--config=local:spirall",), "unknown preset 'spirall'. Did you mean 'spiral'?"),
    (("--config=local:digits,spiral",), "'digits,spiral' name 2 data sets, digits and"),
    (("--config=local:paper,code",), "'paper,code' name 2 readings"),
    (("--config=comparison:tinyproto,book",), "unknown reading of tinyproto 'book'"),
    (("--config=comparison:fedavg,code",), "has one reading only: leave 'code' out"),
    (("--config=sweeps/clients:fedtgp,fedproto",), "names 2 methods; sweep over each"),
    (("--config=refprotofl", "--config.data.public_share=0"), "needs public examples"),
    (("--config=fedavg", "--config.model.group=digits"), "fedavg averages networks"),
    (("--config=protonorm", "--config.data.pixels=4096"), "a smaller data.pixels"),
    (("--config=protonorm", "--config.model.feat_dim=1000000000"), "model.feat_dim=10"),
    (("--config=vhl", f"--config.method.virtual_classes={10**9}"), "virtual_classes="),
    (("--config=fednova", "--config.optimizer.name=adam"), "optimizer.name is 'adam'"),
    (("--config=vhl:spiral", "--config.model.group=spiral_mlp"), "virtual images"),
    (("--config=tinyproto", "--config.method.s=65"), "65"),
    (("--config=fedproto", "--config.method.lam=-0.001"), "method.lam is -0.001; it "),
    (("--config=protonorm", "--config.method.reg=no"), "unknown method.reg 'no'"),
    (("--config=fedproto", *NANS), "all clients that are evaluated are hostile"),
    ((LOCAL, "--sweep=seed=0:200", "--sweep=rounds=1:300"), "59,800 cells; give at mo"),
    ((LOCAL, "--sweep=seed"), "the axis 'seed' has no values: FIELD=VALUES, such as"),
    ((LOCAL, "--sweep=local.lma=1"), "'lma'"),
    ((LOCAL, "--part=0/2"), "--part=0/2 is for a sweep: add its axes, such as --swe"),
    ((*SEEDS, "--part=x"), "--part=x is not a part; write K/N, such as"),
    ((*SEEDS, "--part=2/2"), "parts of 2 are 0/2 to 1/2."),
    ((*SEEDS, "--part=0/0"), "part 0/0 is none: write K/N"),
    ((*SEEDS, "--cells_at_once=few"), "cells_at_once is 'few'; it is"),
    ((*PARTS, "--config.data.classes_per_client=11"), "is 11, but only 6 classes"),
    ((*PARTS, *ONE_CLASS), "hold 3 classes, but 6 have examples"),
    ((LOCAL, *SHARDS), "Use at most 3 clients, or data.classes_per_client 3000."),
    ((LOCAL, *PFLLIB), "Use at most 3 clients, or data.least_samples 3000."),
    (("--config=local", *CROWD), "gets 0 training and "),
    ((LOCAL, *UNPREPARED), "no prepared data set in /no"),
    (("--config=local", "--config.model.group=spiral_mlp"), "takes inputs of shape"),
    ((LOCAL, *ADAM), "optimizer.momentum is 0.9, but 'adam' takes none"),
    (("--config=local", *IDLE), "no client would train: local.batch_size is 999, but"),
]
WORKDIRS = [  # folder, words of the message
    ("{}/back\\slash", "back\\slash has \\ in its path"),
    ("{}/gs:/a", "gs:/a has gs: in its path"),
    ("{}/a\x1b[2J", r"has \x1b in its path"),
    ("{}/" + "x" * 300, "File name too long"),
    ("{}/\udcff", r"\udcff has \udcff in its path"),
    ("{}/folder/file/run", "cannot write to the work directory"),
    ("/proc/1/nothing", "cannot write to the work directory"),
]


def of_files(folders: dict[str, str]) -> list[tuple]:
    rows = []

    def data(name, words, group="mlp"):
        given = (LOCAL, f"--config.data.name={name}", f"--config.model.group={group}")
        few = ("--config.data.clients=2", "--config.data.min_size=2")
        rows.append(((*given, *few), words))

    for name, (_, words) in bad_files.NPZ.items():
        data(f"npz:{{}}/npz/{name}.npz", words)
    for name in ("cut", "flipped"):
        data(f"npz:{{}}/npz/{name}.npz", f"{name}.npz: cannot be read as npz (it is ")
    data("npz:{}/npz/one.npy", "Save {}/npz/one.npy again with np.savez.")
    data("npz:{}/npz/keyless.npz", "x_train, y_train, x_test, y_test missing")
    for name, (_, words) in bad_files.CSV.items():
        data(f"csv:{{}}/csv/{name}.csv", words, "fasttext")
    data("csv:{}/csv", "no such file. Looked for", "fasttext")
    data("csv:{}/csv/pipes", "test.csv is a pipe", "fasttext")
    data("npz:{}/npz/no.npz", "no.npz: no such file")
    data("npz:{}/npz/pipe.npz", "is a pipe. Give a regular file")
    data("csv:/dev/zero", "/dev/zero is a device")
    data("npz:{}/npz/folder.npz", "is a folder. Give a regular file")
    for name, words in folders.items():
        data(f"folder:{{}}/folder/{name}", words)
    data("folder:/proc/self", "folder:/proc/self: ")
    data("tfds:mnist:9.9.9", "tfds:mnist")
    data("tfds:../..", "tfds:")
    table = {name: words for name, (_, words) in bad_files.PARTITION.items()}
    table |= {"no": "no.csv: no such file", "pipe": "is a pipe"}
    for name, words in table.items():
        path = f"--config.data.partition=file:{{}}/partition/{name}.csv"
        rows.append(((LOCAL, path, "--config.data.clients=2"), words))
    table = {name: words for name, (_, words) in bad_files.CONFIGS.items()}
    table |= {"pipe": "it is no regular file", "folder": "it is no regular file"}
    for name, words in table.items():
        rows.append(((f"--config={{}}/config/{name}.py",), words))
    return rows


def all_of(folders: dict[str, str]) -> dict[str, list[tuple]]:
    return {
        "names": [((LOCAL, f"--config.{k}={v}"), words) for k, v, words in NAMES],
        "words": WORDS,
        "workdirs": [((LOCAL, f"--workdir={p}"), words) for p, words in WORKDIRS],
        "files": of_files(folders),
    }
