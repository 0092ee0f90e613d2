//! Manifests of the original apply as they are, and name the installation that serves them.

use anyhow::{Context, Result};
use kube::api::PatchParams;
use kube::core::Request;
use kube::{Api, Resource, ResourceExt};
use serde_json::{Value, json};
use trustplane_api::hsm::HsmSecret;
use trustplane_api::hsm::names::SECRET_FINALIZER;
use trustplane_testkit::Sandbox;

use crate::delivery::seed;
use crate::stage::{OPERATOR, PAIRS, Stage, content, owned};
use crate::token::Token;

const CERTIFICATE: [(&str, &str); 2] = [
    (
        "tls.crt",
        "-----BEGIN CERTIFICATE-----\nAA==\n-----END CERTIFICATE-----\n",
    ),
    (
        "tls.key",
        "-----BEGIN PRIVATE KEY-----\nAA==\n-----END PRIVATE KEY-----\n",
    ),
];

/// A manifest, where its secret is on the token, the Secret that it asks for, and the type of that.
struct Sample {
    text: &'static str,
    path: &'static str,
    secret: &'static str,
    secret_type: &'static str,
    pairs: &'static [(&'static str, &'static str)],
}

const SAMPLES: [Sample; 5] = [
    Sample {
        text: include_str!("samples/first-design.yaml"),
        path: "secrets/team-orders/orders-secret",
        secret: "orders-secret",
        secret_type: "Opaque",
        pairs: &PAIRS,
    },
    Sample {
        text: include_str!("samples/basic-example.yaml"),
        path: "secrets/queue/login",
        secret: "queue-login",
        secret_type: "Opaque",
        pairs: &[("user", "queue")],
    },
    Sample {
        text: include_str!("samples/kustomize-sample.yaml"),
        path: "hsmsecret-sample",
        secret: "sample-secret",
        secret_type: "Opaque",
        pairs: &[("token", "sample")],
    },
    Sample {
        text: include_str!("samples/helm-example.yaml"),
        path: "storefront-tls",
        secret: "storefront-certificate",
        secret_type: "kubernetes.io/tls",
        pairs: &CERTIFICATE,
    },
    Sample {
        text: include_str!("samples/exported.yaml"),
        path: "billing",
        secret: "billing",
        secret_type: "Opaque",
        pairs: &[("key", "billing")],
    },
];

/// Applies a text as `kubectl apply --server-side --validate=strict` does. Answers the name of the object.
async fn apply(sandbox: &Sandbox, text: &str) -> Result<String> {
    let text = text.replace("NAMESPACE", sandbox.namespace());
    let name = text.lines().find_map(|line| line.strip_prefix("  name: "));
    let name = name.context("a name")?.to_owned();
    let hand = PatchParams::apply("kubectl").validation_strict();
    let objects = Request::new(HsmSecret::url_path(&(), Some(sandbox.namespace())));
    let mut request = objects.patch(&name, &hand, &kube::api::Patch::Apply(Value::Null))?;
    *request.body_mut() = text.into_bytes();
    let made = sandbox.client().request::<HsmSecret>(request).await;
    made.with_context(|| format!("apply the sample {name}"))?;
    Ok(name)
}

#[tokio::test(flavor = "multi_thread")]
async fn w31_samples_of_the_original_reach_in_sync() -> Result<()> {
    let mut stage = Stage::new("samples", vec![Token::new("a").await?]).await?;
    // Samples and chart of the original do not agree how the operator is called.
    let names = &mut stage.setup.delivery.operator.names;
    names.insert("controller-manager".to_owned());
    for sample in &SAMPLES {
        stage.token().write(sample.path, sample.pairs)?;
    }
    let (_, running) = stage.start("first").await?;
    for sample in &SAMPLES {
        let name = apply(&stage.sandbox, sample.text).await?;
        let status = stage.in_sync(&name, sample.pairs).await?;
        let secret = stage.secrets().get(sample.secret).await?;
        assert_eq!(secret.type_.as_deref(), Some(sample.secret_type), "{name}");
        assert_eq!(status.secret_ref.unwrap().name.as_deref(), Some(sample.secret));
    }
    // A word that no generation has is refused by strict validation: the samples were not taken for want of a look.
    let unknown = SAMPLES[0].text.replace("hsmPath:", "hsmpath:");
    let error = apply(&stage.sandbox, &unknown).await.unwrap_err();
    assert!(format!("{error:#}").contains("hsmpath"), "{error:#}");
    stage.kill(running).await
}

/// HSMSecrets for others: by another name, in another namespace, and by none where the installation wants a name.
fn for_others() -> [(&'static str, Value); 3] {
    let spec = |parent: Value| {
        let mut spec = seed();
        spec["secretName"] = Value::Null;
        spec["parentRef"] = parent;
        spec
    };
    [
        ("other-name", spec(json!({ "name": "hsm-secrets-operator" }))),
        (
            "other-namespace",
            spec(json!({ "name": OPERATOR, "namespace": "elsewhere" })),
        ),
        ("nameless", spec(Value::Null)),
    ]
}

/// Fails unless an HSMSecret is as its owner has made it, and has no Secret.
async fn assert_untouched(stage: &Stage, made: &HsmSecret) -> Result<()> {
    let name = made.name_any();
    let live = stage.sandbox.api::<HsmSecret>().get(&name).await?;
    assert_eq!(live.resource_version(), made.resource_version(), "{name}");
    assert!(live.finalizers().is_empty() && live.status.is_none(), "{live:?}");
    assert!(stage.secrets().get_opt(&name).await?.is_none(), "{name}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn f03_hsm_secret_of_another_operator_is_not_touched() -> Result<()> {
    let mut stage = Stage::new("parents", vec![Token::new("a").await?]).await?;
    stage.token().write("shop/db", &PAIRS)?;
    stage.setup.delivery.operator.requires_ref = true;
    let looks = stage.count_looks();
    let (_, running) = stage.start("first").await?;
    let mut theirs = Vec::new();
    for (name, spec) in for_others() {
        theirs.push(stage.apply(name, spec).await?);
    }
    let mut ours = seed();
    ours["parentRef"] = json!({ "name": OPERATOR, "namespace": stage.sandbox.namespace() });
    stage.apply("db", ours.clone()).await?;
    stage.in_sync("db", &PAIRS).await?;
    looks.more(20).await?;
    for made in &theirs {
        assert_untouched(&stage, made).await?;
    }

    // One that goes to another operator keeps its finalizer and its Secret, and is not refreshed.
    ours["parentRef"]["name"] = "hsm-secrets-operator".into();
    let moved = stage.apply("db", ours).await?;
    stage.token().write("shop/db", &[("password", "second")])?;
    // One that comes from another operator is served, and shows that the change was seen.
    let mut spec = seed();
    spec["secretName"] = "nameless".into();
    spec["parentRef"] = json!({ "name": OPERATOR });
    stage.apply("nameless", spec).await?;
    stage.in_sync("nameless", &[("password", "second")]).await?;
    looks.more(20).await?;
    let all: Api<HsmSecret> = stage.sandbox.api();
    let live = all.get("db").await?;
    assert_eq!(live.resource_version(), moved.resource_version());
    assert_eq!(live.finalizers(), [SECRET_FINALIZER]);
    let kept = stage.secrets().get("db-credentials").await?;
    assert_eq!(content(&kept), owned(&PAIRS));
    stage.kill(running).await
}
