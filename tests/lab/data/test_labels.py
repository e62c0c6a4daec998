"""Labels that are texts: every reader returns the names of the file, row by row."""

import csv
import io
import tempfile
from pathlib import Path

import numpy as np
from hypothesis import Phase, assume, given, settings
from hypothesis import strategies as st
from PIL import Image
from support.every import check_every
from support.labels import labels_only
from support.refusal import refused

from jaxproto import config, errors
from jaxproto.data import dataset, domains, labels, registry
from jaxproto.data.partitions import public_examples
from jaxproto.data.readers import npz
from jaxproto.lab.data import partition_file
from jaxproto.nodes import data_schema, private_data

PHASES = (Phase.explicit, Phase.generate)  # to shrink a failure takes minutes
fast = settings(max_examples=20, deadline=None, derandomize=True, phases=PHASES)
TEXT = np.dtypes.StringDType()
printable = st.characters(exclude_categories=[*errors.HIDDEN]).filter(
    lambda c: c not in errors.DIRECTION
)
words = st.builds(
    lambda head, tail: (head + tail).strip(),
    # 16 bytes and more are stored elsewhere by StringDType, 256 bytes and more again
    st.sampled_from(["", "", "World news and ", "World news and politics", "字" * 90]),
    st.text(printable, max_size=20),
).filter(bool)
numerals = st.integers(0, 2000).map(str) | st.from_regex("[0-9]{1,25}", fullmatch=True)


def distinct(names):
    """Returns whether no two names look the same, which is refused."""
    try:
        labels.check_alike("names", names)
    except errors.UserError:
        return False
    return True


def several(names):
    return st.lists(names, min_size=2, max_size=6, unique=True).filter(distinct)


@st.composite
def label_lists(draw):
    """Draws the label of each example; each class has two examples at least."""
    names = draw(several(words) | several(numerals))
    return draw(st.permutations(names * draw(st.integers(2, 3))))


def read_back(data):
    return np.array(data.class_names(), object)[data.y].tolist()


def write_csv(path, rows):
    text = io.StringIO(newline="")
    csv.writer(text).writerows([("text", "label"), *(("a word", y) for y in rows)])
    path.write_bytes(text.getvalue().encode())
    return f"csv:{path}"


def load_npz(path, y, source, cut):
    """Saves labels and sources, and loads the data set."""
    whole = {"x": np.zeros((len(y), 2)), "y": y, "domain": source}
    train = {f"{key}_train": array[:cut] for key, array in whole.items()}
    test = {f"{key}_test": array[cut:] for key, array in whole.items()}
    np.savez(path, **train, **test)
    return registry.load(f"npz:{path}")


@fast
@given(label_lists(), st.data())
def test_labels_of_files_and_arrays_come_back_as_they_were(names, data):
    cut = data.draw(st.integers(1, len(names) - 1))
    test = names[cut:]  # mostly of classes without training examples, it is refused
    assume(2 * sum(name not in names[:cut] for name in test) <= len(test))
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        write_csv(root / "train.csv", names[:cut])
        write_csv(root / "test.csv", names[cut:])
        both = registry.load(f"csv:{root}")
        assert read_back(both) == names and both.train_size == cut

        unicode, x = np.array(names), np.zeros((len(names), 2))
        for y in (unicode, np.char.encode(unicode, "utf-8")):
            loaded = load_npz(root / "a.npz", y, unicode, cut)
            assert read_back(loaded) == names
            assert [loaded.domains[d] for d in loaded.domain] == names

        texts = np.array(names, TEXT)
        file, content = npz.encode((x, texts))
        (root / file).write_bytes(content)
        assert read_back(registry.load(f"npz:{root / file}")) == names
        for parts in ((texts, unicode), (unicode, texts), (texts, texts)):
            (train, test) = ((x, y) for y in parts)
            assert read_back(dataset.make_dataset("a", train, test)) == names * 2

        lines = [f"{i % 2},{i},{'train' if i < 2 else 'test'}" for i in range(4)]
        (root / "parts.csv").write_text("\n".join(["client,index,part", *lines, ""]))
        divided = partition_file.load(root / "parts.csv", both, clients=2)
        rows = np.concatenate([*divided.train, *divided.test])
        assert [read_back(both)[i] for i in rows] == names[:4]


@fast
@given(label_lists())
def test_labels_of_nodes_come_back_as_they_were(names):
    whole = [labels.WHOLE.fullmatch(name) is not None for name in names]
    assume(len({*whole}) == 1)  # a mixture is refused
    c, own = config.default_config().data, (names[::2], names[1::2])
    with tempfile.TemporaryDirectory() as folder:
        found = {}
        for i, part in enumerate(own):
            source = write_csv(Path(folder) / f"{i}.csv", part)
            found[i] = private_data.read(c, i, source)
        told = {i: private_data.describe_node(node, 1) for i, node in found.items()}
        sent = {i: data_schema.to_json(node) for i, node in told.items()}
        told = {i: data_schema.parse_description(text) for i, text in sent.items()}
        schema = data_schema.merge_descriptions(told, 2, 0)
        for i, node in found.items():
            seen = private_data.node_view(schema, i, node, 5).dataset
            assert read_back(seen) == own[i]
            server = private_data.server_view(schema, 5).dataset
            assert seen.class_names() == server.class_names()


def is_folder_name(name):
    fits = len(name.encode()) < 256 and "/" not in name
    return fits and not name.startswith((".", "__MACOSX"))


