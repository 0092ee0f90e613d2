//! What must not happen: discovery that says more than it may, a PIN that shows, something that stays.

use serde_json::{Value, json};
use trustplane_e2e::{say, try_say};
use trustplane_testkit::canary::{Canary, Search};

use crate::NAME;
use crate::devices::TOKENS;
use crate::stage::Stage;

/// The policy that ships: a discovery pod may write its own report, and nothing else.
pub fn discovery_may_report_and_nothing_else(stage: &Stage<'_>) {
    let pods = stage.discovery();
    let [one, other] = pods.as_slice() else {
        panic!("a discovery pod on each node: {pods:?}");
    };
    // kubectl reads what it patches, which discovery cannot.
    let account = format!("--serviceaccount={TOKENS}:{NAME}-trustplane-discovery");
    for grant in [
        &["create", "role", "reader", "--verb=get", "--resource=pods"][..],
        &["create", "rolebinding", "reader", "--role=reader", &account][..],
    ] {
        say(&mut stage.kubectl(grant)).unwrap();
    }
    let patch = |pod: &str, patch: Value| {
        let patch = format!("--patch={patch}");
        let mut command = stage.kubectl(&["patch", "pod", pod, "--type=merge", &patch]);
        command
            .arg(format!(
                "--as=system:serviceaccount:{TOKENS}:{NAME}-trustplane-discovery"
            ))
            .arg(format!(
                "--as-user-extra=authentication.kubernetes.io/pod-name={}",
                one.name
            ))
            .arg(format!(
                "--as-user-extra=authentication.kubernetes.io/pod-uid={}",
                one.uid
            ))
            .arg("--dry-run=server");
        try_say(&mut command).unwrap()
    };
    let annotation = |key: &str| json!({"metadata": {"annotations": {key: "x"}}});
    let report = annotation("hsm.j5t.io/device-report");
    let allowed = patch(&one.name, report.clone());
    assert!(allowed.status.success(), "{allowed:?}");
    for (said, why) in [
        (
            patch(&other.name, report),
            "a discovery pod may change itself only",
        ),
        (
            patch(&one.name, annotation("a")),
            "a discovery pod may change its annotation hsm.j5t.io/device-report only",
        ),
        (
            patch(&one.name, json!({"metadata": {"labels": {"a": "b"}}})),
            "a discovery pod may change its annotations only",
        ),
    ] {
        assert!(
            !said.status.success() && said.err.contains(why),
            "{why}: {said:?}"
        );
    }
}

/// The PIN is in its Secret, and nowhere else that can be read.
pub fn holds_nowhere(stage: &Stage<'_>, pin: &Canary) {
    let mut search = Search::for_canaries([pin]);
    for question in [
        &[
            "get",
            "configmaps,pods,deployments,daemonsets,hsmpools,hsmdevices,events",
            "--output=yaml",
        ][..],
        &[
            "logs",
            "--selector=app.kubernetes.io/component=hsm-agent",
            "--tail=-1",
            "--prefix",
        ][..],
        &[
            "logs",
            "--selector=app.kubernetes.io/component=discovery",
            "--tail=-1",
            "--prefix",
        ][..],
    ] {
        search.text(&question.join(" "), &say(&mut stage.kubectl(question)).unwrap());
    }
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
