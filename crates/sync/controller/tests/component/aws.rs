//! A store of AWS, played by moto, which enforces rights and is reached by TLS.

use std::fs;

use anyhow::Result;
use kube::api::PostParams;
use serde_json::{Value, json};
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use trustplane_cluster::pki::Authority;
use trustplane_process::secret::Secret;
use trustplane_process::tls::{CertifiedKeys, ServerTls, TlsListener, certified_key};
use trustplane_testkit::Moto;

use crate::stores::Shop;

const REGION: &str = "eu-west-1";
/// Puts TLS before a server, with a certificate that nobody trusts by himself. Gives its address and who vouches for it.
async fn behind_tls(moto: &Moto) -> Result<(String, String)> {
    let place = tempfile::tempdir()?;
    let authority = Authority::create(place.path(), "ca")?;
    let files = authority.server("moto", "moto", &["127.0.0.1".to_owned()])?;
    let key = Secret::new(fs::read(&files.key)?);
    let keys = CertifiedKeys::new();
    keys.swap(certified_key(&fs::read(&files.certificate)?, &key)?);
    let tcp = TcpListener::bind("127.0.0.1:0").await?;
    let endpoint = format!("https://{}", tcp.local_addr()?);
    let mut listener = TlsListener::new(tcp, ServerTls::new(keys).build()?);
    let behind = moto.endpoint().trim_start_matches("http://").to_owned();
    tokio::spawn(async move {
        while let Ok((mut outer, _)) = listener.accept().await {
            let behind = behind.clone();
            tokio::spawn(async move {
                let mut inner = TcpStream::connect(behind).await?;
                copy_bidirectional(&mut outer, &mut inner).await
            });
        }
    });
    Ok((endpoint, fs::read_to_string(&authority.files().certificate)?))
}

#[tokio::test]
async fn a_store_of_aws_has_keys_of_its_own_and_trusts_whom_it_names() -> Result<()> {
    let moto = Moto::start().await?;
    let secret = json!({"Name": "team/db", "SecretString": "{\"user\":\"u\"}"});
    moto.secrets_manager(REGION, "CreateSecret", &secret).await?;
    let reader = moto.reader().await?;
    let right = json!({"accessKeyId": reader.id, "secretAccessKey": reader.secret});
    moto.enforce_rights().await?;
    let (endpoint, authority) = behind_tls(&moto).await?;

    let shop = Shop::new("store-aws").await?;
    let mut wrong = right.clone();
    wrong["secretAccessKey"] = "guessed".into();
    for (name, keys) in [("right", &right), ("wrong", &wrong)] {
        let keys = json!({"metadata": {"name": name}, "stringData": keys});
        shop.stage
            .secrets()
            .create(&PostParams::default(), &serde_json::from_value(keys)?)
            .await?;
    }
    let (_instance, _running) = shop.stage.start("first").await?;
    let store = |keys: &str, more: Value| {
        let mut aws = json!({"region": REGION, "endpoint": endpoint, "credentials": {"secretName": keys}});
        aws.as_object_mut()
            .unwrap()
            .extend(more.as_object().cloned().unwrap());
        json!({"from": {"awsSecretsManager": aws}})
    };
    // Its authority is not known: nobody is asked.
    shop.open(store("right", json!({}))).await?;
    shop.ask("untrusted", "team/db", "").await?;
    let told = shop.stage.told("untrusted", "SecretFetchFailed").await?;
    let note = told.note.unwrap_or_default();
    assert!(note.contains("it cannot be reached"), "{note}");
    // Known, but the keys are wrong.
    shop.open(store("wrong", json!({"caBundle": authority}))).await?;
    shop.ask("stranger", "team/db", "").await?;
    let told = shop.stage.told("stranger", "SecretFetchFailed").await?;
    let note = told.note.unwrap_or_default();
    assert!(
        note.contains("access was denied") && !note.contains("guessed"),
        "{note}"
    );
    // Both are right: everybody is served, those that have failed before too.
    shop.open(store("right", json!({"caBundle": authority}))).await?;
    for pod in ["untrusted", "stranger"] {
        shop.stage.holds(pod, &[("user", "u")]).await?;
    }
    shop.close().await
}
