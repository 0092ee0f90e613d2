//! What the API server itself takes, with strict validation: manifests of every generation, and objects without a spec. And what
//! it refuses, by a message that names the field and the rule.

#[path = "definitions/copies.rs"]
mod copies;
#[path = "definitions/refused.rs"]
mod refused;

use anyhow::{Context, Result};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use trustplane_api::identity::{
    CLUSTER_FEDERATED_TRUST_DOMAIN, CLUSTER_SPIFFE_ID, CLUSTER_STATIC_ENTRY, ClusterFederatedTrustDomainSpec,
    ClusterSpiffeIdSpec, ClusterStaticEntrySpec, SPIFFE_CSI_DRIVER, SPIRE_AGENT, SPIRE_OIDC, SPIRE_SERVER,
    SpiffeCsiDriverSpec, SpireAgentSpec, SpireOidcDiscoveryProviderSpec, SpireServerSpec, ZTWIM, ZtwimSpec,
};
use trustplane_plan::Kind;

use copies::Copies;

const SAMPLES: [(&str, &str); 5] = [
    (
        "quickstart",
        include_str!("../../../../docs/guide/examples/identity/quickstart.yaml"),
    ),
    (
        "seed",
        include_str!("../../../../docs/guide/examples/identity/seed.yaml"),
    ),
    (
        "upstream-0.x",
        include_str!("../../../../docs/guide/examples/identity/upstream-0.x.yaml"),
    ),
    (
        "upstream-1.x",
        include_str!("../../../../docs/guide/examples/identity/upstream-1.x.yaml"),
    ),
    (
        "spiffe-kinds",
        include_str!("../../../../docs/guide/examples/identity/spiffe-kinds.yaml"),
    ),
];

const SINGLETONS: [Kind; 5] = [ZTWIM, SPIRE_SERVER, SPIRE_AGENT, SPIFFE_CSI_DRIVER, SPIRE_OIDC];

fn objects(manifest: &str) -> Result<Vec<Value>> {
    let objects: Vec<Value> = serde_saphyr::from_multiple(manifest).context("parse a sample")?;
    Ok(objects)
}

fn kind_of(object: &Value) -> Result<Kind> {
    let spiffe = [
        CLUSTER_SPIFFE_ID,
        CLUSTER_FEDERATED_TRUST_DOMAIN,
        CLUSTER_STATIC_ENTRY,
    ];
    let mut kinds = SINGLETONS.into_iter().chain(spiffe);
    let kind = kinds.find(|kind| object["apiVersion"] == kind.api_version() && object["kind"] == *kind.kind);
    kind.with_context(|| format!("{} {} is no kind of ours", object["apiVersion"], object["kind"]))
}

/// The spec as the Rust type of the kind reads and writes it.
fn through_types(kind: &Kind, spec: &Value) -> Result<Value> {
    fn through<T: DeserializeOwned + Serialize>(spec: &Value) -> Result<Value> {
        let read: T = serde_json::from_value(spec.clone())?;
        Ok(serde_json::to_value(read)?)
    }
    match kind.kind.as_ref() {
        "ZeroTrustWorkloadIdentityManager" => through::<ZtwimSpec>(spec),
        "SpireServer" => through::<SpireServerSpec>(spec),
        "SpireAgent" => through::<SpireAgentSpec>(spec),
        "SpiffeCSIDriver" => through::<SpiffeCsiDriverSpec>(spec),
        "SpireOIDCDiscoveryProvider" => through::<SpireOidcDiscoveryProviderSpec>(spec),
        "ClusterSPIFFEID" => through::<ClusterSpiffeIdSpec>(spec),
        "ClusterFederatedTrustDomain" => through::<ClusterFederatedTrustDomainSpec>(spec),
        _ => through::<ClusterStaticEntrySpec>(spec),
    }
}

#[tokio::test]
async fn samples_of_every_generation_are_taken_and_mean_the_same_to_the_types() -> Result<()> {
    let copies = Copies::install("samples").await?;
    for (sample, manifest) in SAMPLES {
        for object in objects(manifest)? {
            let kind = kind_of(&object)?;
            let told = copies.refusal(&kind, &object).await?;
            assert_eq!(told, None, "{sample}: {}", kind.kind);
            let stored = copies.rehearse(&kind, &object).await?;
            let spec = stored.data["spec"].clone();
            assert_eq!(through_types(&kind, &spec)?, spec, "{sample}: {}", kind.kind);
        }
    }
    copies.remove().await
}