@fast
@given(several(words.filter(is_folder_name)))
def test_names_of_folders_are_the_names_of_classes_and_domains(names):
    with tempfile.TemporaryDirectory() as folder:
        of_colour = {}
        for colour in range(2 * len(names)):
            name = names[colour // 2]
            for path in (Path(folder, "a", name), Path(folder, "b", name, names[0])):
                path.mkdir(parents=True, exist_ok=True)
                Image.new("L", (1, 1), colour).save(path / f"{colour}.png")
            of_colour[colour] = name
        data = registry.load(f"folder:{folder}/a")
        assert read_back(data) == [of_colour[c] for c in data.x.ravel().tolist()]
        data = registry.load(f"domains:{folder}/b")
        sources = [data.domains[d] for d in data.domain]
        assert sources == [of_colour[c] for c in data.x.ravel().tolist()]


def test_labels_that_would_become_one_class_are_refused(tmp_path):
    x, missing = np.zeros((4, 2)), np.dtypes.StringDType(na_object=None)
    latin = np.array([b"caf\xe9", b"caf\xe8"] * 2)

    def check(y, *message):
        with refused("a: ", *message):
            dataset.make_dataset("a", (x, y))

    cases = [
        (latin, "label b'caf\\xe9', which is not utf-8. Decode the labels"),
        (np.array(["1", "01"] * 2), "labels '01' and '1' are equal as numbers"),
        (np.array(["1.0", "+1"] * 2), "labels '+1' and '1.0' are equal as numbers"),
        (np.array(["1.5", "1.50"] * 2), "labels '1.5' and '1.50' are equal as"),
        (np.array(["\uff11", "1"] * 2), "labels '1' and '\\uff11' look the same"),
        (np.array([None, "b"] * 2, missing), "no label in row 0 (2 of 4"),
        (np.array(["b", "NA"] * 2), "no label in row 1 (2 of 4"),
        (np.array([1, np.nan] * 2), "no label in row 1 (2 of 4"),
    ]
    check_every(cases, check)
    with refused("labels '007' and '7' are equal as numbers"):
        registry.load(write_csv(tmp_path / "a.csv", ["7", "007"] * 2))
    signs = registry.load(write_csv(tmp_path / "a.csv", ["+1", "-1"] * 2))
    assert read_back(signs) == ["+1", "-1"] * 2
    many_digits = ["1" * 5000, "2"]
    labels.check_alike("a", many_digits)


def test_whole_numbers_are_one_label_however_they_are_written(tmp_path):
    """pandas makes 1.0 of a column of 1 in which a value was missing."""
    (tmp_path / "test.csv").write_text("text,label\na,1.0\nb,10.0\n")
    write_csv(tmp_path / "train.csv", ["1", "10", "2"])
    read, x = registry.load(f"csv:{tmp_path}"), np.zeros((5, 2))
    assert read_back(read) == ["1", "10", "2", "1", "10"]
    assert read.classes == ("1", "2", "10")
    assert "labels '1.0', '10.0' are read as whole numbers" in read.notes[0]
    for train in (
        np.array([1, 10, 2]),
        np.array([1.0, 10, 2]),
        np.array(["1", "10", "2"]),
    ):
        for test in (np.array([1.0, 10]), np.array(["1", "10.0"])):
            made = dataset.make_dataset("a", (x[:3], train), (x[3:], test))
            assert made.classes == read.classes and made.y.tolist() == read.y.tolist()
    kept = dataset.make_dataset("a", (x, np.array(["01", "2", "01", "2", "2"])))
    assert kept.classes == ("01", "2")
    assert "labels '01' keep their leading zeros as names" in kept.notes[0]
    halves = dataset.make_dataset("a", (x[:4], np.array(["1.0", "1.5"] * 2)))
    assert halves.classes == ("1.0", "1.5")
    with refused("y_train has type float64"):
        dataset.make_dataset("a", (x[:4], np.array([1, 1.5] * 2)))


def test_a_test_part_of_other_classes_is_refused_with_both_lists():
    x = np.zeros((8, 2))
    parts = (x, np.array(["cat", "dog"] * 4)), (x[:3], np.array(["Cat", "dog", "Cat"]))
    with refused("2 of 3 test examples", "none of: 'Cat'; the", "has 'cat', 'dog'"):
        dataset.make_dataset("a", *parts)
    with refused("4 of 4 test examples", "'2', '3'; the training part has '0', '1'"):
        dataset.make_dataset("a", (x, np.arange(8) % 2), (x[:4], np.arange(4) % 2 + 2))
    half = dataset.make_dataset("a", (x, np.arange(8) % 2), (x[:4], np.arange(4)))
    assert "2 examples of 2 classes that the training part has none of" in half.notes[0]


def test_numbers_of_sources_are_labels_too():
    with refused("labels '01' and '1' are equal as numbers"):
        domains.attach_domains(labels_only([2, 2]), np.array(["1", "01"] * 2))


def test_integers_of_sources_keep_their_value():
    """No type of numpy has the range of both parts."""
    two = labels_only([2, 2], test=2)
    train, test = np.array([2**63 - 1, 2**63 - 2]), np.array([2**64 - 1, 3], np.uint64)
    found = domains.attach_domains(two, train, test)
    assert [int(found.domains[d]) for d in found.domain] == [*train, *test]


def test_public_texts_may_be_longer_than_those_of_the_clients():
    short, long = (np.array([text, "b"]) for text in ("a", "a longer text"))
    first, other = (dataset.make_dataset("a", (x, [0, 1])) for x in (short, long))
    joined = public_examples.append_public(first, other)
    assert joined.x.tolist() == [*short, *long]
