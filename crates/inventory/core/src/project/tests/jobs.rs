use serde_json::json;

use super::expect;
use crate::kind::InventoryKind::{CronJob, Job};

const CREATED: &str = "2026-01-01T00:00:00Z";

#[test]
fn job_sends_all_its_fields() {
    expect(
        Job,
        &json!({
            "metadata": {
                "uid": "u", "name": "backup-1", "namespace": "ops", "creationTimestamp": CREATED,
                "ownerReferences": [
                    {"kind": "Workflow", "name": "w"}, {"kind": "CronJob", "name": "backup"}, {"kind": "CronJob", "name": "second"},
                ],
            },
            "spec": {"completions": 4, "parallelism": 2, "backoffLimit": 6},
            "status": {
                "succeeded": 3, "failed": 1, "active": 2, "startTime": "2026-01-01T01:00:00Z", "completionTime": "2026-01-01T02:00:00Z",
            },
        }),
        &json!({
            "uid": "u", "name": "backup-1", "namespace": "ops", "k8s_created_at": CREATED,
            "completions": 4, "parallelism": 2, "succeeded": 3, "failed": 1, "active": 2,
            "start_time": "2026-01-01T01:00:00Z", "completion_time": "2026-01-01T02:00:00Z", "owner_ref": "backup",
        }),
    );
}

#[test]
fn job_without_a_spec_has_one_completion() {
    expect(
        Job,
        &json!({
            "metadata": {
                "uid": "u", "name": "once", "namespace": "ops", "creationTimestamp": CREATED,
                "ownerReferences": [{"kind": "Workflow", "name": "w"}],
            },
            "spec": {"completions": null}, "status": {"startTime": null},
        }),
        &json!({
            "uid": "u", "name": "once", "namespace": "ops", "k8s_created_at": CREATED,
            "completions": 1, "parallelism": 1, "succeeded": 0, "failed": 0, "active": 0,
        }),
    );
}

#[test]
fn suspended_job_sends_a_parallelism_of_zero() {
    expect(
        Job,
        &json!({"metadata": {"uid": "u", "name": "once", "namespace": "ops", "creationTimestamp": CREATED}, "spec": {"parallelism": 0}}),
        &json!({
            "uid": "u", "name": "once", "namespace": "ops", "k8s_created_at": CREATED,
            "completions": 1, "parallelism": 0, "succeeded": 0, "failed": 0, "active": 0,
        }),
    );
}

#[test]
fn cron_job_sends_all_its_fields() {
    expect(
        CronJob,
        &json!({
            "metadata": {"uid": "u", "name": "backup", "namespace": "ops", "creationTimestamp": CREATED},
            "spec": {"schedule": "*/5 * * * *", "suspend": true, "concurrencyPolicy": "Forbid", "jobTemplate": {"spec": {}}},
            "status": {"active": [{"kind": "Job", "name": "a"}, {"kind": "Job", "name": "b"}], "lastScheduleTime": "2026-01-01T03:00:00Z"},
        }),
        &json!({
            "uid": "u", "name": "backup", "namespace": "ops", "k8s_created_at": CREATED,
            "schedule": "*/5 * * * *", "suspend": true, "concurrency_policy": "Forbid",
            "last_schedule_time": "2026-01-01T03:00:00Z", "active_jobs": 2,
        }),
    );
}

#[test]
fn cron_job_without_a_status_has_no_active_jobs() {
    expect(
        CronJob,
        &json!({"metadata": {"uid": "u", "name": "backup", "namespace": "ops", "creationTimestamp": CREATED}, "spec": {"schedule": "@daily"}, "status": {}}),
        &json!({
            "uid": "u", "name": "backup", "namespace": "ops", "k8s_created_at": CREATED,
            "schedule": "@daily", "suspend": false, "active_jobs": 0,
        }),
    );
    expect(
        CronJob,
        &json!({"metadata": {"uid": "u", "name": "backup", "namespace": "ops", "creationTimestamp": CREATED}}),
        &json!({
            "uid": "u", "name": "backup", "namespace": "ops", "k8s_created_at": CREATED,
            "schedule": "", "suspend": false, "active_jobs": 0,
        }),
    );
}
