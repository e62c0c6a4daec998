"""The same federated averaging in jaxproto and in other frameworks."""
