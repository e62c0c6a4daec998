"""Configurations with other values in some fields."""


def changed(c, fields=(), **more):
    """Sets flat fields, `more` with __ for a dot; returns the configuration."""
    flat = {k.replace("__", "."): v for k, v in {**dict(fields), **more}.items()}
    c.update_from_flattened_dict(flat)
    return c