/// The first example of the seed shows a status within a manifest.
#[tokio::test]
async fn status_in_a_manifest_is_left_out() -> Result<()> {
    let copies = Copies::install("status").await?;
    let mut object = objects(SAMPLES[1].1)?.remove(0);
    object["status"] = json!({
        "conditions": [{"type": "Ready", "status": "True"}],
        "operands": [{"name": "cluster", "kind": "SpireServer", "ready": "true"}],
    });
    assert_eq!(copies.refusal(&ZTWIM, &object).await?, None);
    let stored = copies.rehearse(&ZTWIM, &object).await?;
    assert_eq!(stored.data.get("status"), None);
    copies.remove().await
}

#[tokio::test]
async fn w05_objects_without_a_spec_are_taken_and_stay_changeable() -> Result<()> {
    let copies = Copies::install("bare").await?;
    for kind in SINGLETONS {
        let bare = json!({"metadata": {"name": "cluster"}});
        assert_eq!(copies.refusal(&kind, &bare).await?, None, "{}", kind.kind);
        copies.write(&kind, &bare).await?;
        let labelled = json!({"metadata": {"name": "cluster", "labels": {"a": "b"}}});
        assert_eq!(copies.refusal(&kind, &labelled).await?, None, "{}", kind.kind);
        copies.write(&kind, &labelled).await?;
        let condition = json!({
            "type": "Ready", "status": "False", "reason": "Failed", "message": "",
            "lastTransitionTime": "2026-07-07T08:00:00Z",
        });
        let stored = copies
            .write_status(&kind, &json!({"conditions": [condition]}))
            .await?;
        assert_eq!(
            stored.data["status"]["conditions"][0]["reason"], "Failed",
            "{}",
            kind.kind
        );
        let with_spec = json!({"metadata": {"name": "cluster"}, "spec": {}});
        assert_eq!(copies.refusal(&kind, &with_spec).await?, None, "{}", kind.kind);
        copies.write(&kind, &with_spec).await?;
    }
    copies.remove().await
}

/// A null that the API server stored would be present to rules, and no type could read it.
#[tokio::test]
async fn null_says_as_little_as_nothing() -> Result<()> {
    let copies = Copies::install("nulls").await?;
    let nulls = json!({"trustDomain": null, "labels": null, "tolerations": null, "resources": null});
    for kind in SINGLETONS {
        let nothing = copies.create(&kind, &json!({})).await?;
        assert_eq!(copies.create(&kind, &nulls).await?, nothing, "{}", kind.kind);
    }
    let server = copies
        .create(
            &SPIRE_SERVER,
            &json!({"logLevel": null, "persistence": null, "federation": null, "jwtKeyType": null}),
        )
        .await?;
    assert_eq!(server, copies.create(&SPIRE_SERVER, &json!({})).await?);
    copies.remove().await
}

#[tokio::test]
async fn singletons_have_the_name_cluster() -> Result<()> {
    let copies = Copies::install("names").await?;
    for kind in SINGLETONS {
        let other = json!({"metadata": {"name": "other"}, "spec": {}});
        let told = copies.refusal(&kind, &other).await?.unwrap_or_default();
        assert!(told.contains("metadata.name: must be 'cluster'"), "{told}");
    }
    copies.remove().await
}

