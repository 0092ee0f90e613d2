//! What is on the token: as the last pass has found it, and as our own changes since then have left it.
//!
//! A pass enumerates and digests the token once for all secrets together, so that what other tools write shows within an
//! interval. Lists are answered from here; for a list the token is asked whether it is there, and nothing else. If a client wants
//! a newer list than is known, a pass is made before the answer, and the next pass is due an interval later.

mod pass;
mod view;

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Mutex as Turn, Notify};
use tokio::time::Instant;
use trustplane_hsm_core::generation::Generation;
use trustplane_hsm_core::path::SecretPath;
use trustplane_hsm_token::Capacity;

pub use pass::{Passes, Renewal};
use view::View;
pub use view::{Page, Query};

use crate::error::AgentError;
use crate::host::{Host, Survey};
use crate::wire::{Entry, Left};

/// A change of ours.
#[derive(Debug, Clone)]
pub(crate) enum Change {
    /// A secret, or what is left of it, is there.
    Put(SecretPath, Box<Entry>),
    /// Nothing is left.
    Remove(SecretPath),
}

/// What is known of the token's secrets.
#[derive(Debug)]
pub struct Catalogue {
    passes: Passes,
    known: Mutex<Known>,
    /// One pass at a time.
    turn: Turn<()>,
    /// Somebody needs a pass now.
    wanted: Notify,
}

#[derive(Debug, Default)]
struct Known {
    view: Option<View>,
    /// Our changes since the pass began that is under way, each with what it has left.
    since: Option<Vec<(Left, Change)>>,
}

impl Catalogue {
    /// A catalogue before the first pass.
    pub fn new(passes: Passes) -> Self {
        Self {
            passes,
            known: Mutex::default(),
            turn: Turn::default(),
            wanted: Notify::new(),
        }
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Answers a query from a list that is at most `max_age` old. A query before the first pass makes that pass.
    pub(crate) async fn list(
        &self,
        host: &Host,
        query: &Query,
        max_age: Option<Duration>,
    ) -> Result<Page, AgentError> {
        let since = max_age.map(|age| Instant::now().checked_sub(age));
        // An age that reaches behind the start of the clock demands nothing.
        if let Some(Some(since)) = since {
            self.pass(host, since).await?;
        }
        if let Some(view) = &mut self.known().view {
            return Ok(view.page(query));
        }
        self.survey(host, false).await?;
        match &mut self.known().view {
            Some(view) => Ok(view.page(query)),
            None => Err(AgentError::unavailable("the token was lost meanwhile")),
        }
    }

    /// How much the token holds, and its generation.
    pub(crate) async fn figures(&self, host: &Host) -> Result<(Capacity, Generation), AgentError> {
        let known = self.figures_known();
        match known {
            Some(figures) => Ok(figures),
            None => {
                self.survey(host, false).await?;
                let lost = || AgentError::unavailable("the token was lost meanwhile");
                self.figures_known().ok_or_else(lost)
            }
        }
    }

    /// The same, if it is known.
    pub(crate) fn figures_known(&self) -> Option<(Capacity, Generation)> {
        let known = self.known();
        known.view.as_ref().map(|view| (view.capacity, view.generation))
    }

    /// A change of ours was made, and has left this.
    pub(crate) fn changed(&self, left: Left, change: Change) {
        let mut known = self.known();
        if let Some(since) = &mut known.since {
            since.push((left, change.clone()));
        }
        if let Some(view) = &mut known.view {
            view.apply(left, change);
        }
    }

    /// A change of ours may have been made, and nobody knows: everything is to be looked at again.
    pub(crate) fn doubt(&self) {
        self.forget();
        self.wanted.notify_one();
    }

    /// Nothing is known any more.
    fn forget(&self) {
        *self.known() = Known::default();
    }

    /// Looks at the token, and keeps what it finds.
    async fn survey(&self, host: &Host, anew: bool) -> Result<(), AgentError> {
        let _turn = self.turn.lock().await;
        // Without a new read the survey shows what was read when the token was opened.
        let opened = host.health().borrow().opened.filter(|_| !anew);
        let as_of = opened.unwrap_or_else(Instant::now);
        self.survey_in_turn(host, anew, as_of).await
    }

    /// Makes a survey for a caller that has the turn and that began to read the token at `as_of`.
    async fn survey_in_turn(&self, host: &Host, anew: bool, as_of: Instant) -> Result<(), AgentError> {
        let begun = self.begin();
        begun.finish(host.survey(anew).await?, as_of);
        Ok(())
    }

    /// The time at which the token held what the list says; `None` without a list.
    fn as_of(&self) -> Option<Instant> {
        self.known().view.as_ref().map(View::as_of)
    }

    /// Marks the list as true at `at`, if it is of this generation of the token. Answers whether it is.
    fn confirm(&self, generation: Generation, at: Instant) -> bool {
        let mut known = self.known();
        let same = known.view.as_mut().filter(|view| view.generation == generation);
        same.map(|view| view.confirm(at)).is_some()
    }

    /// From now on our changes are remembered: the survey may or may not see them.
    fn begin(&self) -> Begun<'_> {
        self.known().since = Some(Vec::new());
        Begun(self)
    }
}

