//! The bundle on webhook configurations: exactly ours, and nothing else.

use anyhow::{Context, Result};
use jiff::Timestamp;
use k8s_openapi::api::admissionregistration::v1::{
    MutatingWebhookConfiguration, ValidatingWebhookConfiguration,
};
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};
use trustplane_kit::admission::{Effect, Judges};
use trustplane_process::ca::{Authority, Policy};
use trustplane_testkit::audit::Mark;
use trustplane_testkit::proxy::{Match, Verb};
use trustplane_testkit::{DEADLINE, wait_for_some};

use crate::admission_rig::{PROCESS, Replica, Rig, SECRET, bundles, clock, entry, webhook};

/// An object without what the API server counts, and without the bundles of these entries.
fn without_bundles(live: &ValidatingWebhookConfiguration, ours: &[&str]) -> Result<Value> {
    let mut live = serde_json::to_value(live)?;
    for field in ["resourceVersion", "generation", "managedFields"] {
        live["metadata"]
            .as_object_mut()
            .context("find metadata")?
            .remove(field);
    }
    for entry in live["webhooks"].as_array_mut().into_iter().flatten() {
        if ours.iter().any(|name| entry["name"] == *name) {
            entry["clientConfig"]
                .as_object_mut()
                .context("find a client")?
                .remove("caBundle");
        }
    }
    Ok(live)
}

async fn has_bundle(
    api: &Api<ValidatingWebhookConfiguration>,
    name: &str,
    entries: &[&str],
    bundle: &str,
) -> Result<ValidatingWebhookConfiguration> {
    wait_for_some(api, name, DEADLINE, |live| {
        let found = bundles(live);
        entries.iter().all(|entry| {
            let has =
                |(name, found): &(String, Option<String>)| name == entry && found.as_deref() == Some(bundle);
            found.iter().any(has)
        })
    })
    .await
}

#[tokio::test]
async fn our_entries_get_our_bundle_and_all_else_stays_as_it_is() -> Result<()> {
    let rig = Rig::new("bundle").await?;
    let replica = Replica::start(&rig, "keeper", &clock(), Judges::default()).await?;
    let declared = [
        webhook("one", Effect::Validating),
        webhook("two", Effect::Validating),
    ];
    let [one, two] = declared.each_ref().map(|webhook| entry(webhook, replica.at));
    let ours = [one.name.as_str(), two.name.as_str()];
    let theirs = Authority::create("theirs", Policy::default(), Timestamp::now())?.bundle_pem();
    let stranger = trustplane_testkit::Webhook {
        name: "stranger.test.trustplane.io".to_owned(),
        ca_bundle: Some(theirs.clone()),
        ..one.clone()
    };
    let all = [one.clone(), stranger, two.clone()];
    let made = rig.sandbox.register_validating(PROCESS, &all).await?;
    let other = rig
        .sandbox
        .register_validating("other", std::slice::from_ref(&one))
        .await?;

    replica.keep_bundle(&rig, Effect::Validating, &declared);
    let api: Api<ValidatingWebhookConfiguration> = Api::all(rig.sandbox.client());
    let (name, bundle) = (rig.sandbox.unique(PROCESS), replica.bundle());
    let kept = has_bundle(&api, &name, &ours, &bundle).await?;
    assert_eq!(without_bundles(&kept, &ours)?, without_bundles(&made, &ours)?);
    assert_eq!(
        bundles(&kept)[1].1.as_ref(),
        Some(&theirs),
        "the entry of a stranger is the stranger's"
    );

    // Somebody edits one of them by hand.
    let wrong = serde_json::to_value(k8s_openapi::ByteString(theirs.clone().into_bytes()))?;
    let edit = json!([{ "op": "replace", "path": "/webhooks/0/clientConfig/caBundle", "value": wrong }]);
    let edit: json_patch::Patch = serde_json::from_value(edit)?;
    api.patch(&name, &PatchParams::default(), &Patch::<()>::Json(edit))
        .await?;
    has_bundle(&api, &name, &ours, &bundle).await?;

    // From here on there is nothing to do, whatever makes it look.
    let (mark, journal) = (Mark::now(rig.sandbox.plane()).await?, rig.proxy.mark());
    let looks = Match::verb(Verb::Get)
        .resource("secrets")
        .name(SECRET)
        .by(&replica.instance);
    let before = rig.proxy.requests(&looks).len();
    let since = rig.proxy.requests_since(journal, &looks).len();
    for n in 1..=3 {
        let note = json!({ "metadata": { "annotations": { "note": n.to_string() } } });
        api.patch(&name, &PatchParams::default(), &Patch::Merge(note))
            .await?;
        rig.proxy.wait_for(&looks, before + n - since, DEADLINE).await?;
    }
    mark.since().await?.by(&replica.instance).assert_silent();
    let untouched = api.get(&rig.sandbox.unique("other")).await?;
    assert_eq!(
        untouched.metadata.resource_version,
        other.metadata.resource_version
    );
    Ok(())
}

/// Server-side apply would make us a holder of the whole entry: an upgrade without it would leave a rest that is no webhook,
/// and fail.
#[tokio::test]
async fn an_upgrade_may_drop_an_entry_and_bring_it_back() -> Result<()> {
    let rig = Rig::new("upgrade").await?;
    let replica = Replica::start(&rig, "keeper", &clock(), Judges::default()).await?;
    let declared = [webhook("one", Effect::Mutating), webhook("two", Effect::Mutating)];
    let both = declared.each_ref().map(|webhook| entry(webhook, replica.at));
    replica.keep_bundle(&rig, Effect::Mutating, &declared);
    let api: Api<MutatingWebhookConfiguration> = Api::all(rig.sandbox.client());
    let kept = async |count: usize| {
        wait_for_some(&api, &rig.sandbox.unique(PROCESS), DEADLINE, |live| {
            let entries = live.webhooks.iter().flatten();
            let bundles: Vec<_> = entries.map(|entry| &entry.client_config.ca_bundle).collect();
            bundles.len() == count && bundles.iter().all(|bundle| bundle.is_some())
        })
        .await
    };
    for entries in [&both[..], &both[..1], &both[..]] {
        rig.sandbox.register_mutating(PROCESS, entries).await?;
        kept(entries.len()).await?;
    }
    Ok(())
}
