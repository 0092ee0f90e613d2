use serde_json::json;
use trustplane_inventory_core::InventoryKind as Kind;

use super::*;

fn of(kind: Kind, object: Value) -> (StatusClass, String) {
    let Status { class, word } = status(Some(kind), &object);
    (class, word)
}

fn is(kind: Kind, object: Value, class: StatusClass, word: &str) {
    assert_eq!(of(kind, object.clone()), (class, word.to_owned()), "{object}");
}

#[test]
fn a_running_pod_is_as_good_as_its_worst_container() {
    let pod = |containers: Value| json!({"phase": "Running", "containers": containers});
    let fine = json!({"state": "running", "ready": true, "restart_count": 3});
    is(Kind::Pod, pod(json!([fine])), StatusClass::Ok, "Running");
    let slow = json!({"state": "running", "ready": false});
    is(
        Kind::Pod,
        pod(json!([fine, slow])),
        StatusClass::Warning,
        "Not ready",
    );
    let starting = json!({"state": "waiting", "ready": false, "restart_count": 0});
    is(
        Kind::Pod,
        pod(json!([starting, slow])),
        StatusClass::Progress,
        "Starting",
    );
    let ended = json!({"state": "terminated", "ready": false, "restart_count": 0});
    is(
        Kind::Pod,
        pod(json!([starting, ended])),
        StatusClass::Warning,
        "Container ended",
    );
    let crashing = json!({"state": "waiting", "ready": false, "restart_count": 4});
    is(
        Kind::Pod,
        pod(json!([ended, crashing])),
        StatusClass::Error,
        "Crashing",
    );
}

#[test]
fn a_pending_pod_tells_why_it_waits() {
    is(
        Kind::Pod,
        json!({"phase": "Pending"}),
        StatusClass::Progress,
        "Pending",
    );
    let conditions = json!([{"type": "PodScheduled", "status": "False"}]);
    let unscheduled = json!({"phase": "Pending", "conditions": conditions});
    is(Kind::Pod, unscheduled, StatusClass::Warning, "Unscheduled");
    let init = json!([{"state": "waiting", "restart_count": 2}]);
    let crashing = json!({"phase": "Pending", "init_containers": init});
    is(Kind::Pod, crashing, StatusClass::Error, "Crashing");
}

#[test]
fn finished_and_strange_pods_have_the_word_of_their_phase() {
    is(
        Kind::Pod,
        json!({"phase": "Succeeded"}),
        StatusClass::Ok,
        "Succeeded",
    );
    is(
        Kind::Pod,
        json!({"phase": "Failed"}),
        StatusClass::Error,
        "Failed",
    );
    is(
        Kind::Pod,
        json!({"phase": "Unknown"}),
        StatusClass::Warning,
        "Unknown",
    );
    is(Kind::Pod, json!({"phase": null}), StatusClass::None, "");
}

#[test]
fn workloads_compare_what_is_ready_with_what_is_wanted() {
    let deployment = |desired, ready, updated| json!({"replicas": desired, "ready_replicas": ready, "updated_replicas": updated});
    is(Kind::Deployment, deployment(3, 3, 3), StatusClass::Ok, "Ready");
    is(
        Kind::Deployment,
        deployment(3, 3, 1),
        StatusClass::Progress,
        "Rolling out",
    );
    is(
        Kind::Deployment,
        deployment(3, 2, 3),
        StatusClass::Warning,
        "Partly ready",
    );
    is(
        Kind::Deployment,
        deployment(3, 0, 3),
        StatusClass::Error,
        "Not ready",
    );
    is(
        Kind::Deployment,
        deployment(0, 0, 0),
        StatusClass::None,
        "Scaled to 0",
    );
    is(
        Kind::StatefulSet,
        json!({"replicas": 1, "ready_replicas": 1}),
        StatusClass::Ok,
        "Ready",
    );
    let daemons = json!({"desired_number_scheduled": 2, "number_ready": 1});
    is(Kind::DaemonSet, daemons, StatusClass::Warning, "Partly ready");
}

#[test]
fn jobs_end_well_or_badly() {
    is(
        Kind::Job,
        json!({"completions": 1, "succeeded": 1, "failed": 2}),
        StatusClass::Ok,
        "Complete",
    );
    is(
        Kind::Job,
        json!({"completions": 1, "active": 1, "failed": 2}),
        StatusClass::Progress,
        "Running",
    );
    is(
        Kind::Job,
        json!({"completions": 1, "failed": 2}),
        StatusClass::Error,
        "Failed",
    );
    is(Kind::Job, json!({}), StatusClass::Progress, "Pending");
    is(
        Kind::CronJob,
        json!({"suspend": true}),
        StatusClass::None,
        "Suspended",
    );
    is(
        Kind::CronJob,
        json!({"active_jobs": 0}),
        StatusClass::Ok,
        "Scheduled",
    );
}

#[test]
fn the_rest_says_what_its_phase_says() {
    is(Kind::Node, json!({"status": "Ready"}), StatusClass::Ok, "Ready");
    is(
        Kind::Node,
        json!({"status": "NotReady"}),
        StatusClass::Error,
        "Not ready",
    );
    is(
        Kind::Namespace,
        json!({"phase": "Terminating"}),
        StatusClass::Progress,
        "Terminating",
    );
    is(
        Kind::PersistentVolumeClaim,
        json!({"phase": "Lost"}),
        StatusClass::Error,
        "Lost",
    );
    is(
        Kind::Event,
        json!({"type": "Warning"}),
        StatusClass::Warning,
        "Warning",
    );
    is(
        Kind::Event,
        json!({"type": "Normal"}),
        StatusClass::None,
        "Normal",
    );
    is(Kind::ConfigMap, json!({}), StatusClass::None, "");
    assert_eq!(status(None, &json!({"phase": "Failed"})), Status::unknown());
}

#[test]
fn classes_have_the_words_of_the_api() {
    assert_eq!(StatusClass::Progress.name(), "progress");
    assert_eq!("error".parse(), Ok(StatusClass::Error));
    assert_eq!(serde_json::to_value(StatusClass::None).unwrap(), "none");
}
