//! How a task ended.

use std::any::Any;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;

use super::{SupervisorError, TaskName};
use crate::metrics::Metrics;

/// Any error of a task.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// What a task may return: nothing, or a result without a value.
pub trait Outcome: Send {
    /// As a result.
    fn into_result(self) -> Result<(), BoxError>;
}

impl Outcome for () {
    fn into_result(self) -> Result<(), BoxError> {
        Ok(())
    }
}

impl<E: Into<BoxError> + Send> Outcome for Result<(), E> {
    fn into_result(self) -> Result<(), BoxError> {
        self.map_err(Into::into)
    }
}

/// The names are those of the metric label.
#[derive(strum::IntoStaticStr)]
pub(super) enum Ending {
    #[strum(serialize = "returned")]
    Returned,
    #[strum(serialize = "error")]
    Failed(BoxError),
    #[strum(serialize = "panic")]
    Panicked(String),
}

impl Ending {
    pub(super) fn of<O: Outcome>(caught: Result<O, Box<dyn Any + Send>>) -> Self {
        match caught.map(Outcome::into_result) {
            Ok(Ok(())) => Self::Returned,
            Ok(Err(error)) => Self::Failed(error),
            Err(panic) => {
                let text = panic.downcast_ref::<&str>().copied();
                let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
                Self::Panicked(text.unwrap_or("no message").to_owned())
            }
        }
    }

    pub(super) fn into_error(self, task: TaskName) -> SupervisorError {
        match self {
            Self::Returned => SupervisorError::Returned(task),
            Self::Failed(source) => SupervisorError::Failed { task, source },
            Self::Panicked(message) => SupervisorError::Panicked { task, message },
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Labels {
    task: String,
    reason: &'static str,
}

/// Ends of tasks that nobody asked for.
#[derive(Debug, Clone)]
pub(super) struct TaskMetrics(Family<Labels, Counter>);

impl TaskMetrics {
    pub(super) fn shared(metrics: &Metrics) -> Self {
        metrics.shared(|registry| {
            let ends = Family::default();
            registry.register(
                "task_ends",
                "ends of tasks that should run for ever",
                ends.clone(),
            );
            Self(ends)
        })
    }

    pub(super) fn count(&self, task: TaskName, ending: &Ending) {
        self.0
            .get_or_create(&Labels {
                task: task.into_owned(),
                reason: ending.into(),
            })
            .inc();
    }
}
