//! The tools of the tests, tested: the proxy that disturbs connections, and real Redis processes.

mod chaos;
mod redis_cluster;
mod redis_process;
mod redis_sentinel;
