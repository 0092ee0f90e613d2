//! Crashes at every write: the end state is the same, wherever the controller dies.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use anyhow::{Context, Result, ensure};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::apps::v1::{DaemonSet, Deployment};
use k8s_openapi::api::core::v1::{ConfigMap, PodSpec, Secret, ServiceAccount};
use k8s_openapi::api::rbac::v1::{Role, RoleBinding};
use kube::Api;
use kube::api::ListParams;
use serde_json::{Value, json};
use trustplane_api::hsm::HsmPool;
use trustplane_api::hsm::conditions;
use trustplane_hsm_controller::kinds;
use trustplane_kit::controller::Options;
use trustplane_plan::FINGERPRINT;
use trustplane_process::{secret, tls};
use trustplane_testkit::crash::{Picture, Scenario};
use trustplane_testkit::proxy::Moment;
use trustplane_testkit::{ControlPlane, DEADLINE, Sandbox, until, wait_for};

use crate::stage::{blank, device, entry, fixed, pico, play, pool, record, rules, setup, there};

const OURS: &str = "app.kubernetes.io/managed-by=hsm-secrets-operator";

/// What the picture leaves out and is the same in every run nevertheless.
async fn details(sandbox: &Sandbox) -> Result<Value> {
    let ours = ListParams::default().labels(OURS);
    let arguments = |spec: Option<PodSpec>| spec.map(|spec| spec.containers[0].args.clone());
    let mut all = BTreeMap::new();
    for made in sandbox.api::<Deployment>().list(&ours).await? {
        let spec = made.spec.and_then(|spec| spec.template.spec);
        all.insert(
            format!("Deployment {:?}", made.metadata.name),
            json!(arguments(spec)),
        );
    }
    for made in sandbox.api::<DaemonSet>().list(&ours).await? {
        let spec = made.spec.and_then(|spec| spec.template.spec);
        all.insert(
            format!("DaemonSet {:?}", made.metadata.name),
            json!(arguments(spec)),
        );
    }
    for made in sandbox.api::<ConfigMap>().list(&ours).await? {
        all.insert(format!("ConfigMap {:?}", made.metadata.name), json!(made.data));
    }
    for made in sandbox.api::<HsmPool>().list(&ours).await? {
        let status = timeless(json!(made.status));
        all.insert(format!("HSMPool {:?}", made.metadata.name), status);
    }
    let authority: Secret = sandbox.api().get("hsm-mtls-ca").await?;
    for made in sandbox.api::<Secret>().list(&ours).await? {
        let name = made.metadata.name.clone().context("a name")?;
        let keys: Vec<_> = made.data.iter().flatten().map(|(key, _)| key.clone()).collect();
        if name.ends_with("-tls") {
            is_good(&made, &authority).with_context(|| name.clone())?;
        }
        if name.ends_with("-record-key") {
            ensure!(
                entry(&made, "record.key").len() == 32,
                "{name}: no key of the record"
            );
        }
        all.insert(format!("Secret {name}"), json!(keys));
    }
    let text = serde_json::to_string(&all)?;
    Ok(serde_json::from_str(
        &text.replace(sandbox.namespace(), "the-namespace"),
    )?)
}

/// Values are random, but they fit together: the bundle is that of the CA, the key that of the certificate, and the end that
/// which the annotation tells.
fn is_good(made: &Secret, authority: &Secret) -> Result<()> {
    ensure!(
        entry(made, "ca.crt") == entry(authority, "current.crt"),
        "another CA"
    );
    let key = secret::Secret::new(entry(made, "tls.key"));
    tls::certified_key(&entry(made, "tls.crt"), &key)?;
    let annotations = made.metadata.annotations.clone().unwrap_or_default();
    let ends: Timestamp = annotations["hsm.j5t.io/certificate-ends"].parse()?;
    let left = ends.duration_since(Timestamp::now());
    let life = setup().lives.leaf;
    ensure!(
        left <= life && left > life - SignedDuration::from_hours(1),
        "it lives for {left}"
    );
    Ok(())
}

/// A status without its times.
fn timeless(value: Value) -> Value {
    const TIMES: [&str; 3] = ["lastAggregationTime", "lastTransitionTime", "lastSeen"];
    match value {
        Value::Object(map) => {
            let kept = map.into_iter().filter(|(key, _)| !TIMES.contains(&key.as_str()));
            kept.map(|(key, value)| (key, timeless(value))).collect()
        }
        // How long a token has not been served is a time as well.
        Value::Array(list) => {
            let kept = list.into_iter().filter(|item| item["type"] != conditions::SERVED);
            kept.map(timeless).collect()
        }
        other => other,
    }
}