/// A survey that is under way. However it ends, nothing is remembered for it after that.
struct Begun<'a>(&'a Catalogue);

impl Drop for Begun<'_> {
    fn drop(&mut self) {
        self.0.known().since = None;
    }
}

impl Begun<'_> {
    /// Keeps what the survey has found, with our changes that it has not seen.
    fn finish(self, survey: Survey, as_of: Instant) {
        let mut known = self.0.known();
        // If all was forgotten meanwhile, something has happened that the survey may not know of.
        let Some(since) = known.since.take() else {
            return;
        };
        let mut view = View::of(survey, as_of);
        for (left, change) in since {
            if left.generation > view.generation {
                view.apply(left, change);
            }
        }
        known.view = Some(view);
    }
}

#[cfg(test)]
mod tests {
    use trustplane_hsm_core::layout::Usage;
    use trustplane_hsm_core::limits::Limits;
    use trustplane_hsm_core::metadata::Metadata;
    use trustplane_hsm_token::Memory;

    use super::*;

    fn catalogue() -> Catalogue {
        Catalogue::new(Passes {
            every: Duration::from_secs(30),
            renewal: Renewal::Never,
            exclusive: false,
        })
    }

    fn path(text: &str) -> SecretPath {
        SecretPath::parse(text).unwrap()
    }

    fn entry() -> Entry {
        Entry {
            metadata: Metadata::default(),
            checksum: String::new(),
            digest: String::new(),
            keys: 1,
        }
    }

    fn generation(counter: u64) -> Generation {
        Generation { counter, epoch: 0 }
    }

    /// A token that holds ten times as many objects as it was changed.
    fn left(counter: u64) -> Left {
        let usage = Usage {
            objects: usize::try_from(counter).unwrap() * 10,
            ..Usage::default()
        };
        Left {
            generation: generation(counter),
            capacity: Capacity {
                usage,
                room: Limits::default().room(&usage),
                memory: Memory::default(),
            },
        }
    }

    fn survey(counter: u64, paths: &[&str]) -> Survey {
        let mut capacity = left(counter).capacity;
        capacity.memory.private_free = Some(7);
        Survey {
            listing: paths.iter().map(|text| (path(text), Ok(entry()))).collect(),
            capacity,
            generation: generation(counter),
        }
    }

    fn put(catalogue: &Catalogue, counter: u64, text: &str) {
        catalogue.changed(left(counter), Change::Put(path(text), Box::new(entry())));
    }

    fn used(catalogue: &Catalogue) -> usize {
        let (capacity, _) = catalogue.figures_known().unwrap();
        assert_eq!(
            capacity.memory.private_free,
            Some(7),
            "a change does not tell of it"
        );
        capacity.usage.objects
    }

    fn listed(catalogue: &Catalogue) -> Option<Vec<String>> {
        let page = catalogue.known().view.as_mut()?.page(&Query::default());
        let entries = page.entries.unwrap();
        Some(entries.into_iter().map(|(path, _)| path.to_string()).collect())
    }

    #[test]
    fn a_change_during_a_survey_is_kept_if_the_survey_has_not_seen_it() {
        let catalogue = catalogue();
        let begun = catalogue.begin();
        put(&catalogue, 5, "gone");
        put(&catalogue, 6, "kept");
        // It has seen the first, and that another tool has removed what it had made.
        begun.finish(survey(5, &["a"]), Instant::now());
        assert_eq!(listed(&catalogue).unwrap(), ["a", "kept"]);
        assert_eq!(catalogue.figures_known().unwrap().1, generation(6));
        put(&catalogue, 7, "later");
        catalogue.changed(left(8), Change::Remove(path("a")));
        assert_eq!(listed(&catalogue).unwrap(), ["kept", "later"]);
    }

    #[test]
    fn what_is_used_is_what_the_last_change_has_left_whichever_is_told_last() {
        let catalogue = catalogue();
        let begun = catalogue.begin();
        put(&catalogue, 2, "during");
        begun.finish(survey(1, &[]), Instant::now());
        assert_eq!(used(&catalogue), 20);
        put(&catalogue, 4, "a");
        put(&catalogue, 3, "b");
        assert_eq!(used(&catalogue), 40);
        catalogue.changed(left(5), Change::Remove(path("a")));
        assert_eq!(used(&catalogue), 50);
    }

    #[test]
    fn a_survey_from_before_a_doubt_counts_for_nothing() {
        let catalogue = catalogue();
        catalogue.begin().finish(survey(1, &["a"]), Instant::now());
        let begun = catalogue.begin();
        catalogue.doubt();
        begun.finish(survey(1, &["a"]), Instant::now());
        assert_eq!(listed(&catalogue), None);
    }

    #[test]
    fn nothing_is_remembered_for_a_survey_that_failed_or_that_nobody_waits_for() {
        let catalogue = catalogue();
        catalogue.begin().finish(survey(1, &["a"]), Instant::now());
        let begun = catalogue.begin();
        put(&catalogue, 2, "b");
        assert_eq!(catalogue.known().since.as_ref().map(Vec::len), Some(1));
        drop(begun);
        put(&catalogue, 3, "c");
        assert!(catalogue.known().since.is_none());
        assert_eq!(listed(&catalogue).unwrap(), ["a", "b", "c"]);
    }
}
