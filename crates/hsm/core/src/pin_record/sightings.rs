//! How long a process has watched the open tries of others, on its own clock.

use std::time::Duration;

use trustplane_api::hsm::record::Try;

/// What one process has seen of a record, and for how long.
#[derive(Debug, Clone, Default)]
pub struct Sightings(Vec<(Try, Duration, Duration)>);

impl Sightings {
    /// Looks at a record at this time of a clock that never goes back.
    pub fn look(&mut self, tries: &[Try], clock: Duration) {
        let open = tries.iter().filter(|tried| tried.outcome.is_open());
        let seen = open.map(|tried| {
            let first = self.0.iter().find(|(known, ..)| known == tried);
            (tried.clone(), first.map_or(clock, |(_, first, _)| *first), clock)
        });
        self.0 = seen.collect();
    }

    /// How long a try was seen as it is.
    pub fn watched(&self, tried: &Try) -> Duration {
        let seen = self.0.iter().find(|(known, ..)| known == tried);
        seen.map_or(Duration::ZERO, |(_, first, last)| last.saturating_sub(*first))
    }
}
