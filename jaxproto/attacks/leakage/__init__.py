"""Privacy attacks on the uploads of clients of a finished run.

`next_upload.py` computes the upload that a client would send next, `attacker.py` the
knowledge of an attacker. The docstring of each attack states its threat model and
limits: `prototype_inversion.py`, `gradient_inversion.py`, `dense_inversion.py`,
`membership.py`, `shadow_federations.py`, `joined_rounds.py` and `class_inference.py`.
`attack_runs.py` runs them over runs, formats and noise; the command is `jaxproto leak`.

The server is honest but curious, unless its broadcast is crafted
(`crafted_broadcast.py`). A failed attack does not prove that data are safe.
"""

from jaxproto.attacks.leakage.attack_runs import (
    ATTACKS,
    AttackRequest,
    AttackTable,
    run_attack,
)
