//! The serving certificate of the OIDC discovery provider.

use std::sync::Arc;

use anyhow::{Context, Result};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::api::events::v1::Event;
use kube::Api;
use kube::api::{DeleteParams, ListParams};
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::ServerCertVerifier;
use rustls::pki_types::{ServerName, UnixTime};
use serde_json::{Value, json};
use trustplane_api::identity::{SPIRE_SERVER, names};
use trustplane_plan::kinds::{CONFIG_MAP, SECRET};
use trustplane_process::{secret, tls};
use trustplane_testkit::Log;

use crate::stage::{KINDS, Stage};

fn entry(live: &Value, key: &str) -> Vec<u8> {
    let text = live["data"][key].as_str().unwrap_or_default();
    STANDARD.decode(text).unwrap_or_default()
}

/// Whether a client that trusts the CA of the Secret takes its certificate for this name.
fn serves(live: &Value, name: &str) -> Result<()> {
    let key = secret::Secret::new(entry(live, "tls.key"));
    let pair = tls::certified_key(&entry(live, "tls.crt"), &key)?;
    let roots = tls::roots(&entry(live, "ca.crt"))?;
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let verifier = WebPkiServerVerifier::builder_with_provider(roots, provider).build()?;
    let (leaf, chain) = pair.cert.split_first().context("a certificate")?;
    let server = ServerName::try_from(name.to_owned())?;
    verifier
        .verify_server_cert(leaf, chain, &server, &[], UnixTime::now())
        .with_context(|| format!("for {name}"))?;
    Ok(())
}

/// Pieces of the private keys in a Secret: no two keys have one in common.
fn pieces(live: &Value, key: &str) -> Vec<String> {
    let pem = entry(live, key);
    let text = String::from_utf8_lossy(&pem).into_owned();
    // Lines of PEM but for the first, which tells of the type of the key.
    let mut pieces: Vec<String> = text
        .lines()
        .skip(2)
        .filter(|line| line.len() > 30 && !line.starts_with("---"))
        .map(str::to_owned)
        .collect();
    let encoded = live["data"][key].as_str().unwrap_or_default();
    pieces.extend(encoded.get(200..240).map(str::to_owned));
    assert!(pieces.len() > 1, "a key in {key}");
    pieces
}

async fn other_than(stage: &Stage, before: &Value) -> Result<Value> {
    let another = |live: &Value| {
        let data = |object: &Value, key: &str| object["data"][key].as_str().unwrap_or_default().to_owned();
        !data(live, "tls.key").is_empty() && data(live, "tls.crt") != data(before, "tls.crt")
    };
    stage.until(&SECRET, names::OIDC_CERT, another).await
}

#[tokio::test]
async fn certificate_fits_the_issuer_and_its_key_shows_nowhere() -> Result<()> {
    let log = Log::collect()?;
    let (stage, running) = Stage::with_quickstart("certificate").await?;
    let first = stage.read(&SECRET, names::OIDC_CERT).await?;
    assert_eq!(first["type"], "kubernetes.io/tls");
    let service = format!("{}.{}.svc.cluster.local", names::OIDC, stage.namespace());
    for name in [names::OIDC, &service, "oidc-discovery.example.org"] {
        serves(&first, name)?;
    }
    assert!(serves(&first, "other.example.org").is_err());
    let ends: Timestamp = first["metadata"]["annotations"]["trustplane.io/certificate-ends"]
        .as_str()
        .context("an annotation")?
        .parse()?;
    assert!(
        ends.duration_since(Timestamp::now()).as_hours() > 24 * 80,
        "{ends}"
    );

    stage
        .edit(&SPIRE_SERVER, json!({ "jwtIssuer": "https://other.example.org" }))
        .await?;
    let second = other_than(&stage, &first).await?;
    serves(&second, "other.example.org")?;
    stage
        .patch(&SECRET, names::OIDC_CERT, json!({ "data": { "tls.key": "" } }))
        .await?;
    let third = other_than(&stage, &second).await?;
    stage
        .delete(&SECRET, names::OIDC_CERT, &DeleteParams::default())
        .await?;
    let fourth = other_than(&stage, &third).await?;
    serves(&fourth, "other.example.org")?;
    running.kill().await?;

    let authority = stage.read(&SECRET, "identity-oidc-ca").await?;
    let mut keys: Vec<String> = [&first, &second, &third, &fourth]
        .into_iter()
        .flat_map(|live| pieces(live, "tls.key"))
        .collect();
    keys.extend(pieces(&authority, "current.key"));
    let mut shown = vec![("the log", log.text())];
    let events: Api<Event> = Api::namespaced(stage.sandbox.client(), "default");
    shown.push((
        "events",
        serde_json::to_string(&events.list(&ListParams::default()).await?)?,
    ));
    for kind in KINDS {
        shown.push(("an object", stage.read(&kind, "cluster").await?.to_string()));
    }
    let maps = stage.api(&CONFIG_MAP).list(&ListParams::default()).await?;
    shown.push(("ConfigMaps", serde_json::to_string(&maps)?));
    let secrets: Api<Secret> = stage.sandbox.api();
    let metadata = secrets.list_metadata(&ListParams::default()).await?;
    shown.push(("the metadata of Secrets", serde_json::to_string(&metadata)?));
    for (place, text) in &shown {
        assert!(!text.is_empty(), "nothing to look through in {place}");
        assert!(
            !keys.iter().any(|piece| text.contains(piece)),
            "a private key shows in {place}"
        );
    }
    Ok(())
}
