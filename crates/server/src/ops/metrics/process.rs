//! What the system says of this process, under the names that all Prometheus clients use. Where there is no `/proc`, nothing is
//! said.

use std::fmt;
use std::fs;
use std::str::FromStr;
use std::sync::OnceLock;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;

use super::gauge;

/// In `/proc` the kernel counts time in so many parts of a second, on every architecture that we run on.
const TICKS_A_SECOND: f64 = 100.0;

/// The figures of the process, read when they are asked for.
#[derive(Debug)]
pub(super) struct Figures;

impl Collector for Figures {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        if let Some(times) = Times::read() {
            let help = "Processor time spent, by user and system";
            let metric = encoder.encode_descriptor("process_cpu_seconds", help, None, MetricType::Counter)?;
            ConstCounter::new(times.cpu_seconds).encode(metric)?;
            if let Some(booted_at) = booted_at_seconds() {
                let help = "When the process began, in seconds since 1970";
                let name = "process_start_time_seconds";
                let metric = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
                ConstGauge::new(booted_at + times.began_after_boot_seconds).encode(metric)?;
            }
        }
        let figures = [
            ("process_resident_memory_bytes", "Memory in use", resident_memory_bytes()),
            ("process_open_fds", "Files and connections open", open_files()),
            ("process_max_fds", "How many may be", open_files_max()),
        ];
        for (name, help, value) in figures {
            let Some(value) = value else { continue };
            gauge(value).encode(encoder.encode_descriptor(name, help, None, MetricType::Gauge)?)?;
        }
        Ok(())
    }
}

struct Times {
    cpu_seconds: f64,
    began_after_boot_seconds: f64,
}

impl Times {
    fn read() -> Option<Self> {
        Self::parse(&fs::read_to_string("/proc/self/stat").ok()?)
    }

    fn parse(stat: &str) -> Option<Self> {
        // The second field is the name of the program in parentheses, and may itself contain some.
        let (_, rest) = stat.rsplit_once(") ")?;
        let fields: Vec<&str> = rest.split(' ').collect();
        let seconds =
            |number: usize| fields.get(number - 3)?.parse().ok().map(|ticks: f64| ticks / TICKS_A_SECOND);
        Some(Self { cpu_seconds: seconds(14)? + seconds(15)?, began_after_boot_seconds: seconds(22)? })
    }
}

/// When the system was booted. Read once: it moves when the clock is set, and the process has not begun anew then.
fn booted_at_seconds() -> Option<f64> {
    static BOOTED_AT: OnceLock<Option<f64>> = OnceLock::new();
    *BOOTED_AT.get_or_init(|| number_after("btime ", &fs::read_to_string("/proc/stat").ok()?))
}

fn resident_memory_bytes() -> Option<u64> {
    let kibibytes: u64 = number_after("VmRSS:", &fs::read_to_string("/proc/self/status").ok()?)?;
    Some(kibibytes * 1024)
}

fn open_files() -> Option<u64> {
    // Newer kernels tell the number as the size of the directory, which spares a look at each of very many.
    let told = fs::metadata("/proc/self/fd").ok()?.len();
    if told > 0 { Some(told) } else { Some(fs::read_dir("/proc/self/fd").ok()?.count() as u64) }
}

fn open_files_max() -> Option<u64> {
    rlimit::getrlimit(rlimit::Resource::NOFILE).ok().map(|(soft, _)| soft)
}

/// The number in the line that begins so.
fn number_after<T: FromStr>(start: &str, text: &str) -> Option<T> {
    let rest = text.lines().find_map(|line| line.strip_prefix(start))?;
    rest.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_found_behind_a_name_with_parentheses() {
        let stat = "7 (a) (b) S 1 7 7 0 -1 4194560 900 0 0 0 250 50 0 0 20 0 4 0 12345 1000 90";
        let times = Times::parse(stat).unwrap();
        assert!(
            (times.cpu_seconds - 3.0).abs() < 1e-9 && (times.began_after_boot_seconds - 123.45).abs() < 1e-9
        );
        assert!(Times::parse("7 (short) S 1").is_none());
    }

    #[test]
    fn numbers_are_found_by_the_start_of_their_line() {
        assert_eq!(number_after("VmRSS:", "VmSize:\t 9 kB\nVmRSS:\t    1234 kB\n"), Some(1234_u64));
        assert_eq!(number_after::<u64>("btime ", "cpu 1 2\n"), None);
    }
}
