//! The questions to one provider.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use prometheus_client::metrics::counter::Counter;
use tokio::sync::oneshot;
use tokio::time::timeout;

use super::Answer;
use super::news::Forwarding;
use crate::outage::unavailable;
use crate::{Identity, Locator, Provider};

/// How long questions are gathered before they are asked together.
const WINDOW: Duration = Duration::from_millis(5);
/// How long an answer may take. Providers have deadlines of their own, which are shorter: this is for one that breaks its
/// word, so that its questions can be asked again.
const PATIENCE: Duration = Duration::from_secs(120);
/// The most questions of one turn.
const MOST: usize = 200;

/// The questions to one provider.
pub(super) struct Desk {
    provider: Arc<dyn Provider>,
    state: Mutex<State>,
    saved: Counter,
    /// Ends with the desk.
    _forwarding: Option<Forwarding>,
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
    pub fn open(provider: Arc<dyn Provider>, saved: Counter, forwarding: Option<Forwarding>) -> Arc<Self> {
        Arc::new(Self {
            provider,
            state: Mutex::default(),
            saved,
            _forwarding: forwarding,
        })
    }

    /// Whose rights decide about answers.
    pub fn identity(&self) -> Identity {
        self.provider.identity()
    }

    pub async fn ask(self: Arc<Self>, locator: Locator) -> Answer {
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
        let answers = timeout(PATIENCE, self.provider.fetch(&flight.wanted)).await;
        let given_up = |_| vec![Err(unavailable("no answer in time")); flight.wanted.len()];
        let mut answers = answers.unwrap_or_else(given_up).into_iter();
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
