//! The pause that a target asked for by `Retry-After`: it holds back all calls to the target.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::{Instant, sleep_until};

/// The longest time for which a `Retry-After` holds calls back. A target that asks for more is called again after it, so that a
/// wrong header cannot silence a target for a day.
const LONGEST_HOLD: Duration = Duration::from_secs(120);

/// Until when no call is made.
#[derive(Debug, Default)]
pub(super) struct Hold(Mutex<Option<Instant>>);

impl Hold {
    /// Holds calls back for this long from now. A hold that ends later stays.
    pub(super) fn extend(&self, wait: Duration) {
        let end = Instant::now() + wait.min(LONGEST_HOLD);
        let mut held = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *held = Some(held.map_or(end, |known| known.max(end)));
    }

    /// Waits until the hold is over and `spread` besides, so that the calls that waited do not all leave in one instant.
    ///
    /// Fails at once with the time that is left if the wait would pass `until`.
    pub(super) async fn wait(&self, until: Instant, spread: Duration) -> Result<(), Duration> {
        while let Some(end) = self.end() {
            if end + spread >= until {
                return Err(end.saturating_duration_since(Instant::now()));
            }
            sleep_until(end + spread).await;
        }
        Ok(())
    }

    /// The end of the hold, unless it is over.
    fn end(&self) -> Option<Instant> {
        let held = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        held.filter(|end| *end > Instant::now())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[tokio::test(start_paused = true)]
    async fn a_hold_is_never_longer_than_the_longest() {
        let (hold, start) = (Hold::default(), Instant::now());
        hold.extend(3600 * SECOND);
        let late = hold.wait(start + 60 * SECOND, Duration::ZERO).await;
        assert_eq!(late, Err(LONGEST_HOLD));
        hold.wait(start + 3600 * SECOND, Duration::ZERO).await.unwrap();
        assert_eq!(start.elapsed(), LONGEST_HOLD);
    }

    #[tokio::test(start_paused = true)]
    async fn a_shorter_wish_does_not_end_a_longer_hold() {
        let (hold, start) = (Hold::default(), Instant::now());
        hold.extend(9 * SECOND);
        hold.extend(SECOND);
        hold.wait(start + 60 * SECOND, Duration::ZERO).await.unwrap();
        assert_eq!(start.elapsed(), 9 * SECOND);
    }

    #[tokio::test(start_paused = true)]
    async fn a_waiting_call_hears_of_an_extension() {
        let (hold, start) = (Hold::default(), Instant::now());
        hold.extend(2 * SECOND);
        let extend = async {
            tokio::time::sleep(SECOND).await;
            hold.extend(4 * SECOND);
        };
        let (waited, ()) = tokio::join!(hold.wait(start + 60 * SECOND, SECOND / 2), extend);
        waited.unwrap();
        assert_eq!(start.elapsed(), 5 * SECOND + SECOND / 2);
    }
}
