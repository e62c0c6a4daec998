"""Data sets of people, writers and roles, made of small archives of their formats."""

import json
import shutil

import numpy as np
from support.archives_toy import save
from support.refusal import refused

from jaxproto.core.types import SPECIAL
from jaxproto.data import registry
from jaxproto.data.dataset import make_dataset
from jaxproto.lab.data import natural
from jaxproto.nodes import private_data
from jaxproto.papers.cli import prepare

RNG = np.random.default_rng(0)


def rows(array):
    """Numbers as the archives have them, a row per line."""
    return "\n".join(" ".join(f"{v: .7e}" for v in row) for row in np.atleast_2d(array))


def har():
    """Three people with windows of 4 steps, two in the training part."""
    files, x = {}, {}
    for split, people in (("train", [1, 1, 3, 3]), ("test", [2, 2])):
        root = f"UCI HAR Dataset/{split}"
        x[split] = RNG.normal(size=(9, len(people), 4)).astype(np.float32)
        for signal, values in zip(natural.HAR_SIGNALS, x[split], strict=True):
            name = f"{root}/Inertial Signals/{signal}_{split}.txt"
            files[name] = rows(values)
        files[f"{root}/y_{split}.txt"] = "\n".join("1652"[: len(people)])
        files[f"{root}/subject_{split}.txt"] = "\n".join(map(str, people))
    return files, x


def pamap2():
    """Person 101 walks and runs, with gaps; 102 lies too shortly, 103 for a window."""
    files = {}
    for person, activities in ((101, [4, 5]), (102, [0, 1]), (103, [1])):
        steps = {101: 384, 102: 255, 103: 256}[person]
        data = RNG.normal(size=(steps * len(activities), 54))
        data[:, 1] = np.repeat(activities, steps)
        data[::7, 4:16] = np.nan
        files[f"PAMAP2_Dataset/Protocol/subject{person}.dat"] = rows(data)
    return files


def leaf(users, folder="train"):
    own = {name: {"x": x, "y": y} for name, (x, y) in users.items()}
    counts = [len(y) for _, y in users.values()]
    about = {"users": [*users], "num_samples": counts, "user_data": own}
    return {f"data/{folder}/all_data_0.json": json.dumps(about)}


def prepared(name, files, tmp_path, capsys):
    """The data set of an archive, and the lines of the command."""
    save(tmp_path / natural.SETS[name].archive, files)
    flags = [f"--manual_dir={tmp_path}", f"--data_dir={tmp_path / 'out'}"]
    prepare.main("jaxproto prepare", [name, *flags, "--min_examples=2"])
    return registry.load(f"npz:{tmp_path / 'out' / name}.npz"), capsys.readouterr().out


def test_people_of_uci_har_are_clients_and_channels_come_last(tmp_path, capsys):
    files, x = har()
    data, said = prepared("uci_har", files, tmp_path, capsys)
    want = np.concatenate([np.moveaxis(x[split], 0, -1) for split in ("train", "test")])
    np.testing.assert_allclose(data.x[..., 0], want, rtol=1e-6)
    assert data.train_size == 4 and data.domains == ("1", "2", "3")
    assert data.domain.tolist() == [0, 0, 2, 2, 1, 1]
    names = ("walking", "laying", "standing", "walking upstairs")
    assert tuple(data.classes[c] for c in data.y[:4]) == names
    assert "6 examples of 3 sources" in said
    assert "--config.data.partition=feature --config.data.clients=3" in said


def test_pamap2_has_windows_of_one_activity_without_gaps(tmp_path, capsys):
    """Windows start at 0, 128, ... of 768 samples; that at 256 has two activities."""
    data, said = prepared("pamap2", pamap2(), tmp_path, capsys)
    assert data.x.shape == (4, 256, 27, 1) and np.isfinite(data.x).all()
    assert {data.classes[c] for c in data.y} == {"walking", "running"}
    np.testing.assert_allclose(data.x.mean((0, 1)), 0, atol=1e-5)
    np.testing.assert_allclose(data.x.std((0, 1)), 1, atol=1e-3)
    assert data.domains == ("101",) and "1 sources have too few examples" in said


