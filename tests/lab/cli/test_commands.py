"""Commands of this layer, and what a shell completes of them."""

from support.commands import called


def test_plot_takes_a_folder_with_a_dot_that_is_not_there_for_no_picture():
    said = called("plot", "accuracy", "runs/fedproto-method.lam=1.5")
    assert "runs/fedproto-method.lam=1.5 does not exist: give work" in said
