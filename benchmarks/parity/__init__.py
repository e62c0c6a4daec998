"""Comparison of jaxproto with plain PyTorch, from equal weights and batches.

- `record`: quantities that both sides record.
- `rules`: constants and choices of the PyTorch side, and deliberate mistakes in them.
- `ours`: jaxproto's side, the programs of a run; `arrays` gives its arrays PyTorch's
  names.
- `theirs`: prototype methods as plain PyTorch loops, with `networks`, `formulas`,
  FedTGP's `generator` and `refprotofl`.
- `compare`: differences, their tolerances, and the first one out of tolerance.
- `views`: the tables.
"""