/// Compares the details with those of the run that nobody disturbed, which comes first.
async fn same_details(sandbox: &Sandbox, first: &Mutex<Option<Value>>) -> Result<()> {
    // Both pools have said what there is to say.
    pool(sandbox, "soft-pool", |status| {
        let serials: Vec<_> = status
            .aggregated_devices
            .iter()
            .map(|token| token.serial_number.as_deref())
            .collect();
        status.available_devices == 1 && serials == [Some("two")]
    })
    .await?;
    pool(sandbox, "pico-pool", |status| status.phase.is_some()).await?;
    let wanted = first.lock().unwrap().clone();
    let Some(wanted) = wanted else {
        *first.lock().unwrap() = Some(details(sandbox).await?);
        return Ok(());
    };
    let last = Mutex::new(Value::Null);
    let same = until("the details of the undisturbed run", DEADLINE, || async {
        let now = details(sandbox).await?;
        let same = now == wanted;
        *last.lock().unwrap() = now;
        Ok(same.then_some(()))
    });
    let same = same.await;
    same.with_context(|| format!("wanted {wanted:#}, got {:#}", last.lock().unwrap()))
}

fn scenario(name: &'static str) -> Scenario {
    let first = Arc::new(Mutex::new(None));
    let picture = Picture::default()
        .labelled::<Deployment>(OURS)
        .labelled::<ServiceAccount>(OURS)
        .labelled::<Role>(OURS)
        .labelled::<RoleBinding>(OURS)
        .labelled::<ConfigMap>(OURS)
        .labelled::<Secret>(OURS)
        .labelled::<DaemonSet>(OURS)
        .labelled::<HsmPool>(OURS)
        .without("hsm.j5t.io/certificate-ends")
        // These are looked at one by one: values are random, arguments name the namespace, and most statuses are of other
        // controllers, who write them when they get to it.
        .without("data")
        .without("args")
        .without("status")
        .without("managedFields")
        .without("deployment.kubernetes.io/revision")
        // Its key is made anew in every namespace.
        .without(FINGERPRINT);
    Scenario::new(name, rules(), picture)
        .phase(|sandbox| {
            Box::pin(async move {
                let mut soft = fixed(json!([{ "name": "one", "tokenLabel": "one" }]));
                soft["pkcs11"]["autoProvision"] = true.into();
                device(sandbox, "soft", soft).await?;
                there::<Deployment>(sandbox, "hsm-agent-soft-one").await?;
                there::<Secret>(sandbox, "hsm-agent-soft-one-tls").await?;
                blank(sandbox, "hsm-agent-soft-one").await?;
                // An empty record goes with its agent.
                record(sandbox, "hsm-agent-soft-one", json!({ "state": null })).await?;
                device(sandbox, "pico", pico()).await?;
                there::<DaemonSet>(sandbox, "pico-discovery").await?;
                pool(sandbox, "pico-pool", |_| true).await?;
                Ok(())
            })
        })
        .phase(|sandbox| {
            Box::pin(async move {
                device(
                    sandbox,
                    "soft",
                    fixed(json!([{ "name": "two", "tokenLabel": "two" }])),
                )
                .await?;
                there::<Deployment>(sandbox, "hsm-agent-soft-two").await?;
                there::<Secret>(sandbox, "hsm-agent-soft-two-tls").await?;
                let gone: Api<Deployment> = sandbox.api();
                wait_for(&gone, "hsm-agent-soft-one", DEADLINE, |live| live.is_none()).await?;
                let gone: Api<Secret> = sandbox.api();
                wait_for(&gone, "hsm-agent-soft-one-tls", DEADLINE, |live| live.is_none()).await?;
                let gone: Api<ConfigMap> = sandbox.api();
                wait_for(&gone, "hsm-agent-soft-one", DEADLINE, |live| live.is_none()).await?;
                let gone: Api<ServiceAccount> = sandbox.api();
                wait_for(&gone, "hsm-agent-soft-one", DEADLINE, |live| live.is_none()).await?;
                let gone: Api<Role> = sandbox.api();
                wait_for(&gone, "hsm-agent-soft-one", DEADLINE, |live| live.is_none()).await?;
                let gone: Api<RoleBinding> = sandbox.api();
                wait_for(&gone, "hsm-agent-soft-one", DEADLINE, |live| live.is_none()).await?;
                Ok(())
            })
        })
        .phase(move |sandbox| {
            let first = first.clone();
            Box::pin(async move { same_details(sandbox, &first).await })
        })
}

async fn crash(name: &'static str, moment: Moment) -> Result<()> {
    ControlPlane::shared().await?.install(&kinds()).await?;
    let subject = play(setup(), Options::default());
    let report = scenario(name).crash_at_every_write(&subject, moment).await?;
    // Key and CA; two pools, a DaemonSet, statuses; an agent made, another in its place.
    assert!(
        report.crashes >= 24,
        "only {} writes were counted",
        report.crashes
    );
    let left = report.end.as_array().map(Vec::len);
    // One agent of seven objects, the SO-PIN of the other, two pools, a DaemonSet.
    assert_eq!(left, Some(11), "{:#}", report.end);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn after_every_write() -> Result<()> {
    crash("hsm-crash-after", Moment::After).await
}

#[tokio::test(flavor = "multi_thread")]
async fn before_every_write() -> Result<()> {
    crash("hsm-crash-before", Moment::Before).await
}
