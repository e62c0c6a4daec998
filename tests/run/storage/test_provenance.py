"""`provenance.json`: what a run's numbers follow from besides its configuration."""

import json

import pytest
from support.refusal import refused
from support.runs import tiny

from jaxproto.config import user_code
from jaxproto.storage import provenance, workdir
from jaxproto.storage.run_folder import RunFolder

MINE = "method 'mine'"


@pytest.fixture
def code(monkeypatch):
    """The digests of the user's code, to be changed; the method is 'mine', as 'a'."""
    digests = {MINE: "a"}
    monkeypatch.setattr(user_code, "digests", lambda config: digests)
    return digests


def start(path):
    provenance.record(path, tiny())
    workdir.save_config(path, tiny())
    return path


def test_another_value_is_refused_and_with_same_code_added(code, tmp_path):
    path = start(tmp_path)
    code[MINE] = "b"
    with refused(f"{path} holds a run of other code: {MINE} has changed since. No"):
        workdir.check_config(path, tiny())
    workdir.check_config(path, tiny(), same_code=True)
    (path / "checkpoints" / "2").mkdir(parents=True)
    for _ in range(2):
        start(path)
        workdir.check_config(path, tiny())
    entries = RunFolder.at(path).provenance
    codes = [(entry["after_round"], entry["sections"]["code"]) for entry in entries]
    assert codes == [(0, {MINE: "a"}), (2, {MINE: "b"})]


def test_only_names_that_both_have_are_compared(code, tmp_path):
    path = start(tmp_path)
    code["network 'net'"] = "c"
    workdir.check_config(path, tiny())
    (path / "provenance.json").unlink()
    code[MINE] = "b"
    workdir.check_config(path, tiny())


def test_the_file_of_a_start_that_was_killed_before_its_configuration_is_replaced(
    code, tmp_path
):
    provenance.record(tmp_path, tiny())
    code[MINE] = "b"
    start(tmp_path)
    assert RunFolder.at(tmp_path).provenance[0]["sections"]["code"] == {MINE: "b"}
    assert len(RunFolder.at(tmp_path).provenance) == 1


@pytest.mark.parametrize("content", ([], {"history": [{"sections": {}}]}, {"a": 1}))
def test_a_damaged_file_is_named(code, tmp_path, content):
    path = start(tmp_path)
    (path / "provenance.json").write_text(json.dumps(content))
    with refused("provenance.json cannot be read (it "):
        workdir.check_config(path, tiny())