#[tokio::test]
async fn volume_of_a_server_cannot_change_and_federation_cannot_go() -> Result<()> {
    let copies = Copies::install("transitions").await?;
    let spire = "spiffe://b.example/spire/server";
    let federation = |profile: &str, web: Value| {
        let mut endpoint = json!({"profile": profile});
        if !web.is_null() {
            endpoint["httpsWeb"] = web;
        }
        let with = json!([{
            "trustDomain": "b.example", "bundleEndpointUrl": "https://b.example", "bundleEndpointProfile": "https_spiffe",
            "endpointSpiffeId": spire,
        }]);
        json!({"federation": {"bundleEndpoint": endpoint, "federatesWith": with}})
    };
    let acme = json!({"acme": {"directoryUrl": "https://a.example/d", "domainName": "f.example", "email": "a@a.example"}});
    let serving = json!({"servingCert": {}});
    let size = |size: &str| json!({"persistence": {"size": size}});
    for (old, new, why) in [
        // What is absent counts as its default.
        (json!({}), size("1Gi"), None),
        (size("1Gi"), json!({}), None),
        (
            json!({}),
            size("2Gi"),
            Some("spec.persistence.size: cannot change"),
        ),
        (
            size("2Gi"),
            size("3Gi"),
            Some("spec.persistence.size: cannot change"),
        ),
        (
            size("2Gi"),
            json!({}),
            Some("spec.persistence.size: cannot change"),
        ),
        (
            size("2Gi"),
            json!({"persistence": {"size": "2Gi", "type": "pvc"}}),
            None,
        ),
        (
            json!({}),
            json!({"persistence": {"accessMode": "ReadWriteMany"}}),
            Some("spec.persistence.accessMode: cannot change"),
        ),
        (
            json!({"persistence": {"storageClass": "fast"}}),
            json!({"persistence": {}}),
            Some("spec.persistence.storageClass: cannot change"),
        ),
        (json!({}), federation("https_spiffe", Value::Null), None),
        (
            federation("https_spiffe", Value::Null),
            json!({}),
            Some("spec.federation: cannot be removed"),
        ),
        (
            federation("https_spiffe", Value::Null),
            federation("https_web", acme.clone()),
            Some("profile: cannot change"),
        ),
        (
            federation("https_web", acme.clone()),
            federation("https_web", serving),
            Some("acme, servingCert: the one cannot be replaced by the other"),
        ),
        (
            federation("https_web", acme.clone()),
            federation("https_web", acme),
            None,
        ),
    ] {
        copies.delete(&SPIRE_SERVER, "cluster").await?;
        let object = |spec: &Value| json!({"metadata": {"name": "cluster"}, "spec": spec});
        copies.write(&SPIRE_SERVER, &object(&old)).await?;
        let told = copies.refusal(&SPIRE_SERVER, &object(&new)).await?;
        match (told, why) {
            (None, None) => (),
            (Some(told), Some(why)) => assert!(told.contains(why), "{old} to {new}: {told}"),
            (told, why) => panic!("{old} to {new}: {told:?}, and not {why:?}"),
        }
        // An object without a spec is as one with an empty spec.
        let bare = json!({"metadata": {"name": "cluster"}});
        let (told, empty) = (
            copies.refusal(&SPIRE_SERVER, &bare).await?,
            copies.refusal(&SPIRE_SERVER, &object(&json!({}))).await?,
        );
        assert_eq!(
            told.is_some(),
            empty.is_some(),
            "{old} to nothing: {told:?}, {empty:?}"
        );
    }
    copies.remove().await
}

/// The webhook and the change policy decide about these, not the schema.
#[tokio::test]
async fn trust_domain_cluster_name_and_bundle_may_change() -> Result<()> {
    let copies = Copies::install("changes").await?;
    let object = |domain: &str, cluster: &str, bundle: &str| {
        json!({"metadata": {"name": "cluster"}, "spec": {
            "trustDomain": domain, "clusterName": cluster, "bundleConfigMap": bundle,
        }})
    };
    for kind in SINGLETONS {
        copies
            .write(&kind, &object("a.example", "a", "spire-bundle"))
            .await?;
        let told = copies.refusal(&kind, &object("b.example", "b", "b")).await?;
        assert_eq!(told, None, "{}", kind.kind);
    }
    copies.remove().await
}

#[tokio::test]
async fn senseless_specs_are_refused_by_field_and_rule() -> Result<()> {
    let copies = Copies::install("refusals").await?;
    let mut wrong = Vec::new();
    for (kind, spec, field, rule) in refused::specs() {
        let object = json!({"metadata": {"name": "cluster"}, "spec": spec});
        let told = copies.refusal(&kind, &object).await?.unwrap_or_default();
        if !told.contains(field) || !told.contains(rule) {
            wrong.push(format!(
                "{} {spec} should be refused for {field:?} by {rule:?}: {told:?}",
                kind.kind
            ));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    copies.remove().await
}

/// What the controller-manager writes: a Go struct with zero values, and the status as a whole.
#[tokio::test]
async fn writes_of_the_controller_manager_are_taken() -> Result<()> {
    let copies = Copies::install("writes").await?;
    let name = json!({"name": "cluster"});
    let id = json!({"metadata": name, "spec": {"spiffeIDTemplate": "spiffe://a/b", "ttl": "0s", "jwtTtl": "1h0m0s"}});
    copies.write(&CLUSTER_SPIFFE_ID, &id).await?;
    let stats = json!({"stats": {
        "namespacesSelected": 1, "namespacesIgnored": 0, "podsSelected": 2, "podEntryRenderFailures": 0,
        "entriesMasked": 0, "entriesToSet": 2, "entryFailures": 0,
    }});
    let stored = copies.write_status(&CLUSTER_SPIFFE_ID, &stats).await?;
    assert_eq!(stored.data["status"], stats);
    let entry = json!({"metadata": name, "spec": {
        "spiffeID": "spiffe://a/b", "parentID": "spiffe://a/c", "selectors": ["unix:uid:1"], "x509SVIDTTL": "0s",
        "jwtSVIDTTL": "0s",
    }});
    copies.write(&CLUSTER_STATIC_ENTRY, &entry).await?;
    let status = json!({"rendered": true, "masked": false, "set": true});
    let stored = copies.write_status(&CLUSTER_STATIC_ENTRY, &status).await?;
    assert_eq!(stored.data["status"], status);
    copies.remove().await
}
