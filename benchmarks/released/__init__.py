"""Comparison of methods with the code that HtFLlib and PFLlib released."""
