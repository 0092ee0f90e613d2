//! Crashes at every write: the end state is the same, wherever a controller dies.
//!
//! A scenario runs once undisturbed, to count the writes that the controller sends and to see the end state. Then it runs
//! once for every n, with the controller killed at its n-th write: after it took effect but before the answer arrived, or
//! before it was sent. A fresh copy starts, the scenario goes on to its end, and the state must be that of the first run.
//!
//! Not counted are renewals of a lease, which come by the clock, and events to users, which are sent aside and are no part
//! of the state.
//!
//! ```no_run
//! # use trustplane_testkit::{Rules, Program};
//! # use k8s_openapi::api::core::v1::ConfigMap;
//! # async fn example(program: Program, rules: Rules) -> anyhow::Result<()> {
//! use trustplane_testkit::crash::{Picture, Scenario};
//! use trustplane_testkit::proxy::Moment;
//!
//! let scenario = Scenario::new("mirror", rules, Picture::default().kind::<ConfigMap>())
//!     .phase(|sandbox| Box::pin(async move {
//!         // create a source with `sandbox.client()`, then wait for its copy
//!         Ok(())
//!     }));
//! let report = scenario.crash_at_every_write(&program, Moment::After).await?;
//! println!("{} crashes", report.crashes);
//! # Ok(())
//! # }
//! ```

mod state;
mod subject;

use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use futures::future::BoxFuture;
use futures::{StreamExt, TryStreamExt};
use serde_json::Value;

pub use state::Picture;
pub use subject::{InProcess, Subject, Thread};

use crate::proxy::{Fault, Match, Moment, Proxy, Rule, Script};
use crate::{Account, ControlPlane, DEADLINE, Rules, Sandbox};

/// How many runs go on at once: they mostly wait.
const AT_ONCE: usize = 4;

type Phase = Box<dyn for<'a> Fn(&'a Sandbox) -> BoxFuture<'a, Result<()>> + Send + Sync>;

/// A story with a controller in it.
pub struct Scenario {
    name: &'static str,
    rules: Rules,
    picture: Picture,
    phases: Vec<Phase>,
}

/// What came of a series of crashes.
#[derive(Debug, Clone)]
pub struct Report {
    /// How often the controller was killed.
    pub crashes: usize,
    /// The end state, the same every time.
    pub end: Value,
}

impl Scenario {
    /// A story without phases, played by a controller with these rights, whose end is what the picture shows.
    pub fn new(name: &'static str, rules: Rules, picture: Picture) -> Self {
        Self {
            name,
            rules,
            picture,
            phases: Vec::new(),
        }
    }

    /// Adds a phase: the test does something and waits, by watch, until the controller has done its part.
    #[must_use]
    pub fn phase(
        mut self,
        phase: impl for<'a> Fn(&'a Sandbox) -> BoxFuture<'a, Result<()>> + Send + Sync + 'static,
    ) -> Self {
        self.phases.push(Box::new(phase));
        self
    }

    /// Plays the story with a crash at every write, one after the other.
    pub async fn crash_at_every_write<S: Subject>(&self, subject: &S, moment: Moment) -> Result<Report> {
        let plane = ControlPlane::shared().await?;
        let undisturbed = Stage::new(self, &plane).await?;
        let writes = undisturbed
            .play(self, subject)
            .await
            .context("the undisturbed run")?;
        let end = self.picture.of(&undisturbed.sandbox).await?;
        ensure!(
            writes > 0,
            "the controller sent no write: there is nothing to crash at"
        );
        let (plane, end) = (&plane, &end);
        let runs = futures::stream::iter(1..=writes).map(|n| async move {
            let run = self.run_with_crash(subject, moment, n, plane, end).await;
            run.with_context(|| format!("the run with a crash at write {n} of {writes}"))
        });
        let crashed: Vec<bool> = runs.buffer_unordered(AT_ONCE).try_collect().await?;
        Ok(Report {
            crashes: crashed.into_iter().filter(|crashed| *crashed).count(),
            end: end.clone(),
        })
    }

    async fn run_with_crash<S: Subject>(
        &self,
        subject: &S,
        moment: Moment,
        n: usize,
        plane: &Arc<ControlPlane>,
        end: &Value,
    ) -> Result<bool> {
        let stage = Stage::new(self, plane).await?;
        let fatal = stage.crash(self, subject, moment, n).await?;
        let state = self.picture.of(&stage.sandbox).await?;
        ensure!(
            state == *end,
            "a crash at {} changes the end state.\nundisturbed: {end:#}\nafter it: {state:#}",
            fatal.as_deref().unwrap_or("no write"),
        );
        Ok(fatal.is_some())
    }
}

