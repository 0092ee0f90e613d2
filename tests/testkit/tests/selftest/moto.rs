//! The AWS of the tests.

use std::net::{Ipv4Addr, TcpStream};

use anyhow::Result;
use serde_json::json;
use trustplane_testkit::{DEADLINE, Moto, until};

const REGION: &str = "eu-west-1";

#[tokio::test]
async fn every_moto_has_secrets_of_its_own_and_ends_with_its_value() -> Result<()> {
    let (one, two) = (Moto::start().await?, Moto::start().await?);
    assert_ne!(one.endpoint(), two.endpoint());
    let secret = json!({ "Name": "shop/db", "SecretString": "x" });
    one.secrets_manager(REGION, "CreateSecret", &secret).await?;
    let wanted = json!({ "SecretId": "shop/db" });
    let found = one.secrets_manager(REGION, "GetSecretValue", &wanted).await?;
    assert_eq!(found["SecretString"], "x");
    let missing = two
        .secrets_manager(REGION, "GetSecretValue", &wanted)
        .await
        .unwrap_err();
    assert!(
        format!("{missing:#}").contains("ResourceNotFoundException"),
        "{missing:#}"
    );

    let address = one.endpoint().trim_start_matches("http://").to_owned();
    drop(one);
    until("moto to end", DEADLINE, || {
        let refused = TcpStream::connect(&address).is_err();
        std::future::ready(Ok(refused.then_some(())))
    })
    .await
}

#[tokio::test]
async fn rights_count_once_they_are_enforced() -> Result<()> {
    let moto = Moto::start().await?;
    let user = moto.iam("CreateUser", &[("UserName", "a+b=c")]).await?;
    assert!(user.contains("<UserName>a+b=c</UserName>"), "{user}");
    moto.enforce_rights().await?;
    assert!(moto.iam("ListUsers", &[]).await.is_err());
    Ok(())
}

#[tokio::test]
async fn moto_never_listens_everywhere() {
    let error = Moto::start_on(Ipv4Addr::UNSPECIFIED.into()).await.unwrap_err();
    assert!(error.to_string().contains("every network"), "{error:#}");
}
