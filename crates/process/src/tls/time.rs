//! Our clock for rustls.

use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::UnixTime;
use rustls::time_provider::TimeProvider;

use crate::clock::Clock;

#[derive(Debug)]
pub(super) struct ClockTime(pub(super) Arc<dyn Clock>);

impl TimeProvider for ClockTime {
    fn current_time(&self) -> Option<UnixTime> {
        let since_epoch = Duration::try_from(self.0.now().as_duration()).ok()?;
        Some(UnixTime::since_unix_epoch(since_epoch))
    }
}
