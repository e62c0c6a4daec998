"""Messages on the network: their types, their bytes, and the codec."""

from jaxproto.wire.message import (
    COUNT,
    EXACT,
    FORMATS,
    HEADER,
    Scaled,
    Wire,
    array_bytes,
    bitmap_bytes,
    broadcast_sizes,
    for_client,
    index_bytes,
    is_message_node,
    message_bytes,
    pack,
    per_client_parts,
    roundtrip,
    scalars,
    unpack,
)
