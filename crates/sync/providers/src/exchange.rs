//! Between those who ask and those who answer: gathers questions, asks each once, and hands the answer to everybody.
//!
//! A question that comes while the same one is on its way waits for the next turn: an answer that was asked for before the
//! question came could be older than what made somebody ask.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use tokio::sync::oneshot;
use trustplane_process::metrics::Metrics;
use trustplane_sync_core::fetch::{FetchError, Fetched};
use trustplane_sync_core::request::Source;

use crate::{Locator, Provider, Registry};

/// How long questions are gathered before they are asked together.
const WINDOW: Duration = Duration::from_millis(5);
/// The most questions of one turn.
const MOST: usize = 200;

/// An answer, shared by all who asked.
pub type Answer = Result<Arc<Fetched>, FetchError>;

/// What somebody wants to know.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Question {
    provider: Option<String>,
    locator: Locator,
}

impl Question {
    /// The question that a request comes to.
    pub fn of(source: &Source) -> Self {
        Self {
            provider: source.provider.clone(),
            locator: Locator {
                path: source.path.clone(),
                version: source.version.clone(),
            },
        }
    }
}

/// Asks providers. A cheap clone.
#[derive(Clone)]
pub struct Exchange(Arc<Inner>);

struct Inner {
    registry: Registry,
    desks: Mutex<HashMap<String, Arc<Desk>>>,
    saved: Family<ProviderLabel, Counter>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ProviderLabel {
    provider: &'static str,
}

impl Exchange {
    /// Asks these providers.
    pub fn new(registry: Registry, metrics: &Metrics) -> Self {
        let saved = metrics.shared(|registry| {
            let saved = Family::<ProviderLabel, Counter>::default();
            let help = "questions that were answered by the answer to another one";
            registry.register("sync_calls_saved", help, saved.clone());
            Saved(saved)
        });
        Self(Arc::new(Inner {
            registry,
            desks: Mutex::default(),
            saved: saved.0,
        }))
    }

    /// The names that an annotation may use, in order.
    pub fn names(&self) -> Vec<&'static str> {
        self.0.registry.names()
    }

    /// Asks a question and waits for the answer.
    pub async fn ask(&self, question: &Question) -> Answer {
        let Some(desk) = self.desk(question) else {
            return Err(FetchError::NoStore);
        };
        desk.ask(question.locator.clone()).await
    }

    /// The desk of the provider.
    fn desk(&self, question: &Question) -> Option<Arc<Desk>> {
        let name = question.provider.as_deref()?;
        let mut desks = self.0.desks.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(desk) = desks.get(name) {
            return Some(desk.clone());
        }
        let provider = self.0.registry.get(name)?;
        let saved = self.0.saved.get_or_create_owned(&ProviderLabel {
            provider: provider.name(),
        });
        let desk = Arc::new(Desk {
            provider,
            state: Mutex::default(),
            saved,
        });
        desks.insert(name.to_owned(), desk.clone());
        Some(desk)
    }
}

#[derive(Clone)]
struct Saved(Family<ProviderLabel, Counter>);

/// The questions to one provider.
struct Desk {
    provider: Arc<dyn Provider>,
    state: Mutex<State>,
    saved: Counter,
}

#[derive(Default)]
struct State {
    /// Questions for the next turn, and who waits for each.
    waiting: BTreeMap<Locator, Vec<oneshot::Sender<Answer>>>,
    /// Questions that are on their way.
    asked: BTreeSet<Locator>,
    /// Whether somebody is about to take the next turn.
    called: bool,
}

impl Desk {
    async fn ask(self: Arc<Self>, locator: Locator) -> Answer {
        let (sender, receiver) = oneshot::channel();
        {
            let mut state = self.lock();
            let waiters = state.waiting.entry(locator).or_default();
            if !waiters.is_empty() {
                self.saved.inc();
            }
            waiters.push(sender);
        }
        self.call();
        receiver
            .await
            .unwrap_or_else(|_| Err(unavailable("the question was dropped")))
    }

    /// Sees to it that somebody takes the next turn, if there is anything to ask. The turn is a task of its own: who asked
    /// first may give up while others wait.
    fn call(self: &Arc<Self>) {
        let mut state = self.lock();
        let is_free = state.waiting.keys().any(|locator| !state.asked.contains(locator));
        if is_free && !std::mem::replace(&mut state.called, true) {
            tokio::spawn(self.clone().turn());
        }
    }

    /// One turn: waits for more questions, asks what is not on its way already, and hands the answers out.
    async fn turn(self: Arc<Self>) {
        tokio::time::sleep(WINDOW).await;
        let (flight, waiters) = self.take();
        self.call();
        let mut answers = self.provider.fetch(&flight.wanted).await.into_iter();
        for senders in waiters {
            let answer = answers
                .next()
                .unwrap_or_else(|| Err(unavailable("the provider left a question unanswered")))
                .map(Arc::new);
            for sender in senders {
                // Who has given up in the meantime needs no answer.
                let _ = sender.send(answer.clone());
            }
        }
    }

