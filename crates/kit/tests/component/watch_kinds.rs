//! Kinds that are forbidden or not served, and objects that cannot be read: each for itself.

use std::collections::BTreeMap;

use anyhow::Result;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use k8s_openapi::api::rbac::v1::{Role, RoleBinding};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::Api;
use kube::api::{DeleteParams, DynamicObject, GroupVersionKind, ListParams, PostParams};
use kube::core::ApiResource;
use serde::Deserialize;
use serde_json::json;
use trustplane_kit::watch::{
    Hash, Health, Metadata, Payload, Project, ProjectError, Slim, WatchSpec, Watches,
};
use trustplane_plan::kinds::{NAMESPACE, SECRET};
use trustplane_plan::{Fingerprinter, Keep, Kind, Meta, ObjectRef, Scope};
use trustplane_process::metrics::Metrics;
use trustplane_testkit::{ControlPlane, DEADLINE, Rules, Sandbox, until, wait_for, wait_for_some};

use crate::watch_rig::{OURS, Rig, hear, is_well, next, stands, tuning};

#[tokio::test]
async fn a_forbidden_kind_is_reported_for_itself_and_starts_when_allowed() -> Result<()> {
    let sandbox = Sandbox::new("watch").await?;
    let rules = Rules::default().allow("", "configmaps", &["list", "watch"]);
    let rig = Rig::on(sandbox, &rules, tuning()).await?;
    let namespace = rig.sandbox.namespace();
    let spec = WatchSpec::new(SECRET, Metadata(Keep::default())).namespaces([namespace]);
    let mut secrets = rig.watches.subscribe(spec);
    stands(&secrets.store(), |now| {
        now.health == Health::Forbidden && !now.ready
    })
    .await?;
    let mut config_maps = rig.settled(&["a"]).await?;

    let body =
        serde_json::from_value(json!({ "metadata": { "name": "s" }, "stringData": { "key": "value" } }))?;
    rig.sandbox
        .api::<Secret>()
        .create(&PostParams::default(), &body)
        .await?;
    let role = serde_json::from_value(json!({
        "metadata": { "name": "more" },
        "rules": [{ "apiGroups": [""], "resources": ["secrets"], "verbs": ["list", "watch"] }],
    }))?;
    rig.sandbox
        .api::<Role>()
        .create(&PostParams::default(), &role)
        .await?;
    let binding = serde_json::from_value(json!({
        "metadata": { "name": "more" },
        "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "more" },
        "subjects": [{ "kind": "ServiceAccount", "name": "watcher", "namespace": namespace }],
    }))?;
    let bindings = rig.sandbox.api::<RoleBinding>();
    bindings.create(&PostParams::default(), &binding).await?;
    assert_eq!(hear(&mut secrets, 1).await?, ["+s"]);
    is_well(&secrets.store()).await?;

    // The right is taken away: what is known stays.
    bindings.delete("more", &DeleteParams::default()).await?;
    let reads: Api<Secret> = Api::namespaced(rig.instance.client()?, namespace);
    until("the right to be gone", DEADLINE, || async {
        let refused = reads.list(&ListParams::default()).await.err();
        Ok(refused.filter(|error| matches!(error, kube::Error::Api(status) if status.code == 403)))
    })
    .await?;
    rig.proxy.cut_all();
    let standing = stands(&secrets.store(), |now| now.health == Health::Forbidden).await?;
    assert!(standing.ready && secrets.store().len() == 1);
    rig.create("b").await?;
    assert_eq!(hear(&mut config_maps, 1).await?, ["+b"]);
    Ok(())
}

const WIDGET: Kind = Kind::new(
    "watch.test.trustplane.io",
    "v1",
    "Widget",
    "widgets",
    Scope::Namespaced,
);

const DEFINITION: &str = "widgets.watch.test.trustplane.io";

fn widget_definition() -> Result<CustomResourceDefinition> {
    Ok(serde_json::from_value(json!({
        "metadata": { "name": DEFINITION },
        "spec": {
            "group": "watch.test.trustplane.io", "scope": "Namespaced",
            "names": { "kind": "Widget", "plural": "widgets", "singular": "widget" },
            "versions": [{ "name": "v1", "served": true, "storage": true, "schema": { "openAPIV3Schema": {
                "type": "object", "properties": { "spec": { "type": "object", "x-kubernetes-preserve-unknown-fields": true } },
            } } }],
        },
    }))?)
}

