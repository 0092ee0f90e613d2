//! Carries out the plans of a controller step by step, and decides nothing.

use trustplane_plan::{Expect, Note, Step};
use trustplane_process::metrics::Metrics;

use super::metrics::ControllerMetrics;
use super::{Controller, Fault};
use crate::apply::Writer;
use crate::events::{Events, Told};

/// Carries plans out, or in a dry run only says what they are. A cheap clone.
#[derive(Debug, Clone)]
pub struct Executor {
    writer: Writer,
    events: Events,
    dry_run: bool,
    pub(super) metrics: ControllerMetrics,
}

impl Executor {
    /// An executor that writes with this writer and tells with these events.
    pub fn new(writer: Writer, events: Events, metrics: &Metrics) -> Self {
        Self {
            writer,
            events,
            dry_run: false,
            metrics: ControllerMetrics::shared(metrics),
        }
    }

    /// Whether plans are logged instead of carried out: nothing is written, told or called. What a controller remembers it
    /// remembers all the same, or it would plan the same again and again.
    #[must_use]
    pub fn dry_run(mut self, dry_run: bool) -> Self {
        self.dry_run = dry_run;
        self
    }

    /// The steps in their order; the first that fails ends the plan. A note that is refused ends nothing: what people need
    /// is not held up by what they are told. It makes the plan fail at its end, so that the key looks again.
    pub(super) async fn carry_out<C: Controller>(
        &self,
        controller: &C,
        steps: Vec<Step<C::Action>>,
    ) -> Result<(), Fault<C::Error>> {
        let mut untold = 0;
        for step in steps {
            if self.dry_run {
                rehearse(controller, step).await?;
                continue;
            }
            tracing::debug!("{step}");
            let kind = kind(&step);
            match step {
                Step::Apply(apply) => drop(self.writer.apply(&apply).await?),
                Step::Delete(delete) => self.writer.delete(&delete).await?,
                Step::Status(status) => drop(self.writer.status(&status).await?),
                Step::Finalizer(change) => self.writer.finalizer(&change).await?,
                Step::Tell(note) => {
                    let told = self.events.tell(&note);
                    untold += u32::from(told == Told::Refused);
                    if !told.is_taken() {
                        continue;
                    }
                    self.metrics.told(controller.name(), note.reason);
                }
                Step::TellOnce(note, remember) => {
                    let told = self.events.tell(&note);
                    untold += u32::from(told == Told::Refused);
                    if !told.is_taken() {
                        continue;
                    }
                    self.metrics.told(controller.name(), note.reason);
                    controller.perform(remember).await?;
                }
                Step::Call(action) | Step::Remember(action) => controller.perform(action).await?,
            }
            self.metrics.step(controller.name(), kind);
        }
        match untold {
            0 => Ok(()),
            notes => Err(Fault::Untold { notes }),
        }
    }

    /// Tells the user something that is not part of a plan: why there was none, or why it failed. Answers whether another
    /// try is needed.
    pub(super) fn tell(&self, note: &Note) -> bool {
        if self.dry_run {
            log_note(note);
            return false;
        }
        self.events.tell(note) == Told::Refused
    }
}

/// A step of a dry run: it is logged, and what belongs into the controller's memory is kept there.
async fn rehearse<C: Controller>(controller: &C, step: Step<C::Action>) -> Result<(), Fault<C::Error>> {
    match step {
        Step::Remember(action) => {
            tracing::debug!("dry run: remember {action:?}");
            controller.perform(action).await
        }
        Step::TellOnce(note, remember) => {
            log_note(&note);
            controller.perform(remember).await
        }
        other => {
            tracing::info!("dry run: {other}");
            Ok(())
        }
    }
}

fn log_note(note: &Note) {
    tracing::info!("dry run: tell {}: {} {}", note.about, note.reason, note.text());
}

/// The label of a step in metrics.
fn kind<A>(step: &Step<A>) -> &'static str {
    match step {
        Step::Apply(apply) if apply.expect == Expect::Absent => "create",
        Step::Apply(_) => "update",
        Step::Delete(_) => "delete",
        Step::Status(_) => "status",
        Step::Finalizer(_) => "finalizer",
        Step::Tell(_) | Step::TellOnce(_, _) => "tell",
        Step::Call(_) => "call",
        Step::Remember(_) => "remember",
    }
}
