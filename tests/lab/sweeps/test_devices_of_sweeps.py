"""A sweep that several devices share."""

import pytest
from support.device_runs import case, results

AXES = {"seed": [0, 1, 2], "method.lam": [1.0, 5.0]}


@pytest.mark.long
def test_cells_on_several_devices_differ_by_the_rounding_of_another_form(tmp_path):
    fields = {"rounds": 2, "data.validation_share": 0.2}
    sweep = case("fedproto", fields, axes=AXES) | {"devices": "4"}
    assert results({"sweep": sweep}, tmp_path)["sweep"] < 0.02
