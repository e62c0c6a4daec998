"""Texts or numbers from one's own tables. Broken ones: `support/bad_files.py`."""

import numpy as np
import pandas as pd
import pytest
from support.every import check_every
from support.refusal import refused

from jaxproto.data import registry

LONG = "word " * 50_000  # beyond the csv module's own limit
PLAIN = [
    'a dog,3\n"a cat, ""it""",10\n\nno,3\n',
    'Label,id,TEXT\n3,7,a dog\n 10 ,8,"a cat, ""it"""\n3,9,no\n',
    '\ufefftext,label\r\na dog,3\r\n"a cat, ""it""",10\r\nno,3\r\n',
]


def test_columns_are_text_and_label_or_what_the_header_names(tmp_path):
    def load(content):
        (tmp_path / "a.csv").write_bytes(content.encode())
        return registry.load(f"csv:{tmp_path / 'a.csv'}")

    for content in PLAIN:
        data = load(content)
        assert data.x.tolist() == ["a dog", 'a cat, "it"', "no"]
        assert data.y.tolist() == [0, 1, 0] and data.classes == ("3", "10")
        assert data.train_size == 3
    assert load(f"{LONG},0\nb,1\n").x[0] == LONG


def test_a_folder_and_a_pair_have_an_official_test_part(tmp_path):
    train, test = tmp_path / "train.csv", tmp_path / "test.csv"
    train.write_text('"ü\n2",no\nb,yes\n', encoding="utf-8")
    test.write_text("text,label\nc,yes\nd,so\ne,yes\n")
    for path in (tmp_path, f"{train},{test}"):
        data = registry.load(f"csv:{path}")
        assert data.x.tolist() == ["ü\n2", *"bcde"] and data.train_size == 2
        named = np.array(data.classes)[data.y].tolist()
        assert named == ["no", "yes", "yes", "so", "yes"]
        unseen = "1 examples of 1 classes that the training part has none of"
        assert unseen in " ".join(data.notes)
    test.unlink()
    assert registry.load(f"csv:{tmp_path}").train_size == 2


TEXTS = "good film,{}\nbad film,{}\n"
REVIEWS = "id,review,sentiment\n" + "x1,good film,pos\nx2,bad film,neg\n" * 5
NUMBERS = "1,2.5,3,{}\n4,5,-6e0,{}\n"


@pytest.fixture
def load(tmp_path):
    def load(content, columns=""):
        (tmp_path / "a.csv").write_text(content)
        return registry.load(f"csv:{tmp_path / 'a.csv'}", columns=columns)

    return load


def test_a_first_line_that_looks_like_a_header_is_no_example(load):
    """And what the message gives is read."""

    def check(content, columns, size):
        with refused(f"--config.data.columns={columns}"):
            load(content)
        data = load(content, columns)
        assert len(data.y) == 10 and data.num_classes == 2
        assert data.x.shape == ((10,) if size is None else (10, size))

    pair = "review,sentiment"
    words, digits = TEXTS.format("pos", "neg") * 5, TEXTS.format(1, 0) * 5
    cases = [
        (f"{pair}\n{words}", pair, None),
        (f"{pair}\n{digits}", pair, None),
        (f"text,sentiment\n{words}", "text,sentiment", None),
        (f"sentence,label\n{words}", "sentence,label", None),
        ("id,review,sentiment\n" + "7,good film,1\n8,bad film,0\n" * 5, pair, None),
        ("0,1,2,target\n" + NUMBERS.format(0, 1) * 5, "target", 3),
        ("0,1,2,3\n" + NUMBERS.format(0, 1) * 5, "3", 3),
    ]
    check_every(cases, check)
    with refused("line 1: 3 fields where 2 belong", "--config.data.columns=TEXT,LABEL"):
        load(REVIEWS)
    data = load(REVIEWS, " review, sentiment")
    assert data.x.tolist() == ["good film", "bad film"] * 5
    assert load(words).train_size == 10
    with refused("has no column 'class', which data.columns names"):
        load(REVIEWS, "review,class")
    with refused("data.columns is 'a', but digits has no columns"):
        registry.load("digits", columns="a")


