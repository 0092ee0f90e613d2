//! HSMDevices: each gets a pool and a DaemonSet, whatever generation its manifest is of.

use anyhow::{Context, Result};
use k8s_openapi::api::apps::v1::{DaemonSet, Deployment};
use kube::api::{Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use trustplane_api::hsm::HsmPool;
use trustplane_api::hsm::conditions::phase;
use trustplane_testkit::audit::Mark;
use trustplane_testkit::{DEADLINE, wait_for_some};

use crate::quiet::looked_at;
use crate::stage::{SERIAL, Stage, device, fixed, node, pico, report, second, token};

#[tokio::test]
async fn a_device_gets_a_pool_and_a_daemon_set_that_belong_to_it() -> Result<()> {
    let stage = Stage::new("device").await?;
    let (_, running) = stage.start("first").await?;
    let made = device(&stage.sandbox, "pico", pico()).await?;
    let pool: HsmPool = stage.there("pico-pool").await?;
    let set: DaemonSet = stage.there("pico-discovery").await?;
    for metadata in [&pool.metadata, &set.metadata] {
        let owners = metadata.owner_references.clone().unwrap_or_default();
        assert_eq!(owners.len(), 1);
        assert_eq!(
            (owners[0].kind.as_str(), owners[0].controller),
            ("HSMDevice", Some(true))
        );
        assert_eq!(Some(&owners[0].uid), made.metadata.uid.as_ref());
        let labels = metadata.labels.clone().unwrap_or_default();
        assert_eq!(labels["app.kubernetes.io/name"], "hsm-secrets-operator");
        assert_eq!(labels["hsm.j5t.io/device"], "pico");
    }
    assert_eq!(pool.spec.grace_period, "5m");
    let spec = pod_spec(&set)?;
    assert_eq!(spec["serviceAccountName"], "trustplane-discovery");
    assert_eq!(spec["containers"][0]["image"], "discovery:test");
    stage.kill(running).await
}

fn pod_spec(set: &DaemonSet) -> Result<Value> {
    let spec = set.spec.as_ref().and_then(|spec| spec.template.spec.as_ref());
    Ok(serde_json::to_value(spec.context("a pod spec")?)?)
}

#[tokio::test]
async fn manifests_of_all_generations_make_the_same_objects() -> Result<()> {
    let stage = Stage::new("generations").await?;
    let (_, running) = stage.start("first").await?;
    let selector = json!({ "vendorId": "20a0", "productId": "4230" });
    let pin = json!({ "name": "pin", "key": "pin" });
    let generations = [
        json!({
            "deviceType": "PicoHSM", "discovery": { "usb": selector }, "pkcs11LibraryPath": "/lib/p11.so",
            "pkcs11": { "pinSecret": pin }, "mirroring": { "enabled": true },
        }),
        json!({
            "deviceType": "PicoHSM", "discovery": { "usb": selector },
            "pkcs11": { "libraryPath": "/lib/p11.so", "slotId": 0, "pinSecret": pin }, "maxDevices": 10,
        }),
        json!({
            "deviceType": "PicoHSM", "discovery": { "usb": [selector] },
            "pkcs11": { "libraryPath": "/lib/p11.so", "pinSecret": pin },
        }),
    ];
    let mut made = Vec::new();
    for (n, spec) in generations.into_iter().enumerate() {
        let (name, place) = (format!("generation-{n}"), format!("node-{n}"));
        device(&stage.sandbox, &name, spec).await?;
        let set: DaemonSet = stage.there(&format!("{name}-discovery")).await?;
        node(&stage.sandbox, &name, &place, &report(&name, &[token(SERIAL)])).await?;
        let agent: Deployment = stage.there(&format!("hsm-agent-{name}-{SERIAL}")).await?;
        let both = serde_json::to_string(&(&set.spec, &agent.spec))?;
        // The only argument that says how old a manifest is; nothing is done with it.
        let both = both.replace(",\"--slot-id=0\"", "");
        made.push(both.replace(&name, "device").replace(&place, "node"));
    }
    assert_eq!(made[0], made[1]);
    assert_eq!(made[1], made[2]);
    stage.kill(running).await
}

/// Not even if we have the rights: the admin has not listed it.
#[tokio::test]
async fn a_namespace_that_is_not_listed_is_neither_read_nor_written() -> Result<()> {
    let mut stage = Stage::new("unlisted").await?;
    let looks = stage.count_looks();
    let elsewhere = second(&stage, "unlisted-other").await?;
    let mark = Mark::now(stage.sandbox.plane()).await?;
    device(&elsewhere, "pico", pico()).await?;
    let (instance, running) = stage.start("first").await?;
    device(&stage.sandbox, "pico", pico()).await?;
    stage.there::<DaemonSet>("pico-discovery").await?;
    looked_at(&looks, 30).await?;
    stage.kill(running).await?;
    let there = mark
        .since()
        .await?
        .by(&instance)
        .in_namespace(elsewhere.namespace());
    assert!(there.events().is_empty(), "{}", there.story());
    Ok(())
}

#[tokio::test]
async fn what_is_wrong_with_a_device_is_told_there_and_in_its_pool() -> Result<()> {
    let stage = Stage::new("faults").await?;
    let (_, running) = stage.start("first").await?;
    // The policy that refuses it is not installed here.
    let spec = json!({ "deviceType": "PicoHSM", "discovery": { "usb": "all of them" } });
    device(&stage.sandbox, "pico", spec).await?;
    let status = stage
        .pool("pico-pool", |status| {
            status.phase.as_deref() == Some(phase::ERROR)
        })
        .await?;
    let text = serde_json::to_string(&status.conditions)?;
    assert!(text.contains("discovery.usb"), "{text}");
    let events = stage.api::<k8s_openapi::api::events::v1::Event>();
    trustplane_testkit::eventually(&events, &Default::default(), DEADLINE, |found| {
        let mut notes = found.values().filter_map(|event| event.note.clone());
        notes.any(|note| note.contains("discovery.usb")).then_some(())
    })
    .await?;
    // Once it is mended, it is served.
    device(&stage.sandbox, "pico", pico()).await?;
    stage.there::<DaemonSet>("pico-discovery").await?;
    stage
        .pool("pico-pool", |status| {
            status.phase.as_deref() != Some(phase::ERROR)
        })
        .await?;
    stage.kill(running).await
}

#[tokio::test]
async fn a_directory_of_the_node_needs_the_consent_of_the_admin() -> Result<()> {
    let stage = Stage::new("directories").await?;
    let (_, running) = stage.start("first").await?;
    let token = |path: &str| {
        let directories = [json!({ "path": path })];
        fixed(json!([{ "name": "one", "tokenLabel": "one", "hostDirectories": directories }]))
    };
    device(&stage.sandbox, "soft", token("/var/lib/tokens/../../etc"))
        .await
        .unwrap_err();
    device(&stage.sandbox, "soft", token("/etc")).await?;
    let status = stage
        .pool("soft-pool", |status| {
            status.phase.as_deref() == Some(phase::ERROR)
        })
        .await?;
    let text = serde_json::to_string(&status.conditions)?;
    assert!(text.contains("hostDirectories"), "{text}");
    device(&stage.sandbox, "soft", token("/var/lib/tokens/one")).await?;
    let made = stage
        .there::<k8s_openapi::api::apps::v1::Deployment>("hsm-agent-soft-one")
        .await?;
    assert!(serde_json::to_string(&made.spec)?.contains("/var/lib/tokens/one"));
    stage.kill(running).await
}

#[tokio::test]
async fn what_somebody_changes_is_put_back() -> Result<()> {
    let stage = Stage::new("drift").await?;
    let (_, running) = stage.start("first").await?;
    device(&stage.sandbox, "pico", pico()).await?;
    let set: DaemonSet = stage.there("pico-discovery").await?;
    let patch = json!({ "spec": { "template": { "spec": { "containers": [{
        "name": "discovery", "image": "evil:latest",
    }] } } } });
    let sets = stage.api::<DaemonSet>();
    sets.patch(
        "pico-discovery",
        &PatchParams::default(),
        &Patch::Strategic(patch),
    )
    .await?;
    let (before, generation) = (pod_spec(&set)?, set.metadata.generation);
    wait_for_some(&sets, "pico-discovery", DEADLINE, |live| {
        live.metadata.generation > generation.map(|n| n + 1)
            && pod_spec(live).is_ok_and(|spec| spec == before)
    })
    .await?;
    stage.kill(running).await
}

#[tokio::test]
async fn a_device_whose_tokens_are_named_needs_no_discovery() -> Result<()> {
    let stage = Stage::new("static").await?;
    let (_, running) = stage.start("first").await?;
    device(&stage.sandbox, "hsm", pico()).await?;
    stage.there::<DaemonSet>("hsm-discovery").await?;
    device(
        &stage.sandbox,
        "hsm",
        fixed(json!([{ "name": "one", "tokenLabel": "one" }])),
    )
    .await?;
    stage.gone::<DaemonSet>("hsm-discovery").await?;
    let status = stage
        .pool("hsm-pool", |status| status.available_devices == 1)
        .await?;
    // A static token needs no report, and no agent serves it in this test.
    assert_eq!(
        (status.phase.as_deref(), status.expected_pods),
        (Some(phase::PARTIAL), 0)
    );
    stage.kill(running).await
}

/// One of the original: it is owned, and has the labels that the original gives it.
#[tokio::test]
async fn the_daemon_set_of_the_original_makes_room_for_ours() -> Result<()> {
    let stage = Stage::new("room").await?;
    let made = device(&stage.sandbox, "pico", pico()).await?;
    let labels = json!({
        "app.kubernetes.io/name": "hsm-secrets-operator", "app.kubernetes.io/component": "discovery",
        "hsm.j5t.io/device": "pico",
    });
    let theirs = json!({
        "metadata": {
            "name": "pico-discovery", "labels": labels,
            "ownerReferences": [{
                "apiVersion": "hsm.j5t.io/v1alpha1", "kind": "HSMDevice", "name": "pico",
                "uid": made.metadata.uid, "controller": true,
            }],
        },
        "spec": {
            "selector": { "matchLabels": labels },
            "template": {
                "metadata": { "labels": labels },
                "spec": { "containers": [{ "name": "discovery", "image": "theirs" }] },
            },
        },
    });
    let sets = stage.api::<DaemonSet>();
    let theirs = sets
        .create(&PostParams::default(), &serde_json::from_value(theirs)?)
        .await?;
    let (_, running) = stage.start("first").await?;
    wait_for_some(&sets, "pico-discovery", DEADLINE, |live| {
        let ours = pod_spec(live).is_ok_and(|spec| spec["containers"][0]["image"] == "discovery:test");
        ours && live.metadata.uid != theirs.metadata.uid
    })
    .await?;
    stage.kill(running).await
}
