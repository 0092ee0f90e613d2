use serde_json::json;

use super::*;

fn found(kind: &str, object: Value) -> Vec<RelationQuery> {
    finds(kind, "shop", "web", &object)
}

fn relations(finds: &[RelationQuery]) -> Vec<(&'static str, &'static str)> {
    finds
        .iter()
        .map(|find| (find.relation, find.kind.name()))
        .collect()
}

fn by_relation<'a>(finds: &'a [RelationQuery], relation: &str, kind: Kind) -> &'a RelationQuery {
    finds
        .iter()
        .find(|find| find.relation == relation && find.kind == kind)
        .unwrap()
}

#[test]
fn a_pod_finds_what_it_uses_and_what_selects_it() {
    let pod = json!({"node_name": "n1", "service_account": "robot", "labels": {"app": "web", "tier": "front"},
        "volumes": [{"name": "a", "type": "configMap", "source": "conf"}, {"name": "b", "type": "configMap", "source": "conf"},
            {"name": "c", "type": "secret", "source": "tls"}, {"name": "d", "type": "pvc", "source": "disk"},
            {"name": "e", "type": "emptyDir"}]});
    let finds = found("Pod", pod);
    assert_eq!(by_relation(&finds, "Runs on", Kind::Node).namespace, "");
    let conf = by_relation(&finds, "Mounts", Kind::ConfigMap);
    assert_eq!(conf.by, Lookup::Names(vec!["conf".to_owned()]));
    assert_eq!(conf.namespace, "shop");
    by_relation(&finds, "Mounts", Kind::PersistentVolumeClaim);
    let service = by_relation(&finds, "Served by", Kind::Service);
    assert!(service.keeps(&json!({"selector": {"app": "web"}})));
    assert!(!service.keeps(&json!({"selector": {"app": "web", "tier": "back"}})));
    assert!(
        !service.keeps(&json!({"selector": {}})),
        "a Service without selector selects nothing"
    );
    let policy = by_relation(&finds, "Restricted by", Kind::NetworkPolicy);
    assert!(
        policy.keeps(&json!({"pod_selector": {}})),
        "an empty selector selects all Pods"
    );
    assert!(policy.keeps(&json!({})));
    assert!(!policy.keeps(&json!({"pod_selector": {"app": "db"}})));
}

#[test]
fn a_pod_of_a_job_finds_it() {
    let finds = found("Pod", json!({"labels": {"job-name": "backup-1"}}));
    assert_eq!(
        by_relation(&finds, "Created by", Kind::Job).by,
        Lookup::Names(vec!["backup-1".to_owned()])
    );
}

#[test]
fn workloads_find_their_pods_by_selector() {
    for kind in ["Service", "Deployment", "StatefulSet", "DaemonSet"] {
        let finds = found(kind, json!({"selector": {"app": "web"}}));
        let pods = by_relation(&finds, "Pods", Kind::Pod);
        assert!(pods.keeps(&json!({"labels": {"app": "web", "x": "y"}})), "{kind}");
        assert!(!pods.keeps(&json!({"labels": {"app": "db"}})), "{kind}");
        assert!(!pods.keeps(&json!({})), "{kind}");
    }
    let none = found("Service", json!({}));
    assert_eq!(by_relation(&none, "Pods", Kind::Pod).by, Lookup::Names(vec![]));
}

#[test]
fn jobs_and_cron_jobs_find_each_other() {
    let job = found("Job", json!({"owner_ref": "nightly"}));
    assert_eq!(
        by_relation(&job, "Created by", Kind::CronJob).by,
        Lookup::Names(vec!["nightly".to_owned()])
    );
    let cron_job = found("CronJob", json!({}));
    let jobs = by_relation(&cron_job, "Jobs", Kind::Job);
    assert!(jobs.keeps(&json!({"owner_ref": "web"})));
    assert!(!jobs.keeps(&json!({})));
}

#[test]
fn an_ingress_finds_services_and_secrets() {
    let ingress = json!({"rules": [{"paths": [{"service_name": "a"}, {"service_name": "b"}]}, {"paths": [{"service_name": "a"}]}],
        "tls": [{"secret_name": "cert"}]});
    let finds = found("Ingress", ingress.clone());
    let services = Lookup::Names(vec!["a".to_owned(), "b".to_owned()]);
    assert_eq!(by_relation(&finds, "Routes to", Kind::Service).by, services);
    assert_eq!(
        by_relation(&finds, "Certificates", Kind::Secret).by,
        Lookup::Names(vec!["cert".to_owned()])
    );
    let service = finds_of_service("a");
    assert!(service.keeps(&ingress));
    assert!(!finds_of_service("c").keeps(&ingress));
}

fn finds_of_service(name: &str) -> RelationQuery {
    let finds = finds("Service", "shop", name, &json!({}));
    by_relation(&finds, "Routed by", Kind::Ingress).clone()
}

#[test]
fn what_is_mounted_finds_the_pods_that_mount_it() {
    for (kind, volume) in [
        ("ConfigMap", "configMap"),
        ("Secret", "secret"),
        ("PersistentVolumeClaim", "pvc"),
    ] {
        let finds = found(kind, json!({}));
        let pods = by_relation(&finds, "Mounted by", Kind::Pod);
        assert!(
            pods.keeps(&json!({"volumes": [{"type": volume, "source": "web"}]})),
            "{kind}"
        );
        assert!(
            !pods.keeps(&json!({"volumes": [{"type": "hostPath", "source": "web"}]})),
            "{kind}"
        );
    }
}

#[test]
fn bindings_find_role_and_service_accounts() {
    let binding = json!({"role_ref": {"kind": "ClusterRole", "name": "view"}, "subjects": [
        {"kind": "ServiceAccount", "name": "robot", "namespace": "ops"},
        {"kind": "ServiceAccount", "name": "local"}, {"kind": "User", "name": "jane"}]});
    let finds = found("RoleBinding", binding);
    assert_eq!(by_relation(&finds, "Grants", Kind::ClusterRole).namespace, "");
    let subjects: Vec<&str> = finds
        .iter()
        .filter(|find| find.relation == "Subjects")
        .map(|find| find.namespace.as_str())
        .collect();
    assert_eq!(subjects, ["ops", "shop"]);
}

#[test]
fn nodes_events_and_namespaces_have_their_rules() {
    assert_eq!(found("Node", json!({}))[0].by, Lookup::Link("web".to_owned()));
    let event = json!({"involved_object": {"kind": "Pod", "uid": "u"}});
    assert_eq!(found("Event", event)[0].by, Lookup::Uid("u".to_owned()));
    assert_eq!(relations(&found("Event", json!({}))), []);
    assert_eq!(relations(&found("Namespace", json!({}))), []);
    assert_eq!(relations(&found("Widget", json!({}))), []);
}
