"""Advice of messages: each alternative is applied, and leads further."""

import re

import numpy as np
import pytest
from PIL import Image
from support import runs
from support.every import check_every
from support.fields import changed

from jaxproto.config import flatten
from jaxproto.errors import UserError
from jaxproto.experiment import check as starts

PIXELS = np.random.default_rng(0).integers(0, 255, (96, 8, 8, 3)).astype(np.uint8)
Y = np.arange(96) % 3
FEATURES = PIXELS[:, 0, 0] / 255.0


@pytest.fixture
def files(tmp_path):
    """A folder of inputs that need one field to be set."""
    np.savez(tmp_path / "a.npz", x_train=FEATURES, y_train=Y)
    test = {"x_test": FEATURES[:6], "y_test": Y[:6]}
    np.savez(tmp_path / "tested.npz", x_train=FEATURES, y_train=Y, **test)
    np.savez(tmp_path / "two.npz", x_train=FEATURES[:2], y_train=Y[:2])
    np.savez(tmp_path / "pixels.npz", x_train=PIXELS, y_train=Y)
    np.savez(tmp_path / "odd.npz", x_train=PIXELS[:, :, :5], y_train=Y)
    for name, first in (("ids", 0), ("from_one", 1)):
        lines = [f"{i % 4 + first},{i}" for i in range(96)]
        (tmp_path / f"{name}.csv").write_text("\n".join(["client,index", *lines]))
    lines = [f"{i % 4},{i},train" for i in range(96)]
    (tmp_path / "train.csv").write_text("\n".join(["client,index,part", *lines]))
    lines = ["client,index,part", *lines, *(f"{k},{96 + k},test" for k in range(4))]
    (tmp_path / "test_too.csv").write_text("\n".join(lines))
    texts = "good film,pos\nbad film,neg\n" * 40
    for name, header in (("head", "review,mood"), ("half", "text,mood")):
        (tmp_path / f"{name}.csv").write_text(f"{header}\n{texts}")
    (tmp_path / "target.csv").write_text("0,1,target\n" + "1,2,0\n3,4,1\n" * 40)
    for name, size in (("a", 8), ("b", 9)):
        for i in range(9):
            path = tmp_path / "sizes" / name / f"{i}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            Image.fromarray(PIXELS[i] + (name == "b")).resize((size, 8)).save(path)
    return tmp_path


LABELS = "data.name=npz:{}/a.npz"
CATALOGUE = [  # method, fields; the message has advice
    ("local", "data.clients=900 data.min_size=20"),
    ("local", "data.clients=900"),
    ("local", "data.clients=600 data.min_size=1"),
    ("local", "data.clients=600 data.min_size=1 data.partition=extended_dirichlet"),
    ("local", "data.clients=1000 data.partition=iid"),
    ("local", "data.clients=3 data.partition=shards data.classes_per_client=999"),
    ("local", "data.clients=3 data.partition=pfllib data.least_samples=999"),
    ("local", f"{LABELS} data.partition=pfllib data.alpha=0.1 data.seed=24"),
    ("local", "data.clients=100 data.train_share=0.05"),
    ("local", "data.clients=9 data.partition=pathological data.classes_per_client=11"),
    ("local", "data.clients=3 data.partition=pathological data.classes_per_client=2"),
    ("local", f"{LABELS} data.partition=file:{{}}/ids.csv data.clients=3"),
    ("local", f"{LABELS} data.partition=file:{{}}/ids.csv data.clients=9"),
    ("local", "data.name=npz:{}/tested.npz data.partition=file:{}/train.csv"),
    (
        "local",
        "data.name=npz:{}/tested.npz data.partition=file:{}/test_too.csv data.pool=0",
    ),
    ("local", "data.partition=classes:0,1;2,3,4"),
    ("local", "data.pool=0"),
    ("local", "data.public_share=0.1 data.public_source=spiral"),
    ("local", "data.name=npz:{}/a.npz data.pixels=9"),
    ("local", "data.name=folder:{}/sizes data.clients=2"),
    ("local", "data.name=csv:{}/head.csv model.group=fasttext"),
    ("local", "data.name=csv:{}/half.csv model.group=fasttext"),
    ("local", "data.name=csv:{}/target.csv"),
    ("local", "data.name=csv:{}/head.csv data.pixels=9 model.group=fasttext"),
    ("local", "model.group=spiral_mlp data.name=spiral"),
    ("local", "data.name=npz:{}/odd.npz model.group=vit_b_16"),
    ("local", "local.short=skip local.batch_size=999"),
    ("local", "participation.fraction=0.5"),
    ("fedmd", "data.public_share=0.0"),
    ("fedproto", "data.name=nodes data.validation_share=0.1"),
    ("fedtgp", "privacy.unit=client"),
]
TOO_SMALL = [
    ("local", "data.name=npz:{}/two.npz"),
    ("local", f"{LABELS} data.partition=file:{{}}/from_one.csv"),
]


def configured(method, fields, root):
    c = runs.digits(method, data__clients=4)
    for pair in fields.replace("{}", str(root)).split():
        path, _, text = pair.partition("=")
        kind = type(flatten(c)[path])
        value = kind(int(text)) if kind is bool else kind(text)
        c.update_from_flattened_dict({path: value})
    return c


def refusal(c):
    """Returns the error of a start, or None."""
    try:
        starts.check(c)
    except UserError as error:
        return error
    return None


def follow(make, error, before=()):
    """Applies each alternative of a refusal; returns how all paths end."""
    ends = []
    for advice in error.advice:
        again = {*advice} & {path for other in before for path in other}
        assert not again and len(before) < 3, f"in circles: {before}, then {error}"
        for path, value in advice.items():
            assert path.rpartition(".")[2] in f"{error}", f"{path}: {error}"
            assert not value or re.search(rf"\b{re.escape(f'{value}')}\b", f"{error}")
        path = *before, advice
        then = refusal(make({k: v for step in path for k, v in step.items()}))
        ends += follow(make, then, path) if then and then.advice else [then]
    return ends


def test_advice_that_is_followed_leads_to_a_start_or_to_another_final_refusal(files):
    all_ends = []

    def check(method, fields):
        def make(more):
            return changed(configured(method, fields, files), more)

        error = refusal(make({}))
        assert error, "starts"
        assert error.advice, f"no advice: {error}"
        all_ends.extend(follow(make, error))

    check_every(CATALOGUE, check)
    final = [f"{end}" for end in all_ends if end]
    assert len(final) < len(all_ends) / 8, final  # most of it starts


def test_a_refusal_without_a_way_by_fields_proposes_none(files):
    def final(method, fields):
        error = refusal(configured(method, fields, files))
        assert error and not error.advice and "Set data.clients" not in f"{error}"

    check_every(TOO_SMALL, final)
    (few, one) = (refusal(configured(*row, files)) for row in TOO_SMALL)
    assert "too few for a federation" in f"{few}"
    assert "Clients go from 0, here from 1" in f"{one}"


def test_the_least_size_of_many_clients_is_one_that_starts():
    c = configured("local", "data.clients=900 data.min_size=20", "")
    message = "Use at most 89 clients, or at most 898 clients with data.min_size 2."
    assert f"{refusal(c)}".endswith(message)
