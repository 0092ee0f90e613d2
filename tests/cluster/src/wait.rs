//! Waiting for a condition: with a deadline, and open to interruption.

use std::time::{Duration, Instant};

use anyhow::{Result, bail};

use crate::interrupt;

const PAUSE: Duration = Duration::from_millis(50);

/// Asks `condition` again and again until it gives a value, fails, or `limit` has passed.
///
/// ```
/// use std::time::Duration;
/// let mut tries = 0;
/// let found = trustplane_cluster::wait::until("three", Duration::from_secs(5), || {
///     tries += 1;
///     Ok((tries == 3).then_some(tries))
/// });
/// assert_eq!(found.unwrap(), 3);
/// ```
pub fn until<T>(what: &str, limit: Duration, mut condition: impl FnMut() -> Result<Option<T>>) -> Result<T> {
    let mut found = None;
    let came = patiently(limit, || {
        interrupt::check()?;
        found = condition()?;
        Ok(found.is_some())
    })?;
    match found {
        Some(value) if came => Ok(value),
        _ => bail!("waited {limit:?} in vain for {what}"),
    }
}

/// The same without an ear for interruptions, for those who clean up after one. False when the time is over.
pub(crate) fn patiently(limit: Duration, mut condition: impl FnMut() -> Result<bool>) -> Result<bool> {
    let started = Instant::now();
    while !condition()? {
        if started.elapsed() >= limit {
            return Ok(false);
        }
        std::thread::sleep(PAUSE);
    }
    Ok(true)
}
