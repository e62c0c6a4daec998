"""A run of a file of the user, read by a program that has not imported the file."""

import pytest

import jaxproto
from jaxproto import METHODS, config
from jaxproto.errors import UserError
from jaxproto.methods.fedavg import fedavg


def test_what_is_unknown_is_named_with_the_flag_that_imports_it(tmp_path, monkeypatch):
    file, name = tmp_path / "mine_of_a_test.py", "of_a_file"
    with monkeypatch.context() as patch:
        patch.setitem(METHODS, name, lambda spec, *, share: fedavg(spec))
        made = config.experiment(name, "digits")
    made.imports = str(file)
    (tmp_path / "config.json").write_text(made.to_json())
    with pytest.raises(UserError, match=rf"'{name}' of {file}.*--import={file}"):
        jaxproto.load(tmp_path)
    made = config.experiment("fedavg", "digits")
    made.eval.metrics, made.imports = "mine", "a.py,b.py"
    (tmp_path / "config.json").write_text(made.to_json())
    with pytest.raises(UserError, match=r"metric 'mine'.*--import=a.py --import=b.py"):
        jaxproto.load(tmp_path)