def test_writers_of_femnist_are_clients_and_grey_levels_become_bytes(tmp_path, capsys):
    users = {f"f{i}": (RNG.random((3, 784)).tolist(), [0, 61, i]) for i in range(3)}
    few = {"f9": (RNG.random((1, 784)).tolist(), [5])}
    data, said = prepared("femnist", leaf(users | few), tmp_path, capsys)
    assert data.x.shape == (9, 28, 28, 1) and data.x.dtype == np.uint8
    want = np.rint(255 * np.float32(users["f1"][0][2])).astype(np.uint8)
    assert (data.x[5].ravel() == want).all()
    assert data.domains == ("f0", "f1", "f2") and "note: 1 sources have too few" in said


def test_roles_of_shakespeare_are_clients_and_characters_are_tokens(tmp_path, capsys):
    users = {"HAMLET": (["To be", "o be "], [" ", "o"])}
    users["KING"] = ["Ah\n", "?~"], ["A", "A"]
    files = leaf(users) | leaf({"KING": (["x"], [" "])}, "test")
    data, _ = prepared("shakespeare", files, tmp_path, capsys)
    spelt = [[data.tokens[t] for t in row if t] for row in data.x]
    letters = [[chr(int(t[2:], 16)) for t in row if t[0] == "U"] for row in spelt]
    assert ["".join(row) for row in letters] == ["To be", "o be ", "Ah\n", "?", "x"]
    assert data.x.dtype == np.int32 and spelt[3] == ["U+003F", "<unk>"]
    assert data.classes[data.y[0]] == "U+0020" == data.classes[data.y[4]]
    assert data.train_size == 4 and data.domains == ("HAMLET", "KING")


Y = "UCI HAR Dataset/train/y_train.txt"
HAR = har()[0]
BAD = [
    ("uci_har", {k: v for k, v in HAR.items() if k != Y}, f"{Y} is missing. Downlo"),
    ("uci_har", HAR | {Y: "1\n2\n9\n1"}, "but need one number of rows and activiti"),
    ("uci_har", HAR | {Y: "one"}, "y_train.txt, cannot be read"),
    ("pamap2", {"PAMAP2_Dataset/readme.txt": ""}, "no window of 256 samples"),
    ("pamap2", {"PAMAP2_Dataset/Protocol/subject101.dat": "1 2"}, "has not 54 columns"),
    ("femnist", {"data/train/a.json": "{}"}, "is none of LEAF's (KeyError('user_data"),
    ("femnist", leaf({"a": ([[0] * 784], [1, 2])}), "1 inputs and 2 labels"),
    ("femnist", leaf({"a": (["dark"], [1])}), "example that is none of LEAF's (could"),
    ("femnist", {"data/readme": ""}, "no examples in data/train or data/all_data"),
    ("femnist", leaf({"a": ([[0] * 784], [1])}), "none of 1 sources has 2 examples"),
]


def test_other_archives_are_refused(tmp_path):
    for name, files, message in BAD:
        save(tmp_path / natural.SETS[name].archive, files)
        with refused(message):
            natural.prepare(name, tmp_path, tmp_path, 2)


def test_an_unpacked_archive_is_read_and_a_missing_one_is_named(tmp_path):
    path = save(tmp_path / "any.zip", HAR)
    with refused("UCI HAR Dataset.zip nor"):
        natural.prepare("uci_har", tmp_path, tmp_path, 2)
    shutil.unpack_archive(path, tmp_path)
    for _ in range(2):  # the second time as before
        first, *_ = natural.prepare("uci_har", tmp_path, tmp_path, 2)
        assert " of 3 sources in " in first
    (tmp_path / "uci_har.npz").write_text("precious")
    with refused("uci_har.npz exists and has other content"):
        natural.prepare("uci_har", tmp_path, tmp_path, 2)
    with refused(f"cannot write {path}/uci_har.npz: File exists"):
        natural.prepare("uci_har", tmp_path, path, 2)
    assert (tmp_path / "uci_har.npz").read_text() == "precious"


def test_tokens_of_a_node_are_refused():
    """Tokens that no run can use: `support/bad_files.py`."""
    part = np.array([[1, 2], [2, 0]]), [0, 1]
    dataset = make_dataset("made", part, tokens=(*SPECIAL, "a"))
    row = np.zeros(1, int)
    with refused("but all nodes need one. Save the texts themselves"):
        private_data.describe_node(private_data.NodeData(dataset, row, row), 5)
