//! The actor: has a child, opens the token, serves, and begins anew when something is lost.

use std::time::Duration;

use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep, sleep_until};
use tokio_util::sync::CancellationToken;
use trustplane_hsm_token::TokenInfo;
use trustplane_process::admin::Heartbeat;

use super::faults::End;
use super::login::{Given, Login};
use super::process::Process;
use super::provisioning::Provision;
use super::{Job, Order, Settings};
use crate::error::{AgentError, Effect};
use crate::frame::Message;
use crate::health::{Health, Phase};
use crate::record::Book;
use crate::wire::{Kind, Reply, Request};

/// How long a child may take to end when it is told to, and when it is killed.
pub(super) const GRACE: Duration = Duration::from_secs(1);

/// How often an actor shows that it is only waiting.
const BEAT: Duration = Duration::from_secs(5);

/// When to try again: never, if nothing but an order can help.
pub(super) type Pause = Option<Duration>;

/// Whether a PIN was sent to the token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sent {
    No,
    /// It was, or may have been, and nothing says that it is right.
    Yes,
    /// It was, and the token has accepted it.
    Accepted,
}

pub(super) struct Actor {
    pub settings: Settings,
    pub login: Login,
    pub health: watch::Sender<Health>,
    /// The token that has accepted the PIN. No other is served.
    pub token: Option<TokenInfo>,
    /// Where tries of PINs are written down.
    pub book: Option<Book>,
    /// How often in a row the record could not be used.
    pub denials: u32,
    /// How a blank token is made ours, if it may be.
    pub provision: Option<Provision>,
    /// A PIN that no blank token takes.
    pub useless: Option<Given>,
    /// Why there is no PIN.
    pub missing: Option<String>,
    pub process: Option<Process>,
    /// How often in a row a child has crashed or hung.
    pub failures: u32,
    /// How often in a row one has hung.
    pub hangs: u32,
    /// How often in a row a token that was served could not be opened though something was there.
    pub misses: u32,
    /// What became of the PIN since the token was last looked for.
    pub sent: Sent,
    /// When a token that is served is asked next whether it is there.
    pub look: Instant,
    /// Shows that the actor moves.
    pub heartbeat: Heartbeat,
    /// What whoever asks is told while the token does not serve.
    pub excuse: AgentError,
}

impl Actor {
    pub fn new(settings: Settings, login: Login, health: watch::Sender<Health>) -> Self {
        Self {
            heartbeat: settings.liveness.heartbeat("token", settings.stuck),
            settings,
            login,
            health,
            token: None,
            book: None,
            denials: 0,
            provision: None,
            useless: None,
            missing: None,
            process: None,
            failures: 0,
            hangs: 0,
            misses: 0,
            sent: Sent::No,
            look: Instant::now(),
            excuse: AgentError::unavailable("the token is not open yet"),
        }
    }

    /// Works until it is stopped, and ends the child.
    pub async fn run(mut self, mut orders: mpsc::Receiver<Order>, stop: CancellationToken) {
        tokio::select! {
            biased;
            () = stop.cancelled() => {}
            () = self.work(&mut orders) => {}
        }
        drop(orders);
        if let Some(process) = self.process.take() {
            process.end(GRACE).await;
        }
        if let Some(book) = &mut self.book {
            // What is not written by then is found open, and judged by the token's flags.
            book.written(GRACE).await;
        }
        self.health.send_modify(|health| {
            health.phase = Phase::Ended;
            health.process = None;
        });
    }

    /// Opens and serves by turns, until nobody is left who could ask.
    async fn work(&mut self, orders: &mut mpsc::Receiver<Order>) {
        loop {
            self.heartbeat.beat();
            let pause = match self.open_beside(orders).await {
                Ok(()) => self.serve(orders).await,
                Err(pause) => {
                    self.let_go().await;
                    Some(pause)
                }
            };
            match pause {
                Some(pause) => {
                    if !self.idle(orders, pause).await {
                        return;
                    }
                }
                None => return,
            }
        }
    }

    /// Opens the token. Whoever asks meanwhile is told at once that it is not open.
    async fn open_beside(&mut self, orders: &mut mpsc::Receiver<Order>) -> Result<(), Pause> {
        let excuse = self.excuse.clone();
        let mut given = Vec::new();
        let opened = {
            let open = self.open();
            tokio::pin!(open);
            loop {
                tokio::select! {
                    biased;
                    opened = &mut open => break opened,
                    Some(order) = orders.recv() => match order {
                        Order::Ask(job) => job.answer(Err(excuse.clone())),
                        Order::Pin(pin) => given.push(pin),
                    },
                }
            }
        };
        let pause = (!given.is_empty()).then_some(Some(Duration::ZERO));
        for pin in given {
            self.take(pin);
        }
        opened.map_err(|later| pause.unwrap_or(later))
    }

