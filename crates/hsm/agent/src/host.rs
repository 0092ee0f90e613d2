//! The agent's side: a child with the module in it, which is replaced when it hangs or crashes.
//!
//! One actor asks the child, one request at a time. It has a thread of its own, because a child ends with the thread that
//! has started it.

mod actor;
mod change;
mod faults;
mod login;
mod opening;
pub(crate) mod output;
mod permit;
mod process;
mod provisioning;
mod requests;

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

pub use login::Given;
pub use output::Output;
pub use process::Program;
pub use provisioning::Provision;
pub use requests::{Changed, Listing, Survey};
use tokio::sync::{mpsc, oneshot, watch};
use tokio_util::sync::CancellationToken;
use trustplane_hsm_core::limits::Limits;
use trustplane_hsm_token::Attempt;
use trustplane_process::admin::Liveness;
use trustplane_process::backoff::Backoff;
use trustplane_process::secret::Secret;
use trustplane_process::supervise::Supervisor;

use crate::error::AgentError;
use crate::frame::Message;
use crate::health::{Health, Phase};
use crate::hold::usual_folder;
use crate::record::Book;
use crate::wire::{Reply, Request, Wanted};
use actor::Actor;
use login::Login;

/// What a [`Host`] is to do.
#[derive(Debug, Clone)]
pub struct Settings {
    /// What runs in the child.
    pub program: Program,
    /// The PKCS#11 module.
    pub module: PathBuf,
    /// The token.
    pub wanted: Wanted,
    /// What the token can take.
    pub limits: Limits,
    /// Where processes of ours meet over a token, so that one of them holds it.
    pub runtime: PathBuf,
    /// How many requests may wait.
    pub queue: usize,
    /// How long the module may take for a request, and how long a request may wait for its turn.
    pub deadline: Duration,
    /// How long the module may take to find the token, and to open it.
    pub opening: Duration,
    /// How long to wait before a token that is gone is looked for again.
    pub retry: Duration,
    /// How long a token may have done nothing that it was asked for before it is asked whether it is still there.
    pub probe: Duration,
    /// How long to wait before a child is started that has crashed or hung more than once in a row.
    pub backoff: Backoff,
    /// Where it shows that it moves.
    pub liveness: Liveness,
    /// How long it may take over one step before it counts as stuck. Every step has a deadline, so none should.
    pub stuck: Duration,
}

impl Settings {
    /// A token of a module, without limits and with the times that suit most.
    pub fn new(program: Program, module: PathBuf, wanted: Wanted) -> Self {
        Self {
            program,
            module,
            wanted,
            limits: Limits::default(),
            runtime: usual_folder(),
            queue: 64,
            deadline: Duration::from_secs(10),
            opening: Duration::from_secs(30),
            retry: Duration::from_secs(1),
            probe: Duration::from_secs(1),
            backoff: Backoff::default(),
            liveness: Liveness::default(),
            stuck: Duration::from_secs(300),
        }
    }
}

/// What the actor is told.
enum Order {
    Ask(Box<Job>),
    /// A PIN, or why there is none.
    Pin(Result<Given, String>),
}

/// A request that somebody waits for.
struct Job {
    request: Message<Request>,
    since: Instant,
    reply: oneshot::Sender<Result<Message<Reply>, AgentError>>,
}

impl Job {
    fn answer(self, answer: Result<Message<Reply>, AgentError>) {
        // Who has gone away does not want to know.
        drop(self.reply.send(answer));
    }
}

/// A token behind a module in a child process. Dropping it ends the child and waits for that.
#[derive(Debug)]
pub struct Host {
    orders: mpsc::Sender<Order>,
    health: watch::Receiver<Health>,
    stop: CancellationToken,
    thread: Option<JoinHandle<()>>,
}

impl Host {
    /// Starts a child and has it open the token with this PIN, which is tried once on this account.
    pub fn start(settings: Settings, pin: Secret<String>, attempt: Attempt) -> io::Result<Self> {
        Self::begin(settings, Some(Given::new(pin, attempt)), None, None)
    }

    /// Starts a child for a token whose tries of PINs are written down in a record. It waits for a PIN: see [`Host::give`].
    ///
    /// A blank token is made ours first, if it is said how.
    pub fn start_recorded(settings: Settings, book: Book, provision: Option<Provision>) -> io::Result<Self> {
        Self::begin(settings, None, Some(book), provision)
    }

    fn begin(
        settings: Settings,
        given: Option<Given>,
        book: Option<Book>,
        provision: Option<Provision>,
    ) -> io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let (orders, queue) = mpsc::channel(settings.queue.max(1));
        let (report, health) = watch::channel(Health::default());
        let stop = CancellationToken::new();
        let mut actor = Actor::new(settings, Login::new(given, book.is_some()), report);
        (actor.book, actor.provision) = (book, provision);
        let stopped = stop.clone();
        let thread = std::thread::Builder::new()
            .name("hsm-host".to_owned())
            .spawn(move || runtime.block_on(actor.run(queue, stopped)))?;
        Ok(Self {
            orders,
            health,
            stop,
            thread: Some(thread),
        })
    }

    /// How it is doing, now and from now on.
    pub fn health(&self) -> watch::Receiver<Health> {
        self.health.clone()
    }

    /// How many requests wait for their turn.
    pub fn waiting(&self) -> usize {
        self.orders.max_capacity() - self.orders.capacity()
    }

    /// Gives the PIN of a Secret. The one that was refused is tried again only by order, or on a new word of somebody.
    pub async fn give(&self, given: Given) -> Result<(), AgentError> {
        let sent = self.orders.send(Order::Pin(Ok(given))).await;
        sent.map_err(|_| ended())
    }

    /// Says why there is no PIN. One that has opened the token is kept for when the token comes back.
    pub async fn no_pin(&self, why: String) -> Result<(), AgentError> {
        let sent = self.orders.send(Order::Pin(Err(why))).await;
        sent.map_err(|_| ended())
    }

    /// Ends the child, and waits for that without keeping others from their work.
    pub async fn stop(&self) {
        self.stop.cancel();
        self.ended().await;
    }

    /// Waits for the end, by whomever.
    pub async fn ended(&self) {
        // If nobody can tell any more, it has ended too.
        drop(
            self.health()
                .wait_for(|health| health.phase == Phase::Ended)
                .await,
        );
    }

    /// Has the module given back when those who ask it have ended, and tells whoever it needs until then.
    pub fn attend(self: &Arc<Self>, supervisor: &Supervisor, given_back: CancellationToken) {
        let host = self.clone();
        supervisor.spawn_attendant("module", |stop| async move {
            stop.cancelled().await;
            host.stop().await;
            given_back.cancel();
        });
    }

    async fn ask(&self, request: impl Into<Message<Request>>) -> Result<Message<Reply>, AgentError> {
        let (reply, answer) = oneshot::channel();
        let job = Job {
            request: request.into(),
            since: Instant::now(),
            reply,
        };
        self.orders
            .try_send(Order::Ask(Box::new(job)))
            .map_err(|error| match error {
                mpsc::error::TrySendError::Full(_) => AgentError::Busy,
                mpsc::error::TrySendError::Closed(_) => ended(),
            })?;
        answer.await.unwrap_or_else(|_| Err(ended()))
    }
}

fn ended() -> AgentError {
    AgentError::unavailable("the token is no longer served")
}

impl Drop for Host {
    fn drop(&mut self) {
        self.stop.cancel();
        if let Some(thread) = self.thread.take() {
            // If it has panicked, it has said so.
            drop(thread.join());
        }
    }
}
