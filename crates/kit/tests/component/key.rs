//! The key of the installation: one for all replicas.

use anyhow::Result;
use k8s_openapi::api::core::v1::Secret;
use kube::api::{DeleteParams, PostParams};
use serde_json::json;
use trustplane_kit::apply::{INSTALLATION_KEY, WriteError, installation_key, installation_key_rights};
use trustplane_kit::rights::Place;
use trustplane_testkit::audit::Mark;
use trustplane_testkit::{DEADLINE, Rules, wait_for};

use crate::write_rig::Rig;

async fn rig(name: &str) -> Result<Rig> {
    let rights = installation_key_rights();
    let rules = Rules {
        cluster: rights.wide(),
        namespaced: rights.of(Place::Home),
    };
    Rig::with(name, rules).await
}

/// The Secret as the installation makes it.
async fn empty(rig: &Rig) -> Result<()> {
    let secret = serde_json::from_value(json!({ "metadata": { "name": INSTALLATION_KEY } }))?;
    rig.sandbox
        .api::<Secret>()
        .create(&PostParams::default(), &secret)
        .await?;
    Ok(())
}

#[tokio::test]
async fn all_replicas_get_the_same_key() -> Result<()> {
    let rig = rig("key").await?;
    let mark = Mark::now(rig.sandbox.plane()).await?;
    let (client, namespace) = (&rig.clients.unfenced, rig.sandbox.namespace());
    let (a, b, c) = tokio::try_join!(
        installation_key(client, namespace),
        installation_key(client, namespace),
        installation_key(client, namespace),
    )?;
    let print = a.of_bytes(b"x");
    assert_eq!((&b.of_bytes(b"x"), &c.of_bytes(b"x")), (&print, &print));
    assert_eq!(
        installation_key(client, namespace).await?.of_bytes(b"x"),
        print,
        "also after a restart"
    );
    let audit = mark.since().await?;
    audit.assert_rights_used_are_rights_granted(rig.instance.account());
    let made = audit
        .by(&rig.instance)
        .writes()
        .iter()
        .filter(|write| write.succeeded())
        .count();
    assert_eq!(made, 1);
    // Another installation has another key.
    let secrets = rig.sandbox.api::<Secret>();
    secrets.delete(INSTALLATION_KEY, &DeleteParams::default()).await?;
    wait_for(&secrets, INSTALLATION_KEY, DEADLINE, |live| live.is_none()).await?;
    let error = installation_key(client, namespace).await.unwrap_err();
    assert!(
        error
            .to_string()
            .ends_with("it does not exist; the installation makes it, empty"),
        "{error}"
    );
    empty(&rig).await?;
    assert_ne!(installation_key(client, namespace).await?.of_bytes(b"x"), print);
    Ok(())
}

#[tokio::test]
async fn a_strangers_secret_of_that_name_is_left_alone() -> Result<()> {
    let rig = rig("key-foreign").await?;
    let secret: Secret = serde_json::from_value(json!({
        "metadata": { "name": INSTALLATION_KEY }, "stringData": { "key": "hunter2" },
    }))?;
    let secrets = rig.sandbox.api::<Secret>();
    let before = secrets
        .replace(INSTALLATION_KEY, &PostParams::default(), &secret)
        .await?;
    let error = installation_key(&rig.clients.unfenced, rig.sandbox.namespace())
        .await
        .unwrap_err();
    assert!(matches!(error, WriteError::Foreign { .. }), "{error:?}");
    assert!(!format!("{error} {error:?}").contains("hunter2"));
    assert_eq!(secrets.get(INSTALLATION_KEY).await?, before);
    Ok(())
}
