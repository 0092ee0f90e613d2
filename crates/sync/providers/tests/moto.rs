//! The provider `aws-secretsmanager` against moto: an AWS that we did not write. Faults on order are with the stub of the
//! unit tests; here is what a working AWS answers.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test stops at the first surprise"
)]

use std::collections::BTreeMap;
use std::fs;

use anyhow::{Context, Result};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value as Json, json};
use trustplane_process::metrics::Metrics;
use trustplane_sync_core::data::{Payload, Value};
use trustplane_sync_core::fetch::{FetchError, Fetched};
use trustplane_sync_providers::aws::{Aws, AwsSettings};
use trustplane_sync_providers::{Locator, Principal, Provider};
use trustplane_testkit::{Moto, READER, element};

const REGION: &str = "eu-west-1";

type Answer = Result<Fetched, FetchError>;

/// An AWS with secrets in it.
struct Account(Moto);

/// What Secrets Manager calls a secret that was made.
struct Made {
    arn: String,
    version: String,
}

impl Account {
    async fn open() -> Result<Self> {
        Ok(Self(Moto::start().await?))
    }

    async fn call(&self, operation: &str, parameters: Json) -> Result<Json> {
        self.0.secrets_manager(REGION, operation, &parameters).await
    }

    async fn create(&self, name: &str, text: &str) -> Result<Made> {
        let made = self
            .call("CreateSecret", json!({ "Name": name, "SecretString": text }))
            .await?;
        Ok(Made {
            arn: made["ARN"].as_str().context("an ARN")?.to_owned(),
            version: made["VersionId"].as_str().context("a version")?.to_owned(),
        })
    }

