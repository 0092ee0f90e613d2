//! What must not happen: discovery that says more than it may, a PIN that shows, something that stays.

use std::fs;

use serde_json::{Value, json};
use trustplane_e2e::{say, try_say};
use trustplane_testkit::canary::{Canary, Search};

use crate::NAME;
use crate::devices::TOKENS;
use crate::secrets::SHOP;
use crate::stage::Stage;

/// The policy that ships: a discovery pod may write its own report, and nothing else.
pub fn discovery_may_report_and_nothing_else(stage: &Stage<'_>) {
    let pods = stage.discovery("pico");
    let [one, other] = pods.as_slice() else {
        panic!("a discovery pod on each node: {pods:?}");
    };
    // kubectl reads what it patches, which discovery cannot; and whoever could delete a pod could change its owners.
    let account = format!("--serviceaccount={TOKENS}:{NAME}-trustplane-discovery");
    for grant in [
        &["create", "role", "reader", "--verb=get,delete", "--resource=pods"][..],
        &["create", "rolebinding", "reader", "--role=reader", &account][..],
    ] {
        say(&mut stage.kubectl(grant)).unwrap();
    }
    let pod_of_token = [
        format!(
            "--as-user-extra=authentication.kubernetes.io/pod-name={}",
            one.name
        ),
        format!("--as-user-extra=authentication.kubernetes.io/pod-uid={}", one.uid),
    ];
    let discovery = |command: &[&str], claims: &[String]| {
        let mut command = stage.kubectl(command);
        command
            .arg(format!(
                "--as=system:serviceaccount:{TOKENS}:{NAME}-trustplane-discovery"
            ))
            .args(claims)
            .arg("--dry-run=server");
        try_say(&mut command).unwrap()
    };
    let patch = |pod: &str, patch: Value, claims: &[String]| {
        let patch = format!("--patch={patch}");
        discovery(&["patch", "pod", pod, "--type=merge", &patch], claims)
    };
    let metadata = |metadata: Value| patch(&one.name, json!({ "metadata": metadata }), &pod_of_token);
    let annotation = |key: &str| json!({"annotations": {key: "x"}});
    let report = annotation("hsm.j5t.io/device-report");
    let allowed = metadata(report.clone());
    assert!(allowed.status.success(), "{allowed:?}");
    let report = json!({ "metadata": report });
    let [itself, annotations, only_report] = [
        "a discovery pod may change itself only",
        "a discovery pod may change its annotations only",
        "a discovery pod may change its annotation hsm.j5t.io/device-report only",
    ];
    for (said, why) in [
        (patch(&other.name, report.clone(), &pod_of_token), itself),
        // Its account by a token that is for no pod.
        (patch(&one.name, report, &[]), itself),
        (discovery(&["delete", "pod", &one.name], &pod_of_token), itself),
        (metadata(annotation("a")), only_report),
        (metadata(json!({"labels": {"a": "b"}})), annotations),
        (metadata(json!({"finalizers": ["a.example/b"]})), annotations),
        (metadata(json!({"ownerReferences": []})), annotations),
        (
            patch(
                &one.name,
                json!({"spec": {"activeDeadlineSeconds": 9}}),
                &pod_of_token,
            ),
            annotations,
        ),
    ] {
        assert!(
            !said.status.success() && said.err.contains(why),
            "{why}: {said:?}"
        );
    }
}

/// The policy that ships: kubelet would give the device file of a token to any pod that requests it, so no such pod is let in.
pub fn foreign_pods_get_no_token(stage: &Stage<'_>) {
    for namespace in [TOKENS, "default"] {
        let pod = json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "thief", "namespace": namespace},
            "spec": {"containers": [{
                "name": "main", "image": "none", "resources": {"limits": {"hsm.j5t.io/picohsm": "1"}},
            }]},
        });
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), pod.to_string()).unwrap();
        let path = file.path().to_string_lossy().into_owned();
        let create = ["create", "--dry-run=server", "--filename", &path];
        let said = try_say(&mut stage.arena.kubectl(&create)).unwrap();
        assert!(
            !said.status.success() && said.err.contains("hsm.tokenUsers"),
            "{namespace}: {said:?}"
        );
    }
}

/// PINs and values are in Secrets and on tokens, and nowhere else that can be read.
pub fn holds_nowhere(stage: &Stage<'_>, canaries: &[&Canary]) {
    let mut search = Search::for_canaries(canaries.iter().copied());
    let kinds = "configmaps,pods,deployments,daemonsets,hsmpools,hsmdevices,hsmsecrets,events";
    for namespace in [TOKENS, SHOP, NAME] {
        let question = ["--namespace", namespace, "get", kinds, "--output=yaml"];
        let said = say(&mut stage.arena.kubectl(&question)).unwrap();
        search.text(&format!("what {namespace} has"), &said);
    }
    for (namespace, component) in [(TOKENS, "hsm-agent"), (TOKENS, "discovery"), (NAME, "manager")] {
        let selector = format!("--selector=app.kubernetes.io/component={component}");
        let logs = [
            "--namespace",
            namespace,
            "logs",
            &selector,
            "--tail=-1",
            "--prefix",
        ];
        let said = say(&mut stage.arena.kubectl(&logs)).unwrap();
        assert!(!said.is_empty(), "{component} logs nothing");
        search.text(&format!("the log of {component}"), &said);
    }
    // Paths of requests are in it too, and with them what is run in pods.
    let audit = fs::read(stage.cluster.control_plane().audit_log()).unwrap();
    search.bytes("the audit log", &audit);
    search.assert_clean();
}

/// With HSMDevices goes all that was made for them.
pub fn everything_goes<const N: usize>(stage: &Stage<'_>, devices: [&str; N]) {
    let command = [&["delete", "hsmdevice", "--timeout=60s"], &devices[..]].concat();
    say(&mut stage.kubectl(&command)).unwrap();
    stage.until("everything of the devices to go", || {
        let kinds = "hsmpools,daemonsets,deployments,pods,roles,rolebindings";
        let left = say(&mut stage.kubectl(&["get", kinds, "--output=name"])).unwrap();
        let is_ours = |line: &&str| devices.iter().any(|device| line.contains(device));
        left.lines().find(is_ours).is_none().then_some(())
    });
}

/// After an uninstall nothing of the release is left but the definitions, and what nobody could make again.
pub fn nothing_stays(stage: &Stage<'_>) {
    let left = stage.arena.census(TOKENS).unwrap();
    let is_ours = |name: &&String| name.contains("hsm") || name.contains("trustplane");
    let stays = |name: &&String| {
        let definition = ["customresourcedefinition", "apiservice"]
            .iter()
            .any(|kind| name.starts_with(kind));
        definition || (name.starts_with("secret/") && name.ends_with("-so-pin"))
    };
    let left: Vec<_> = left.iter().filter(is_ours).filter(|name| !stays(name)).collect();
    assert!(left.is_empty(), "{left:?}");
    let home = say(&mut stage
        .release
        .kubectl(&["get", "secrets,leases,pods", "--output=name"]))
    .unwrap();
    let home: Vec<_> = home
        .lines()
        .filter(|name| !name.contains("helm.release"))
        .collect();
    assert!(home.is_empty(), "{home:?}");
}
