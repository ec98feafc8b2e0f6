//! Who asks: the address of a client, and its key.
