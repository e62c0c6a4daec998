"""jaxproto beside plain PyTorch: the same weights and batches, quantity by quantity.

- `rules`: what the PyTorch side does, and deliberate mistakes in it.
- `ours`: jaxproto's side, the programs of a run and what can be seen between them, as
  `arrays` with PyTorch's names.
- `theirs`: methods of prototypes as plain PyTorch loops, with `networks`, `formulas`,
  FedTGP's `generator` and `refprotofl`.
- `compare`: differences, their tolerances, and the first that is out of tolerance.
- `views`: the tables.
"""
