"""Equal federations in jaxproto and in other frameworks."""
