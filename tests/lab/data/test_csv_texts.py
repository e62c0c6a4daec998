"""Texts and labels from one's own csv files. Broken ones: `support/bad_files.py`."""

import numpy as np

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
