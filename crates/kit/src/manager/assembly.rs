//! The controllers of a capability and what feeds their queues, put together once: for a manager, and to run alone.

use std::future::Future;

use futures::FutureExt;
use futures::future::{BoxFuture, select_all};
use tokio_util::sync::CancellationToken;

use super::{Context, StartError};
use crate::controller::{Controller, RunError, Runner};
use crate::events::Publisher;

/// A controller that is ready to run.
trait Part: Send {
    fn name(&self) -> &'static str;
    fn report_to(self: Box<Self>, context: &Context) -> Box<dyn Part>;
    fn run(self: Box<Self>, stop: CancellationToken) -> BoxFuture<'static, Result<(), RunError>>;
}

impl<C: Controller> Part for Runner<C> {
    fn name(&self) -> &'static str {
        Self::name(self)
    }

    fn report_to(self: Box<Self>, context: &Context) -> Box<dyn Part> {
        let (readiness, liveness, state) = (&context.readiness, &context.liveness, &context.state);
        Box::new(Self::report_to(*self, readiness, liveness, state))
    }

    fn run(self: Box<Self>, stop: CancellationToken) -> BoxFuture<'static, Result<(), RunError>> {
        Self::run(*self, stop).boxed()
    }
}

/// The controllers of a capability and the tasks that feed their queues, ready to run.
///
/// ```no_run
/// # use trustplane_kit::controller::{Controller, Runner};
/// # use trustplane_kit::manager::{Assembly, Context};
/// # fn example<C: Controller>(context: &Context, runner: Runner<C>, feed: impl Future<Output = ()> + Send + 'static) {
/// Assembly::default()
///     .controller(runner)
///     .task("greeter-feed", feed)
///     .start(context);
/// # }
/// ```
#[derive(Default)]
pub struct Assembly {
    controllers: Vec<Box<dyn Part>>,
    tasks: Vec<(&'static str, BoxFuture<'static, ()>)>,
}

impl Assembly {
    /// Adds a controller.
    #[must_use]
    pub fn controller<C: Controller>(mut self, runner: Runner<C>) -> Self {
        self.controllers.push(Box::new(runner));
        self
    }

    /// Adds a task without keys: what feeds a queue, or keeps something that controllers use. It runs until it is dropped.
    #[must_use]
    pub fn task(mut self, name: &'static str, task: impl Future<Output = ()> + Send + 'static) -> Self {
        self.tasks.push((name, task.boxed()));
        self
    }

    /// Starts everything in a manager, under its supervisor. Each controller reports to the admin port.
    pub fn start(self, context: &Context) {
        for (name, task) in self.tasks {
            let stop = context.stop();
            context.spawn(name, async move {
                stop.run_until_cancelled(task).await;
            });
        }
        for part in self.controllers {
            let part = part.report_to(context);
            context.spawn(part.name(), part.run(context.stop()));
        }
    }

    /// Runs everything without a manager: no lease, no rival. It ends only when it is dropped, or with an error: the first
    /// part that ends ends it.
    pub async fn run_alone(self, publisher: Publisher) -> Result<(), StartError> {
        let stop = CancellationToken::new();
        let ended = |name: &str| -> Result<(), StartError> { Err(format!("{name} ended").into()) };
        let tasks = self.tasks.into_iter().map(|(name, task)| {
            let task = task.map(move |()| ended(name));
            task.boxed()
        });
        let controllers = self.controllers.into_iter().map(|part| {
            let run = part.run(stop.clone());
            run.map(|end| end.map_err(StartError::from)).boxed()
        });
        let events = publisher
            .run(stop.clone())
            .map(|()| ended("the publisher of events"));
        let all = tasks.chain(controllers).chain([events.boxed()]);
        select_all(all).await.0
    }
}

impl std::fmt::Debug for Assembly {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let controllers: Vec<_> = self.controllers.iter().map(|part| part.name()).collect();
        f.debug_struct("Assembly")
            .field("controllers", &controllers)
            .finish_non_exhaustive()
    }
}
