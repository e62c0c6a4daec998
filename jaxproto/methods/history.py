"""Differences between saved configurations of older versions and the factories."""

FIRST_KEYS = {  # method -> its first fields, where they are not in a factory's order
    "protonorm": ("name", "lam", "alignment", "upscale"),
    "fedgh": ("name", "server_rate"),
}
OLD_DEFAULTS = {  # method -> later fields, with the value that older versions implied
    "cps_ppa_cpkd": {"method.compare": "sparse"}
}
