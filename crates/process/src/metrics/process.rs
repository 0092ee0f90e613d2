//! What the process uses, read at each scrape.

use std::fmt;
use std::fs;

use jiff::Timestamp;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use rustix::process::{Resource, getrlimit};
use rustix::time::{ClockId, clock_gettime};

/// Reads memory, processor time and file descriptors of this process.
#[derive(Debug)]
pub(super) struct ProcessCollector {
    started: f64,
}

impl ProcessCollector {
    pub(super) fn new() -> Self {
        Self {
            started: Timestamp::now().as_duration().as_secs_f64(),
        }
    }
}

impl Collector for ProcessCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let mut emit = |name: &str, help: &str, metric: &dyn Emit| metric.emit(name, help, &mut encoder);
        emit(
            "process_start_time_seconds",
            "when the process started",
            &ConstGauge::new(self.started),
        )?;
        emit(
            "process_cpu_seconds",
            "processor time used",
            &ConstCounter::new(cpu_seconds()),
        )?;
        if let Some(bytes) = resident_bytes() {
            emit(
                "process_resident_memory_bytes",
                "resident memory",
                &ConstGauge::new(bytes),
            )?;
        }
        if let Some(open) = open_descriptors() {
            emit(
                "process_open_fds",
                "open file descriptors",
                &ConstGauge::new(open),
            )?;
        }
        if let Some(max) = getrlimit(Resource::Nofile)
            .current
            .and_then(|max| i64::try_from(max).ok())
        {
            emit(
                "process_max_fds",
                "largest number of open file descriptors",
                &ConstGauge::new(max),
            )?;
        }
        Ok(())
    }
}

/// `EncodeMetric` with its descriptor, behind a reference.
trait Emit {
    fn emit(&self, name: &str, help: &str, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result;
}

impl<M: EncodeMetric> Emit for M {
    fn emit(&self, name: &str, help: &str, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let metric = encoder.encode_descriptor(name, help, None, self.metric_type())?;
        self.encode(metric)
    }
}

fn cpu_seconds() -> f64 {
    let used = clock_gettime(ClockId::ProcessCPUTime);
    used.tv_sec as f64 + used.tv_nsec as f64 / 1e9
}

fn resident_bytes() -> Option<i64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kibibytes: i64 = line.trim().trim_end_matches("kB").trim_end().parse().ok()?;
    Some(kibibytes * 1024)
}

fn open_descriptors() -> Option<i64> {
    // The directory being read is itself one of them.
    let open = fs::read_dir("/proc/self/fd").ok()?.count();
    i64::try_from(open).ok().map(|open| open - 1)
}