/// One run: a namespace, an account and a proxy of its own.
struct Stage {
    sandbox: Sandbox,
    proxy: Proxy,
    account: Account,
}

impl Stage {
    async fn new(scenario: &Scenario, plane: &Arc<ControlPlane>) -> Result<Self> {
        let sandbox = Sandbox::on(plane.clone(), scenario.name).await?;
        Ok(Self {
            proxy: Proxy::start(plane).await?,
            account: sandbox.apply_rbac("subject", &scenario.rules).await?,
            sandbox,
        })
    }

    /// Plays the story undisturbed; gives how many writes the controller sent.
    async fn play<S: Subject>(&self, scenario: &Scenario, subject: &S) -> Result<usize> {
        let instance = self.account.instance("first").await?.through(&self.proxy);
        let running = subject.start(&instance).await?;
        self.phases(scenario).await?;
        subject.kill(running).await?;
        Ok(self.proxy.requests(&counted().by(&instance)).len())
    }

    /// Plays the story with a crash at the n-th write; gives which write that was. `None` if this run got by with fewer
    /// writes: how many are refused as stale and sent again differs from run to run.
    async fn crash<S: Subject>(
        &self,
        scenario: &Scenario,
        subject: &S,
        moment: Moment,
        n: usize,
    ) -> Result<Option<String>> {
        let instance = self.account.instance("first").await?.through(&self.proxy);
        let on = counted().by(&instance);
        let halt = self
            .proxy
            .add(Rule::new(on.clone(), Fault::Halt(moment)).skip(n - 1).once());
        let first = subject.start(&instance).await?;
        let story = self.phases(scenario);
        tokio::pin!(story);
        let fatal_write = self.fatal_write(&halt, &on, moment, n);
        tokio::pin!(fatal_write);
        let mut ended = false;
        let fatal = tokio::select! {
            fatal = &mut fatal_write => fatal?,
            played = &mut story => {
                played?;
                ended = true;
                if halt.count() == 0 {
                    subject.kill(first).await?;
                    return Ok(None);
                }
                // The last write ends the story, perhaps before its crash is noticed.
                fatal_write.await?
            }
        };
        subject.kill(first).await?;
        let next = self.account.instance("second").await?.through(&self.proxy);
        let second = subject.start(&next).await?;
        if !ended {
            story.await.with_context(|| format!("after a crash at {fatal}"))?;
        }
        subject.kill(second).await?;
        Ok(Some(fatal))
    }

    /// Waits until the fatal write has come, and, if it is to take effect, until it has.
    async fn fatal_write(&self, halt: &Script, on: &Match, moment: Moment, n: usize) -> Result<String> {
        halt.fired(1, DEADLINE)
            .await
            .with_context(|| format!("write {n} was never sent"))?;
        let entry = match moment {
            Moment::Before => self.proxy.requests(on).into_iter().nth(n - 1),
            Moment::After => Some(self.proxy.answered(on, n - 1, DEADLINE).await?),
        };
        Ok(entry.context("find the fatal write")?.request.to_string())
    }

    async fn phases(&self, scenario: &Scenario) -> Result<()> {
        for (index, phase) in scenario.phases.iter().enumerate() {
            let played = phase(&self.sandbox).await;
            played.with_context(|| format!("phase {} of {}", index + 1, scenario.name))?;
        }
        Ok(())
    }
}

fn counted() -> Match {
    Match::work().except(&["events"])
}
