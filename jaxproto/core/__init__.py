"""What a method is made of: its interface, arrays, types, hyper-parameters."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach(__name__, ["register"])
