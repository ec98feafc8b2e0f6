//! Where token buckets live: in memory, or in a Redis that several nodes share.
