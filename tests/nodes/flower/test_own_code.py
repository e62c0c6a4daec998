"""Runs on nodes of the user's code that changes between two starts."""

import pytest
from support import own_code
from support.commands import called
from support.own_code import losses

define = own_code.define  # a fixture
CONFIG = """
from support.runs import small
get_config = lambda: small("mine", data__clients=2, checkpoint_every=1)
"""


@pytest.mark.long
def test_an_edited_method_is_refused_on_nodes_and_goes_on_with_same_code(
    define, tmp_path
):
    (file := tmp_path / "its_config.py").write_text(CONFIG)
    where = f"--config={file}", f"--workdir={tmp_path / 'run'}", "--form=process"
    define(1.0)
    assert not called("flower", *where)
    define(0.0)
    assert "or --same_code" in called("flower", *where, "--config.rounds=2")
    assert not called("flower", *where, "--config.rounds=2", "--same_code")
    first, last = losses(tmp_path / "run")
    assert first > 0 and last == 0
