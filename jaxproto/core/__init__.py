"""What a method is made of: its interface, arrays, types, hyper-parameters."""
