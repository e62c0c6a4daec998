"""What uploads reveal: attacks, an audit of privacy, the fields of messages."""