    /// Waits, and tells whoever asks that the token is not open. Says no if nobody is left who could ask.
    async fn idle(&mut self, orders: &mut mpsc::Receiver<Order>, pause: Pause) -> bool {
        let until = pause.map(|pause| Instant::now() + pause);
        loop {
            self.heartbeat.beat();
            tokio::select! {
                biased;
                () = at(until) => return true,
                () = sleep(BEAT) => {}
                () = ended(&mut self.process), if self.process.is_some() => {
                    self.process = None;
                    self.health.send_modify(|health| {
                        health.crashes += 1;
                        health.process = None;
                    });
                }
                order = orders.recv() => match order {
                    Some(Order::Ask(job)) => job.answer(Err(self.excuse.clone())),
                    Some(Order::Pin(pin)) => {
                        self.take(pin);
                        return true;
                    }
                    None => return false,
                },
            }
        }
    }

    /// Serves requests until something is lost; says when to open again, or nothing if nobody is left who could ask.
    async fn serve(&mut self, orders: &mut mpsc::Receiver<Order>) -> Option<Pause> {
        loop {
            self.heartbeat.beat();
            let order = tokio::select! {
                biased;
                () = ended(&mut self.process) => {
                    self.bury(&End::Crash(String::new())).await;
                    return Some(self.pause_to_start());
                }
                // Before what else is wanted: those who keep asking must not keep it from being missed.
                () = sleep_until(self.look) => None,
                order = orders.recv() => Some(order?),
            };
            let kept = match order {
                Some(Order::Ask(job)) => self.handle(job).await,
                // The token is open: it counts from the next login on.
                Some(Order::Pin(pin)) => {
                    self.take(pin);
                    Ok(())
                }
                None => self.request(&Request::Info.into()).await.1,
            };
            if let Err(pause) = kept {
                return Some(pause);
            }
        }
    }

    async fn handle(&mut self, job: Box<Job>) -> Result<(), Pause> {
        if job.reply.is_closed() {
            return Ok(());
        }
        let within = self.settings.deadline;
        if job.since.elapsed() >= within {
            let effect = Effect::None;
            job.answer(Err(AgentError::Deadline { within, effect }));
            return Ok(());
        }
        let (answer, kept) = match job.request.head {
            Request::ChangePin { attempt } => self.change_pin(&job.request, attempt).await,
            _ => self.request(&job.request).await,
        };
        job.answer(answer);
        kept
    }

    /// Has the child serve a request, and says whether it can serve another.
    pub(super) async fn request(
        &mut self,
        request: &Message<Request>,
    ) -> (Result<Message<Reply>, AgentError>, Result<(), Pause>) {
        let answer = self.ask(request, self.settings.deadline).await;
        if answer.is_ok() {
            (self.failures, self.hangs) = (0, 0);
        }
        match answer {
            Ok(Message {
                head: Reply::Failed(failure),
                ..
            }) => {
                // What does not even say that it is there is not.
                let kept = match failure.lost || matches!(request.head, Request::Info) {
                    true => Err(self.lose(&failure)),
                    false => Ok(()),
                };
                if failure.kind == Kind::Unavailable {
                    // Not every module has a word for a token that is gone: it is asked at once.
                    self.look = Instant::now();
                }
                let effect = match failure.begun {
                    true => request.head.effect(),
                    false => Effect::None,
                };
                (Err(failure.error(effect)), kept)
            }
            Ok(answer) => {
                self.look = Instant::now() + self.settings.probe;
                (Ok(answer), Ok(()))
            }
            Err(error) => match self.process {
                Some(_) => (Err(error), Ok(())),
                None => (Err(error), Err(self.pause_to_start())),
            },
        }
    }

    /// Takes a PIN, or that there is none.
    fn take(&mut self, pin: Result<Given, String>) {
        match pin {
            Ok(given) => {
                self.missing = None;
                self.login.give(given);
            }
            Err(why) => {
                self.missing = Some(why);
                self.login.take_away();
            }
        }
    }
}

/// Waits until there is no child that runs.
async fn ended(process: &mut Option<Process>) {
    if let Some(process) = process {
        drop(process.ended().await);
    }
}

/// Waits until then, or for ever.
async fn at(until: Option<Instant>) {
    match until {
        Some(until) => sleep_until(until).await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;

    use trustplane_process::admin::Liveness;

    use super::*;
    use crate::host::Program;
    use crate::wire::Wanted;

    const HOUR: Duration = Duration::from_secs(3600);

    #[tokio::test(start_paused = true)]
    async fn an_actor_that_only_waits_is_alive_and_one_that_does_not_move_is_not() {
        let liveness = Liveness::default();
        let alive = || liveness.report().iter().all(|(_, verdict)| verdict.is_ok());
        let settings = Settings {
            liveness: liveness.clone(),
            ..Settings::new(Program::default(), "/nowhere".into(), Wanted::default())
        };
        let (health, _seen) = watch::channel(Health::default());
        let (_orders, queue) = mpsc::channel(1);
        // Without a PIN it waits for one.
        let actor = Actor::new(settings, Login::new(None, false), health);
        let mut actor = pin!(actor.run(queue, CancellationToken::new()));
        for _ in 0..3 {
            tokio::select! {
                () = &mut actor => panic!("it has ended"),
                () = sleep(HOUR) => {}
            }
            assert!(alive());
        }
        // Nothing moves it.
        sleep(HOUR).await;
        assert!(!alive());
        assert!(futures::poll!(&mut actor).is_pending());
        assert!(alive());
    }
}
