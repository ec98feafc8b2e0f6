//! What operators watch a sale with, as it stands in `deploy`: Prometheus with our rules, the dashboard's queries, and Alertmanager
//! with our recipes. The programs are the real ones of Debian's packages, on free ports of loopback and in temporary directories.

#[path = "../support/mod.rs"]
mod support;

mod alertmanager;
mod configurations;
mod dashboard;
mod deployment;
mod documents;
mod mail;
mod prometheus;
mod telemetry;
