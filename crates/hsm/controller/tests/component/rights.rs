//! Least power: everything that is granted is used, and nothing else is needed.

use anyhow::Result;
use k8s_openapi::api::apps::v1::{DaemonSet, Deployment};
use k8s_openapi::api::core::v1::{ConfigMap, Pod, Secret, ServiceAccount};
use k8s_openapi::api::rbac::v1::{Role, RoleBinding};
use kube::api::PostParams;
use serde_json::{Value, json};
use trustplane_hsm_controller::rights;
use trustplane_kit::rights::Place;
use trustplane_testkit::audit::{Mark, granted};
use trustplane_testkit::proxy::{Answer, Fault, Match, Proxy, Rule};
use trustplane_testkit::{DEADLINE, Rules, Select, eventually, wait_for};

use crate::stage::{Stage, device, fixed, phase, pico};

/// An object of somebody else, with a name that we would need. The device that is hindered by it has the name of its kind.
async fn taken(stage: &Stage, kind: &str) -> Result<()> {
    let name = format!("hsm-agent-{kind}-one");
    let post = PostParams::default();
    let template = json!({
        "metadata": { "labels": { "theirs": name } }, "spec": { "containers": [{ "name": "c", "image": "none" }] },
    });
    let spec = json!({ "selector": { "matchLabels": { "theirs": name } }, "template": template });
    let named = |name: &str| json!({ "metadata": { "name": name } });
    match kind {
        "daemonset" => {
            let mut theirs = named("daemonset-discovery");
            theirs["spec"] = spec;
            stage
                .api::<DaemonSet>()
                .create(&post, &serde_json::from_value(theirs)?)
                .await?;
        }
        "deployment" => {
            let mut theirs = named(&name);
            theirs["spec"] = spec;
            stage
                .api::<Deployment>()
                .create(&post, &serde_json::from_value(theirs)?)
                .await?;
        }
        "account" => {
            let theirs = serde_json::from_value(named(&name))?;
            stage.api::<ServiceAccount>().create(&post, &theirs).await?;
        }
        "role" => {
            stage
                .api::<Role>()
                .create(&post, &serde_json::from_value(named(&name))?)
                .await?;
        }
        "binding" => {
            let mut theirs = named(&name);
            theirs["roleRef"] =
                json!({ "apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "theirs" });
            stage
                .api::<RoleBinding>()
                .create(&post, &serde_json::from_value(theirs)?)
                .await?;
        }
        "record" => {
            stage
                .api::<ConfigMap>()
                .create(&post, &serde_json::from_value(named(&name))?)
                .await?;
        }
        _ => {
            let theirs = serde_json::from_value(named(&format!("{name}-tls")))?;
            stage.api::<Secret>().create(&post, &theirs).await?;
        }
    }
    Ok(())
}

#[tokio::test]
async fn rights_used_are_rights_granted() -> Result<()> {
    let stage = Stage::new("rights").await?;
    let proxy = Proxy::start(stage.sandbox.plane()).await?;
    let mark = Mark::now(stage.sandbox.plane()).await?;
    // A server that does not stream lists is listed by pages: the right to list is for that.
    for resource in [
        "hsmdevices",
        "hsmpools",
        "daemonsets",
        "deployments",
        "pods",
        "configmaps",
        "secrets",
        "serviceaccounts",
        "roles",
        "rolebindings",
    ] {
        let streams = Match::streamed_lists().resource(resource);
        proxy.add(Rule::new(streams, Fault::Answer(Answer::invalid())));
    }
    let hindered = [
        "daemonset",
        "deployment",
        "account",
        "role",
        "binding",
        "record",
        "secret",
    ];
    for kind in hindered {
        taken(&stage, kind).await?;
    }
    let running = stage.start_through("first", &proxy).await?;
    let one = || fixed(json!([{ "name": "one", "tokenLabel": "one" }]));
    for kind in hindered {
        let spec: Value = if kind == "daemonset" { pico() } else { one() };
        device(&stage.sandbox, kind, spec).await?;
    }
    for kind in hindered {
        stage.told(kind, "NameTaken", "").await?;
    }
    // One that is served, whose pod is refused, and whose token goes.
    device(&stage.sandbox, "soft", one()).await?;
    stage.there::<Deployment>("hsm-agent-soft-one").await?;
    let pods = stage.api::<Pod>();
    let ours = Select::default().labels("app=hsm-agent-soft-one");
    let own = eventually(&pods, &ours, DEADLINE, |found| found.keys().next().cloned()).await?;
    phase(&stage.sandbox, &own, "Failed", "UnexpectedAdmissionError").await?;
    wait_for(&pods, &own, DEADLINE, |live| live.is_none()).await?;
    device(
        &stage.sandbox,
        "soft",
        fixed(json!([{ "name": "two", "tokenLabel": "two" }])),
    )
    .await?;
    stage.gone::<Deployment>("hsm-agent-soft-one").await?;
    stage.gone::<ConfigMap>("hsm-agent-soft-one").await?;
    stage.gone::<Secret>("hsm-agent-soft-one-tls").await?;
    stage.gone::<ServiceAccount>("hsm-agent-soft-one").await?;
    stage.gone::<Role>("hsm-agent-soft-one").await?;
    stage.gone::<RoleBinding>("hsm-agent-soft-one").await?;
    device(&stage.sandbox, "soft", pico()).await?;
    stage.there::<DaemonSet>("soft-discovery").await?;
    device(&stage.sandbox, "soft", one()).await?;
    stage.gone::<DaemonSet>("soft-discovery").await?;
    stage.kill(running).await?;

    let report = mark.since().await?.rights(&stage.account);
    assert!(report.beyond.is_empty(), "{report}");
    // Those on HSMSecrets and their Secrets, and on the claims of locations, are used where there are tokens
    // (bin/agent/tests/secrets/rights.rs).
    let served = rights().of(Place::Served);
    let own = granted(&Rules {
        cluster: Vec::new(),
        namespaced: served,
    });
    let unused: Vec<_> = report.unused.intersection(&own).collect();
    assert!(unused.is_empty(), "{report}");
    Ok(())
}
