//! Jobs and CronJobs.

use serde::Deserialize;
use serde::de::IgnoredAny;

use super::head::Owner;
use super::input::{Text, Time};
use super::output::Object;
use super::{Metadata, Projection, ProjectionError};
use crate::kind::InventoryKind;

#[derive(Deserialize)]
struct Job<'a> {
    #[serde(borrow)]
    metadata: Metadata<'a>,
    spec: Option<JobSpec>,
    status: Option<JobStatus>,
}

#[derive(Default, Deserialize)]
struct JobSpec {
    completions: Option<i64>,
    parallelism: Option<i64>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct JobStatus {
    succeeded: Option<i64>,
    failed: Option<i64>,
    active: Option<i64>,
    start_time: Option<Time>,
    completion_time: Option<Time>,
}

/// What is sent of a Job.
pub(super) fn job(json: &str) -> Result<Projection, ProjectionError> {
    let Job {
        mut metadata,
        spec,
        status,
    } = serde_json::from_str(json)?;
    let (spec, status) = (spec.unwrap_or_default(), status.unwrap_or_default());
    let fields = Object::default()
        .always("completions", spec.completions.unwrap_or(1))
        .always("parallelism", spec.parallelism.unwrap_or(1))
        .always("succeeded", status.succeeded.unwrap_or_default())
        .always("failed", status.failed.unwrap_or_default())
        .always("active", status.active.unwrap_or_default())
        .given("start_time", status.start_time)
        .given("completion_time", status.completion_time)
        .optional("owner_ref", cron_job_name(metadata.owner_references.take()));
    metadata.finish(InventoryKind::Job, fields)
}

/// The name of the first owner that is a CronJob.
fn cron_job_name(owners: Option<Vec<Owner<'_>>>) -> Option<Text<'_>> {
    let is_cron_job = |owner: &Owner<'_>| owner.kind.as_ref().is_some_and(|kind| kind.as_str() == "CronJob");
    owners?.into_iter().find(is_cron_job)?.name
}

#[derive(Deserialize)]
struct CronJob<'a> {
    #[serde(borrow)]
    metadata: Metadata<'a>,
    spec: Option<CronJobSpec<'a>>,
    status: Option<CronJobStatus>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct CronJobSpec<'a> {
    #[serde(borrow)]
    schedule: Option<Text<'a>>,
    suspend: Option<bool>,
    concurrency_policy: Option<Text<'a>>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct CronJobStatus {
    active: Option<Vec<IgnoredAny>>,
    last_schedule_time: Option<Time>,
}

/// What is sent of a CronJob.
pub(super) fn cron_job(json: &str) -> Result<Projection, ProjectionError> {
    let CronJob {
        metadata,
        spec,
        status,
    } = serde_json::from_str(json)?;
    let (spec, status) = (spec.unwrap_or_default(), status.unwrap_or_default());
    let fields = Object::default()
        .always("schedule", spec.schedule.unwrap_or_default())
        .always("suspend", spec.suspend.unwrap_or_default())
        .optional("concurrency_policy", spec.concurrency_policy)
        .given("last_schedule_time", status.last_schedule_time)
        .always("active_jobs", status.active.map_or(0, |jobs| jobs.len()));
    metadata.finish(InventoryKind::CronJob, fields)
}
