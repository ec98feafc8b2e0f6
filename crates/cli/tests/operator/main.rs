//! What an operator uses beside the API: the command line, configuration, keys and secrets, alarms, metrics, `demo` and `load`.

#[path = "../support/mod.rs"]
mod support;

mod alarms;
mod arrivals;
mod check_config;
mod cli_backup;
mod cli_capacity;
mod cli_client;
mod cli_destination;
mod cli_exit_codes;
mod cli_help;
mod cli_key;
mod cli_room;
mod clock;
mod demo;
mod demo_terminal;
mod load;
mod metrics;
mod rotation;
mod secrets;