#[tokio::test]
async fn a_kind_that_is_not_served_yet_starts_when_it_appears_and_again() -> Result<()> {
    let plane = ControlPlane::own().await?;
    let sandbox = Sandbox::on(plane, "watch").await?;
    let watch = &["get", "list", "watch"];
    let rules = Rules::default()
        .allow("watch.test.trustplane.io", "widgets", watch)
        .allow("", "configmaps", watch);
    let rig = Rig::on(sandbox, &rules, tuning()).await?;
    let mut config_maps = rig.subscribe();
    let spec = WatchSpec::new(WIDGET, Metadata(Keep::default())).namespaces([rig.sandbox.namespace()]);
    let mut widgets = rig.watches.subscribe(spec);
    let store = widgets.store();
    stands(&store, |now| now.health == Health::NotServed && !now.ready).await?;
    rig.create("a").await?;
    assert_eq!(
        hear(&mut config_maps, 1).await?,
        ["+a"],
        "the other is not disturbed"
    );

    let definitions: Api<CustomResourceDefinition> = Api::all(rig.sandbox.client());
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk("watch.test.trustplane.io", "v1", "Widget"));
    let api: Api<DynamicObject> =
        Api::namespaced_with(rig.sandbox.client(), rig.sandbox.namespace(), &resource);
    for (name, heard) in [("first", vec!["+first"]), ("second", vec!["-first", "+second"])] {
        definitions
            .create(&PostParams::default(), &widget_definition()?)
            .await?;
        let established = |definition: &CustomResourceDefinition| {
            let conditions = definition
                .status
                .iter()
                .flat_map(|status| status.conditions.iter().flatten());
            conditions
                .into_iter()
                .any(|c| c.type_ == "Established" && c.status == "True")
        };
        wait_for_some(&definitions, DEFINITION, DEADLINE, established).await?;
        is_well(&store).await?;
        api.create(&PostParams::default(), &DynamicObject::new(name, &resource))
            .await?;
        // Whether the end of the first was told before its kind went away is up to the server.
        assert_eq!(hear(&mut widgets, heard.len()).await?, heard);
        definitions.delete(DEFINITION, &DeleteParams::default()).await?;
        stands(&store, |now| now.health == Health::NotServed && now.ready).await?;
        wait_for(&definitions, DEFINITION, DEADLINE, |live| live.is_none()).await?;
    }
    is_well(&config_maps.store()).await
}

/// A ConfigMap whose `count` is a number; one whose `count` is `panic` finds a fault in our code.
struct Count;

impl Project for Count {
    type Out = u32;

    fn payload(&self) -> Payload {
        Payload::Full
    }

    fn project(&self, _meta: &Meta, json: &str) -> Result<u32, ProjectError> {
        let ConfigMap { data, .. } = serde_json::from_str(json)?;
        let count = data.unwrap_or_default().remove("count").unwrap_or_default();
        assert_ne!(count, "panic", "a fault in a projection");
        count
            .parse()
            .map_err(|_| ProjectError::new("count is not a number"))
    }
}

#[tokio::test]
async fn an_object_that_cannot_be_read_disturbs_no_other() -> Result<()> {
    let rig = Rig::new("watch").await?;
    for name in ["broken", "fine", "panics"] {
        rig.create(name).await?;
    }
    let set = |count: &str| json!({ "data": { "count": count } });
    rig.patch("fine", set("1")).await?;
    rig.patch("panics", set("panic")).await?;
    let mut subscription = rig.watches.subscribe(rig.spec_of(Count));
    let store = subscription.store();
    assert_eq!(hear(&mut subscription, 1).await?, ["+fine"]);
    assert!(store.is_ready() && store.is_complete());
    let unreadable: BTreeMap<_, _> = store.unreadable().into_iter().collect();
    let name = |name: &str| ObjectRef::new(Some(rig.sandbox.namespace()), name);
    assert!(
        unreadable[&name("broken")].contains("count is not a number"),
        "{unreadable:?}"
    );
    assert!(unreadable[&name("panics")].contains("panicked"), "{unreadable:?}");
    assert!(
        rig.metrics.encode().contains("reason=\"Undecodable\"} 2"),
        "{}",
        rig.metrics.encode()
    );

    // Mended, it is there. Broken, it keeps its last state; it is not gone.
    rig.patch("broken", set("2")).await?;
    assert_eq!(hear(&mut subscription, 1).await?, ["+broken"]);
    rig.patch("fine", set("many")).await?;
    rig.patch("panics", set("3")).await?;
    assert_eq!(hear(&mut subscription, 1).await?, ["+panics"]);
    assert_eq!(store.get(&name("fine")).map(|object| object.value), Some(1));
    assert_eq!(store.unreadable().len(), 1);
    store.relist();
    rig.delete("fine").await?;
    assert_eq!(hear(&mut subscription, 1).await?, ["-fine"]);
    assert!(store.unreadable().is_empty());
    Ok(())
}

