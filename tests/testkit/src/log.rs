//! What the process of a test logs, down to the last detail.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context, Result};
use tracing::level_filters::LevelFilter;

/// Everything that is logged in this process, by anybody and at any level: no filter keeps a leak from being found.
#[derive(Clone, Default)]
pub struct Log(Arc<Mutex<Vec<u8>>>);

impl Log {
    /// Begins to collect. A process has one log, so a test that calls this runs in a process of its own, as `cargo nextest` has
    /// it.
    pub fn collect() -> Result<Self> {
        let log = Self::default();
        let writer = log.clone();
        let subscriber = tracing_subscriber::fmt()
            .with_max_level(LevelFilter::TRACE)
            .with_ansi(false)
            .with_writer(move || writer.clone())
            .finish();
        tracing::subscriber::set_global_default(subscriber).context("collect the log of this process")?;
        Ok(log)
    }

    /// What was logged so far.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.0.lock().unwrap_or_else(PoisonError::into_inner)).into_owned()
    }
}

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut log = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        log.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
