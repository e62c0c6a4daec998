"""Configurations: fields, presets, checks, files and command-line flags."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
