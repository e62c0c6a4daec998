"""`jit` for programs that run a few times: compiling is the work.

A program of the toy federation compiles in a fifth of the time (4.7 to 0.95 s).
"""

from functools import partial

import jax

WANTED = {"xla_backend_optimization_level": 0, "xla_cpu_use_fusion_emitters": False}


def known(options) -> bool:
    """Returns whether this version of XLA has these options."""
    try:
        jax.jit(lambda: 0, compiler_options=options).lower().compile()
    except jax.errors.JaxRuntimeError:
        return False
    return True


OPTIONS = {k: v for k, v in WANTED.items() if known({k: v})}
jit = partial(jax.jit, compiler_options=OPTIONS)

# Where two programs must agree to the last bit: with the fusion emitters of real runs
AS_RUNS = {"xla_backend_optimization_level": 0, "xla_cpu_use_fusion_emitters": True}
jit_to_the_bit = partial(
    jax.jit, compiler_options={k: v for k, v in AS_RUNS.items() if known({k: v})}
)