def test_numbers_are_read_by_type_with_the_label_named_or_last(load):
    x = np.array([[1, 2.5, 3], [4, 5, -6]] * 5, np.float32)
    body = NUMBERS.format("x", "y") * 5
    indexed = "".join(f"{i},{line}\n" for i, line in enumerate(body.split()))
    first = "".join(f"{line[-1]},{line[:-2]}\n" for line in body.split())
    for content, columns in (
        (body, ""),
        ("a,b,c,species\n" + body, ""),
        ("label,a,b,c\n" + first, ""),
        ("kind,a,b,c\n" + first, "kind"),
        ("kind,a,b,c\n" + first, "a,b,c,kind"),
        (",a,b,c,species\n" + indexed, ""),  # the index of a data frame
    ):
        data = load(content, columns)
        np.testing.assert_array_equal(data.x, x)
        assert data.x.dtype == np.float32 and data.classes == ("x", "y")
    notes = load(",a,b,c,species\n" + indexed).notes
    assert "the column of the index is left out" in notes[0]
    assert load("a,b,c,y\n" + first.replace("x", "9"), "b,y").x.shape == (10, 1)


def test_cells_without_a_number_are_refused_by_line(load):
    numbers = "a,b,y\n" + "1,2,0\n3,4,1\n" * 5
    for bad, message in (
        (",2,0", "line 12: column 'a' has no value, where others have numbers (1 of"),
        ("1,nan,0", "line 12: column 'b' has no value"),
        ("1,?,0", "line 12: column 'b' has '?'"),
        ("1,2,", "line 12: no label (empty)"),
        ("1,2,NA", "line 12: no label (NA)"),
        ("1,1e60,1", "NaN or infinite"),
        ("1,2", "line 12: 2 fields where 3 belong"),
    ):
        with refused(message):
            load(numbers + bad + "\n")
    with refused("has no column 'text'", "--config.data.columns=b,y"):
        load("a,b,y\n" + "1,m,0\n3,f,1\n" * 5)
    with refused("of the inputs a, b, 'b' has words"):
        load("a,b,y\n" + "1,m,0\n3,f,1\n" * 5, "a,b,y")
    with refused("10 different labels in 10 rows, such as '0.1'"):
        load("".join(f"{i},{i},{i}.1\n" for i in range(10)))


def test_another_separator_is_named_with_the_way_out(load):
    for separator, shown in ((";", "';'"), ("\t", "a tab"), ("|", "'|'")):
        message = f"line 1: its fields are separated by {shown}", f"sep={separator!r}"
        with refused(*message):
            load(f"text{separator}label\na b{separator}1\n")


def test_parquet_files_are_tables_too(tmp_path, monkeypatch):
    frame = pd.DataFrame({"a": [1, 2.5] * 5, "b": range(10), "y": ["u", "v"] * 5})

    def load(frame, columns=""):
        frame.to_parquet(tmp_path / "train.parquet")
        return registry.load(f"parquet:{tmp_path}", columns=columns)

    frame.iloc[:3].to_parquet(tmp_path / "test.parquet")
    data = load(frame)
    expected = frame[["a", "b"]].to_numpy(np.float32)
    np.testing.assert_array_equal(data.x, np.concatenate([expected, expected[:3]]))
    assert data.classes == ("u", "v") and data.train_size == 10
    turned = load(frame[["b", "a", "y"]])  # columns are those of the same name
    np.testing.assert_array_equal(turned.x, data.x[:, ::-1])
    with refused("the columns of both parts differ (b, c)"):
        load(frame.rename(columns={"b": "c"}))
    (tmp_path / "test.parquet").unlink()
    texts = pd.DataFrame({"review": ["good", "bad"] * 5, "stars": [1, 0] * 5})
    assert load(texts).x.tolist() == ["good", "bad"] * 5
    gap = frame.assign(b=[None, *range(9)])
    with refused("train.parquet, row 0: column 'b' has no value"):
        load(gap)
    with refused("row 1: no label (empty)"):
        load(texts.assign(stars=[1, None] * 5))
    with refused("has no column 'z'"):
        load(frame, "a,z")
    (tmp_path / "train.parquet").write_text("no table")
    with refused("cannot be read as parquet"):
        registry.load(f"parquet:{tmp_path}")

    def missing(file):
        raise ImportError("Missing optional dependency 'pyarrow'.")

    monkeypatch.setattr(pd, "read_parquet", missing)
    with refused("pip install 'jaxproto[parquet]'"):
        registry.load(f"parquet:{tmp_path}")
