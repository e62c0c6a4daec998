"""Compiling ahead of time: what is read of a module's text, sizes, programs.

The compilers of TPU and CUDA are not installed here; `.ci/run` has the TPU's.
"""

import jax
import numpy as np
import pytest
from jax.sharding import Mesh

from benchmarks import ahead, hlo
from jaxproto.errors import UserError

TEXT = """HloModule jit_step, is_scheduled=true

%body (arg: (f32[8,128])) -> (f32[8,128]) {
  %arg = (f32[8,128]{1,0:T(8,128)}) parameter(0)
  %x = f32[8,128]{1,0:T(8,128)} get-tuple-element(%arg), index=0
  %y = f32[8,128]{1,0:T(8,128)S(1)} fusion(%x), kind=kLoop, calls=%fused
  ROOT %out = (f32[8,128]{1,0:T(8,128)}) tuple(%y)
}

ENTRY %main (p: f32[8,128], q: bf16[4]) -> f32[8,128] {
  %p = f32[8,128]{1,0:T(8,128)} parameter(0)
  %q = bf16[4]{0} parameter(1)
  %copy-start.1 = (f32[8,128]{1,0:S(1)}, f32[8,128]{1,0}, u32[]{:S(2)}) copy-start(%p)
  %copy-done.1 = f32[8,128]{1,0:S(1)} copy-done(%copy-start.1)
  %call = f32[4]{0} custom-call(%q), custom_call_target="__cudnn$conv", CONFIG
  %loop = (f32[8,128]{1,0:T(8,128)}) while(%tuple), condition=%cond, body=%body
  %all-gather-start.3 = f32[8]{0} all-gather-start(%call), replica_groups={}
  %all-gather-done.3 = f32[8]{0} all-gather-done(%all-gather-start.3)
  ROOT %sum = f32[8]{0} all-reduce(%all-gather-done.3), to_apply=%add
}
""".replace("CONFIG", "feature_group_count=8")


def test_traffic_and_rows_are_counted():
    """The memories are told apart."""
    image, call = 8 * 128 * 4, 4 * 2 + 4 * 4
    gathered = (8 + 4) * 4 + (8 + 8) * 4
    assert hlo.traffic(TEXT) == {"hbm": 2 * image + call + gathered, "core": image}
    assert hlo.collectives(TEXT) == {"all-gather": 1, "all-reduce": 1}
    assert hlo.library_calls(TEXT) == {"__cudnn$conv": 1}
    assert hlo.grouped(TEXT) == {"8": 1}
    assert [ahead.rows(g, 1) for g in ahead.GROUPS] == [5, 20, 10]
    assert [ahead.rows(g, 4) for g in ahead.GROUPS] == [8, 20, 12]


def test_networks_bring_their_groups_and_texts_the_tokens_of_ag_news():
    assert ahead.groups(["cnn4"]) == ["HmCNN"]
    assert ahead.groups(["textcnn", "resnet8"]) == ["Ht0", "text"]
    for wrong in ("resnet9", "mlp"):
        with pytest.raises(UserError, match=wrong):
            ahead.groups([wrong])
    with pytest.raises(UserError, match="fast"):
        ahead.form("all:fast")
    step = ahead.step("fasttext", "text", ahead.form("one:lax"), "float32", mesh())
    table = step.out[0]["body"]["embedding"]["table"]
    assert table.shape == (32_000, ahead.DIM)


def mesh() -> Mesh:
    return Mesh(np.array(jax.devices()[:1]), (ahead.AXIS,))


def test_every_program_of_a_run_is_traced_from_shapes():
    exp = ahead.federation("HmCNN", ahead.form("one:tpu"), "float32")
    found = ahead.traced(exp, mesh())
    first, steps = "start_clients cnn4 start_server", "broadcast participate train cnn4"
    rest = "update evaluate cnn4 diagnostics"
    assert " ".join(p.name for p in found) == f"{first} {steps} {rest}"
    assert all(ahead.wanted(p, ["cnn4"]) for p in found)