/// Shows every text that reaches a projection.
struct Spy(tokio::sync::mpsc::UnboundedSender<String>);

impl Project for Spy {
    type Out = ();

    fn payload(&self) -> Payload {
        Payload::Metadata
    }

    fn project(&self, _meta: &Meta, json: &str) -> Result<(), ProjectError> {
        self.0
            .send(json.to_owned())
            .map_err(|_| ProjectError::new("the spy is gone"))
    }
}

#[tokio::test]
async fn a_metadata_watch_never_receives_a_value() -> Result<()> {
    let rig = Rig::new("watch").await?;
    let body = serde_json::from_value(json!({
        "metadata": { "name": "s", "labels": { "test": "ours" }, "annotations": { "note": "kept" } },
        "stringData": { "key": "hunter2" },
    }))?;
    rig.sandbox
        .api::<Secret>()
        .create(&PostParams::default(), &body)
        .await?;
    let (texts, mut seen) = tokio::sync::mpsc::unbounded_channel();
    let spec = WatchSpec::new(SECRET, Spy(texts))
        .namespaces([rig.sandbox.namespace()])
        .labels(OURS);
    let mut subscription = rig.watches.subscribe(spec);
    assert_eq!(hear(&mut subscription, 1).await?, ["+s"]);
    let text = seen.try_recv()?;
    assert!(
        text.contains("PartialObjectMetadata") && !text.contains("aHVudGVyMg"),
        "{text}"
    );

    let keep = Metadata(Keep {
        annotations: true,
        manager: None,
    });
    let spec = WatchSpec::new(SECRET, keep)
        .namespaces([rig.sandbox.namespace()])
        .labels(OURS);
    let mut kept = rig.watches.subscribe(spec);
    assert!(
        matches!(next(&mut kept).await?, trustplane_kit::watch::Change::Applied { object, .. }
        if object.meta.annotations["note"] == "kept")
    );
    Ok(())
}

#[tokio::test]
async fn a_store_may_keep_a_slim_type_or_a_hash() -> Result<()> {
    #[derive(Deserialize)]
    struct Slim1 {
        data: BTreeMap<String, String>,
    }
    let rig = Rig::new("watch").await?;
    rig.create("a").await?;
    let mut slim = rig.watches.subscribe(rig.spec_of(Slim::<Slim1>::default()));
    let fingerprinter = Fingerprinter::new(&[9; 32]);
    let mut hashed = rig
        .watches
        .subscribe(rig.spec_of(Hash::new(&["data"], fingerprinter, Keep::default())));
    hear(&mut slim, 1).await?;
    hear(&mut hashed, 1).await?;
    let store = hashed.store();
    let hash = || store.list()[0].value.clone();
    let (first, name) = (hash(), ObjectRef::new(Some(rig.sandbox.namespace()), "a"));
    assert_eq!(
        slim.store()
            .get(&name)
            .map(|object| object.value.data["key"].clone()),
        Some("value".into())
    );

    rig.patch("a", json!({ "metadata": { "labels": { "more": "yes" } } }))
        .await?;
    hear(&mut slim, 1).await?;
    rig.patch("a", json!({ "data": { "key": "other" } })).await?;
    hear(&mut slim, 1).await?;
    assert_eq!(
        slim.store()
            .get(&name)
            .map(|object| object.value.data["key"].clone()),
        Some("other".into())
    );
    while hash() == first {
        hear(&mut hashed, 1).await?;
    }
    assert!(
        !format!("{:?}", store.list()).contains("other"),
        "the value is not there"
    );
    Ok(())
}

#[tokio::test]
async fn a_whole_typed_object_may_be_kept_and_cluster_wide() -> Result<()> {
    let rig = Rig::new("watch").await?;
    let everywhere = Rules::default().allow_everywhere("", "namespaces", &["list", "watch"]);
    let client = rig.sandbox.instance("everywhere", &everywhere).await?.client()?;
    let watches = Watches::new(client, tuning(), &Metrics::new());
    let whole = Slim::<k8s_openapi::api::core::v1::Namespace>::default();
    let subscription = watches.subscribe(WatchSpec::new(NAMESPACE, whole));
    let store = subscription.store();
    store.ready().await?;
    let ours = store.get(&ObjectRef::new(None, rig.sandbox.namespace()));
    let phase = ours
        .and_then(|object| object.value.status.clone())
        .and_then(|status| status.phase);
    assert_eq!(phase.as_deref(), Some("Active"));
    Ok(())
}