    fn take(self: &Arc<Self>) -> (Flight, Vec<Vec<oneshot::Sender<Answer>>>) {
        let mut state = self.lock();
        state.called = false;
        let free = state
            .waiting
            .keys()
            .filter(|locator| !state.asked.contains(*locator));
        let wanted: Vec<Locator> = free.take(MOST).cloned().collect();
        let waiters = wanted
            .iter()
            .map(|locator| state.waiting.remove(locator).unwrap_or_default());
        let waiters = waiters.collect();
        state.asked.extend(wanted.iter().cloned());
        let desk = self.clone();
        (Flight { desk, wanted }, waiters)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Questions on their way. However that ends, they may be asked again afterwards.
struct Flight {
    desk: Arc<Desk>,
    wanted: Vec<Locator>,
}

impl Drop for Flight {
    fn drop(&mut self) {
        let mut state = self.desk.lock();
        for locator in &self.wanted {
            state.asked.remove(locator);
        }
        drop(state);
        self.desk.call();
    }
}

fn unavailable(what: &str) -> FetchError {
    FetchError::Unavailable {
        what: what.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use futures::future::{BoxFuture, join_all};

    use super::*;
    use crate::mock::Mock;

    fn question(path: &str) -> Question {
        let source = Source {
            provider: Some("mock".to_owned()),
            store: None,
            path: path.to_owned(),
            version: None,
        };
        Question::of(&source)
    }

    fn exchange(mock: &Mock) -> Exchange {
        Exchange::new(Registry::default().with(mock.clone()), &Metrics::new())
    }

    #[tokio::test(start_paused = true)]
    async fn a_thousand_questions_about_fifty_secrets_are_one_call() {
        let mock = Mock::default();
        (0..50).for_each(|n| mock.set(&format!("p{n}"), "x"));
        let exchange = exchange(&mock);
        let questions: Vec<_> = (0..1000).map(|n| question(&format!("p{}", n % 50))).collect();
        let answers = join_all(questions.iter().map(|question| exchange.ask(question))).await;
        assert!(answers.iter().all(Result::is_ok));
        assert_eq!(mock.calls().iter().map(Vec::len).collect::<Vec<_>>(), [50]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_long_list_is_asked_in_parts() {
        let mock = Mock::default();
        mock.delay(Duration::from_secs(1));
        let exchange = exchange(&mock);
        let questions: Vec<_> = (0..450).map(|n| question(&format!("p{n}"))).collect();
        let answers = join_all(questions.iter().map(|question| exchange.ask(question))).await;
        assert!(
            answers
                .iter()
                .all(|answer| answer.as_ref().err() == Some(&FetchError::NotFound))
        );
        assert_eq!(
            mock.calls().iter().map(Vec::len).collect::<Vec<_>>(),
            [200, 200, 50]
        );
    }

    #[tokio::test(start_paused = true)]
    async fn a_question_on_its_way_is_not_sent_twice_and_never_answered_with_the_past() {
        let mock = Mock::default();
        mock.set("p", "old");
        mock.delay(Duration::from_secs(1));
        let exchange = exchange(&mock);
        let first = tokio::spawn({
            let exchange = exchange.clone();
            async move { exchange.ask(&question("p")).await }
        });
        tokio::time::sleep(Duration::from_millis(100)).await;
        assert_eq!(mock.asked_for("p"), 1, "it is on its way");
        let late = question("p");
        let (one, other) = tokio::join!(exchange.ask(&late), exchange.ask(&late));
        assert_eq!(
            mock.asked_for("p"),
            2,
            "asked once more, after the first has come back, for both"
        );
        assert!(one.is_ok() && other.is_ok() && first.await.is_ok_and(|answer| answer.is_ok()));
    }

    #[tokio::test(start_paused = true)]
    async fn who_gives_up_takes_nobody_along() {
        let mock = Mock::default();
        mock.set("p", "x");
        mock.delay(Duration::from_secs(1));
        let exchange = exchange(&mock);
        let asked = question("p");
        let impatient = tokio::time::timeout(Duration::from_millis(1), exchange.ask(&asked));
        let (impatient, patient) = tokio::join!(impatient, exchange.ask(&asked));
        assert!(impatient.is_err() && patient.is_ok());
    }

    #[tokio::test]
    async fn a_name_that_nobody_has_is_no_store() {
        let exchange = Exchange::new(Registry::default(), &Metrics::new());
        assert_eq!(
            exchange.ask(&question("p")).await.err(),
            Some(FetchError::NoStore)
        );
    }

    /// Falls over at its first call.
    struct Clumsy(AtomicU32);

    impl Provider for Clumsy {
        fn name(&self) -> &'static str {
            "mock"
        }

        fn fetch<'a>(&'a self, wanted: &'a [Locator]) -> BoxFuture<'a, Vec<Result<Fetched, FetchError>>> {
            Box::pin(async move {
                assert!(self.0.fetch_add(1, Ordering::SeqCst) > 0, "fell over");
                wanted.iter().map(|_| Err(FetchError::NotFound)).collect()
            })
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_provider_that_falls_over_can_be_asked_again() {
        let exchange = Exchange::new(
            Registry::default().with(Clumsy(AtomicU32::new(0))),
            &Metrics::new(),
        );
        assert_eq!(
            exchange.ask(&question("p")).await.err(),
            Some(unavailable("the question was dropped"))
        );
        assert_eq!(
            exchange.ask(&question("p")).await.err(),
            Some(FetchError::NotFound)
        );
    }
}
