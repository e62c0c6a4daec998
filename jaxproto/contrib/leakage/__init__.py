"""What an upload gives away, measured: attacks on clients of a finished run.

`uploads.py` makes the upload that a client would send next, `known.py` what an attacker
has besides; then a file per attack, whose docstring says its threat model and limits:
`inversion.py` (prototypes to images), `gradients.py` (weight updates to images and
labels), `membership.py`, `classes.py` (presence and counts). `measured.py` runs them
over runs, formats and noise; `jaxproto leak` is the command.

The server follows the protocol and looks at what it gets (honest but curious); it does
not send crafted broadcasts, and does not join uploads of several rounds. What attacks
do not find is not thereby safe.
"""

from jaxproto.contrib.leakage.attacks import (
    ATTACKS,
    AttackRequest,
    AttackTable,
    run_attack,
)

__all__ = ["ATTACKS", "AttackRequest", "AttackTable", "run_attack"]