    /// A provider that is told these variables, and where AWS is.
    fn told(&self, variables: &[(&'static str, &str)]) -> Aws {
        let places = [("AWS_REGION", REGION), ("AWS_ENDPOINT_URL", self.0.endpoint())];
        let variables: BTreeMap<&str, String> = places
            .iter()
            .chain(variables)
            .map(|(name, value)| (*name, (*value).to_owned()))
            .collect();
        Aws::from_variables(move |name| variables.get(name).cloned(), &Metrics::new()).unwrap()
    }

    fn with_keys(&self, id: &str, secret: &str) -> Aws {
        self.told(&[("AWS_ACCESS_KEY_ID", id), ("AWS_SECRET_ACCESS_KEY", secret)])
    }

    fn provider(&self) -> Aws {
        self.with_keys("AKIDEXAMPLE", "example")
    }
}

fn locator(path: &str, version: Option<&str>) -> Locator {
    Locator {
        path: path.to_owned(),
        version: version.map(str::to_owned),
        on_behalf_of: Principal::Process,
    }
}

async fn fetch(aws: &Aws, path: &str, version: Option<&str>) -> Answer {
    aws.fetch(&[locator(path, version)]).await.remove(0)
}

async fn fetch_all(aws: &Aws, paths: &[&str]) -> Vec<Result<String, FetchError>> {
    let wanted: Vec<Locator> = paths.iter().map(|path| locator(path, None)).collect();
    aws.fetch(&wanted).await.into_iter().map(text).collect()
}

fn text(answer: Answer) -> Result<String, FetchError> {
    answer.map(|fetched| match fetched.payload {
        Payload::Bytes(value) => String::from_utf8(value.expose().to_vec()).unwrap(),
        Payload::Map(_) => panic!("a secret is not a map"),
    })
}

fn good(text: &str) -> Result<String, FetchError> {
    Ok(text.to_owned())
}

fn deleted() -> FetchError {
    FetchError::Invalid {
        what: "the secret is scheduled for deletion".to_owned(),
    }
    .with_code("InvalidRequestException")
}

fn missing() -> FetchError {
    FetchError::NotFound.with_code("ResourceNotFoundException")
}

#[tokio::test]
async fn a_secret_is_found_by_name_arn_version_and_stage() -> Result<()> {
    let account = Account::open().await?;
    let Made { arn, version: old } = account.create("shop/db", "one").await?;
    let second = json!({ "SecretId": "shop/db", "SecretString": "two" });
    let new = account.call("PutSecretValue", second).await?["VersionId"].clone();
    let third = json!({ "SecretId": "shop/db", "SecretString": "three", "VersionStages": ["next.try"] });
    account.call("PutSecretValue", third).await?;
    let aws = account.provider();
    let partial = &arn[..arn.len() - "-AbCdEf".len()];
    for (path, version, expected) in [
        ("shop/db", None, "two"),
        (&arn, None, "two"),
        (partial, None, "two"),
        ("shop/db", Some(old.as_str()), "one"),
        ("shop/db", new.as_str(), "two"),
        (&arn, Some(old.as_str()), "one"),
        ("shop/db", Some("AWSCURRENT"), "two"),
        ("shop/db", Some("AWSPREVIOUS"), "one"),
        (&arn, Some("next.try"), "three"),
    ] {
        assert_eq!(
            text(fetch(&aws, path, version).await),
            good(expected),
            "{path} {version:?}"
        );
    }
    let current = fetch(&aws, "shop/db", None).await?;
    assert_eq!(
        current.version.as_deref(),
        new.as_str(),
        "it says which version it is"
    );
    for version in ["AWSPENDING", "00000000-0000-0000-0000-000000000000"] {
        let answer = fetch(&aws, "shop/db", Some(version)).await;
        assert_eq!(answer.err(), Some(missing()), "{version}");
    }
    Ok(())
}

#[tokio::test]
async fn a_binary_secret_is_its_bytes() -> Result<()> {
    let account = Account::open().await?;
    let bytes: Vec<u8> = (0..=255).collect();
    for name in ["one", "two"] {
        let secret = json!({ "Name": name, "SecretBinary": STANDARD.encode(&bytes) });
        account.call("CreateSecret", secret).await?;
    }
    let aws = account.provider();
    let mut answers = vec![fetch(&aws, "one", None).await];
    // Two at once come by another operation.
    answers.extend(aws.fetch(&[locator("one", None), locator("two", None)]).await);
    assert_eq!(answers.len(), 3);
    for answer in answers {
        assert_eq!(answer?.payload, Payload::Bytes(Value::new(bytes.clone())));
    }
    Ok(())
}

#[tokio::test]
async fn what_is_not_to_be_had_has_one_cause_alone_and_among_others() -> Result<()> {
    let account = Account::open().await?;
    for name in ["there", "going", "gone", "back"] {
        account.create(name, name).await?;
    }
    for name in ["going", "back"] {
        account.call("DeleteSecret", json!({ "SecretId": name })).await?;
    }
    account
        .call("RestoreSecret", json!({ "SecretId": "back" }))
        .await?;
    let at_once = json!({ "SecretId": "gone", "ForceDeleteWithoutRecovery": true });
    account.call("DeleteSecret", at_once).await?;
    let aws = account.provider();
    let expected = [
        ("there", good("there")),
        ("never", Err(missing())),
        ("going", Err(deleted())),
        ("gone", Err(missing())),
        ("back", good("back")),
    ];
    for (path, expected) in &expected {
        assert_eq!(text(fetch(&aws, path, None).await), *expected, "{path}");
    }
    let answers = fetch_all(&aws, &expected.each_ref().map(|(path, _)| *path)).await;
    assert_eq!(answers, expected.map(|(_, answer)| answer));
    Ok(())
}

#[tokio::test]
async fn many_at_once_are_answered_in_their_order_whatever_is_missing() -> Result<()> {
    let account = Account::open().await?;
    let mut wanted = Vec::new();
    let mut expected = Vec::new();
    for number in 0..70 {
        let name = format!("shop/{number}");
        if number % 7 == 3 {
            wanted.push(name);
            expected.push(Err(missing()));
            continue;
        }
        let made = account.create(&name, &format!("value {number}")).await?;
        wanted.push(if number % 2 == 0 { name } else { made.arn });
        expected.push(good(&format!("value {number}")));
    }
    let paths: Vec<&str> = wanted.iter().map(String::as_str).collect();
    assert_eq!(fetch_all(&account.provider(), &paths).await, expected);
    Ok(())
}

#[tokio::test]
async fn a_batch_that_fails_as_a_whole_takes_nothing_from_the_others() -> Result<()> {
    let account = Account::open().await?;
    account.create("one", "1").await?;
    account.create("two", "2").await?;
    // Without any value moto refuses a batch with it.
    account.call("CreateSecret", json!({ "Name": "hollow" })).await?;
    let batch = json!({ "SecretIdList": ["one", "hollow"] });
    assert!(account.call("BatchGetSecretValue", batch).await.is_err());
    let answers = fetch_all(&account.provider(), &["one", "hollow", "two"]).await;
    assert_eq!(answers, [good("1"), Err(missing()), good("2")]);
    Ok(())
}

#[tokio::test]
async fn an_arn_leads_to_its_region() -> Result<()> {
    let account = Account::open().await?;
    account.create("shop/db", "here").await?;
    let secret = json!({ "Name": "shop/db", "SecretString": "there" });
    let other = account
        .0
        .secrets_manager("us-east-2", "CreateSecret", &secret)
        .await?;
    let arn = other["ARN"].as_str().context("an ARN")?;
    let answers = fetch_all(&account.provider(), &["shop/db", arn]).await;
    assert_eq!(answers, [good("here"), good("there")]);
    Ok(())
}

#[tokio::test]
async fn a_store_has_region_address_and_keys_of_its_own() -> Result<()> {
    let account = Account::open().await?;
    account.create("shop/db", "x").await?;
    let mut settings = AwsSettings::new("store".to_owned());
    settings.region(REGION);
    settings.endpoint(account.0.endpoint());
    settings.keys("AKIDEXAMPLE", "example", None);
    let aws = Aws::with(settings, &Metrics::new())?;
    assert_eq!(text(fetch(&aws, "shop/db", None).await), good("x"));
    Ok(())
}

/// moto checks signatures with the library of AWS's own tools, so ours are right if it takes them.
#[tokio::test]
async fn the_signature_is_the_one_that_aws_expects() -> Result<()> {
    let account = Account::open().await?;
    account.create("one", "1").await?;
    account.create("two", "2").await?;
    let keys = account.0.reader().await?;
    account.0.enforce_rights().await?;

    let reader = account.with_keys(&keys.id, &keys.secret);
    assert_eq!(fetch_all(&reader, &["one"]).await, [good("1")]);
    // The batch is refused, and does without.
    assert_eq!(fetch_all(&reader, &["one", "two"]).await, [good("1"), good("2")]);
    let impostor = account.with_keys(&keys.id, "guessed");
    assert!(fetch(&impostor, "one", None).await.is_err());
    Ok(())
}

#[tokio::test]
async fn a_role_is_taken_with_a_token_and_signs_with_what_it_was_given() -> Result<()> {
    let account = Account::open().await?;
    account.create("shop/db", "x").await?;
    let role = ("RoleName", "reader");
    let trust = ("AssumeRolePolicyDocument", "{}");
    let made = account.0.iam("CreateRole", &[role, trust]).await?;
    let policy = [role, ("PolicyName", "read"), ("PolicyDocument", READER)];
    account.0.iam("PutRolePolicy", &policy).await?;
    let place = tempfile::tempdir()?;
    let token = place.path().join("token");
    fs::write(&token, "of a service account\n")?;

    let aws = account.told(&[
        ("AWS_ROLE_ARN", &element(&made, "Arn")?),
        ("AWS_WEB_IDENTITY_TOKEN_FILE", token.to_str().context("a path")?),
    ]);
    assert_eq!(text(fetch(&aws, "shop/db", None).await), good("x"));
    // What STS gave is checked from here on, its session token with it.
    account.0.enforce_rights().await?;
    assert_eq!(text(fetch(&aws, "shop/db", None).await), good("x"));
    Ok(())
}

#[tokio::test]
async fn an_instance_gives_credentials_unless_it_must_not_be_asked() -> Result<()> {
    let account = Account::open().await?;
    account.create("shop/db", "x").await?;
    let instance = ("AWS_EC2_METADATA_SERVICE_ENDPOINT", account.0.endpoint());
    let aws = account.told(&[instance]);
    assert_eq!(text(fetch(&aws, "shop/db", None).await), good("x"));
    let alone = account.told(&[instance, ("AWS_EC2_METADATA_DISABLED", "true")]);
    let told = fetch(&alone, "shop/db", None).await.unwrap_err().to_string();
    assert_eq!(told, "access was denied; needed is credentials: none were found");
    Ok(())
}
