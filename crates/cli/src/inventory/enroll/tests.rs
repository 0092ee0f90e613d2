use std::collections::BTreeMap;

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use kube::CustomResourceExt;
use trustplane_api::inventory::ObsykAgent;
use trustplane_testkit::{Log, Rules, Sandbox};

use super::*;

fn wanted(sandbox: &Sandbox, replace: bool) -> Wanted {
    Wanted {
        namespace: sandbox.namespace().to_owned(),
        cluster: "prod".to_owned(),
        secret: "obsyk-credentials".to_owned(),
        agent: "inventory".to_owned(),
        replace,
    }
}

async fn content(sandbox: &Sandbox) -> Result<BTreeMap<String, ByteString>> {
    let secret = sandbox.api::<Secret>().get("obsyk-credentials").await?;
    Ok(secret.data.unwrap_or_default())
}

/// What is said, and how it ends.
async fn say(wanted: &Wanted, url: &str, ca: Option<&str>, cluster: &Cluster) -> (String, Result<()>) {
    let platform = Platform::Outside(url.to_owned());
    let mut out = Vec::new();
    let ended = enroll(wanted, &platform, ca.map(str::to_owned), cluster, &mut out).await;
    (String::from_utf8_lossy(&out).into_owned(), ended)
}

const URL: &str = "https://hub.example.com";

#[tokio::test]
async fn enroll_writes_what_the_agent_needs_and_shows_no_private_key() -> Result<()> {
    let log = Log::collect()?;
    let sandbox = Sandbox::new("cli-enroll").await?;
    sandbox.plane().install(&[ObsykAgent::crd()]).await?;
    // What the help says that a person needs.
    let rules = Rules::default()
        .allow("", "secrets", &["get", "create", "patch"])
        .allow("obsyk.io", "obsykagents", &["get", "create", "patch"]);
    let person = sandbox.instance("person", &rules).await?;
    let cluster = Cluster::of(person.client()?, sandbox.namespace());

    let (said, ended) = say(&wanted(&sandbox, false), URL, Some("PEM"), &cluster).await;
    ended?;
    let made = content(&sandbox).await?;
    let private_key = String::from_utf8(made["private_key"].0.clone())?;
    let client_id = String::from_utf8(made["client_id"].0.clone())?;
    assert!(private_key.starts_with("-----BEGIN PRIVATE KEY-----\n"));
    let agent = sandbox.api::<ObsykAgent>().get("inventory").await?.spec;
    assert_eq!(
        (agent.platform_url.as_str(), agent.cluster_name.as_str()),
        (URL, "prod")
    );
    assert_eq!(agent.credentials_secret_ref.name, "obsyk-credentials");
    assert_eq!(agent.ca_bundle.as_deref(), Some("PEM"));
    for line in [
        format!("trustplane-hub client add --name prod --id {client_id} <<'EOF'"),
        format!("Secret {}/obsyk-credentials created", sandbox.namespace()),
        format!("ObsykAgent {}/inventory created", sandbox.namespace()),
    ] {
        assert!(said.contains(&line), "{line} is not in:\n{said}");
    }
    let body: String = private_key
        .lines()
        .filter(|line| !line.starts_with("---"))
        .collect();
    for text in [&said, &log.text()] {
        assert!(!text.contains("PRIVATE") && !text.replace('\n', "").contains(&body));
    }

    // Once more: refused, and nothing is touched.
    let (said, ended) = say(&wanted(&sandbox, false), URL, None, &cluster).await;
    let refused = format!("{:#}", ended.unwrap_err());
    assert!(refused.contains("add --replace") && said.is_empty(), "{refused}");
    assert_eq!(content(&sandbox).await?, made);

    // With --replace: a new key for the same client; the agent still knows the platform by its certificates.
    let (said, ended) = say(&wanted(&sandbox, true), URL, None, &cluster).await;
    ended?;
    assert!(
        said.contains(&format!("trustplane-hub client retire-keys {client_id}")),
        "{said}"
    );
    let agent = sandbox.api::<ObsykAgent>().get("inventory").await?.spec;
    assert_eq!(agent.ca_bundle.as_deref(), Some("PEM"));

    // And another platform, which has other certificates.
    let (_, ended) = say(
        &wanted(&sandbox, true),
        "https://other.example.com",
        None,
        &cluster,
    )
    .await;
    ended?;
    let replaced = content(&sandbox).await?;
    assert_eq!(replaced["client_id"], made["client_id"]);
    assert_ne!(replaced["private_key"], made["private_key"]);
    let agent = sandbox.api::<ObsykAgent>().get("inventory").await?.spec;
    assert_eq!(agent.platform_url, "https://other.example.com");
    assert_eq!(agent.ca_bundle, None);
    Ok(())
}

#[tokio::test]
async fn enroll_without_a_right_names_the_object_and_writes_nothing() -> Result<()> {
    let sandbox = Sandbox::new("cli-enroll-blind").await?;
    sandbox.plane().install(&[ObsykAgent::crd()]).await?;
    let rules = Rules::default().allow("", "secrets", &["get", "create", "patch"]);
    let person = sandbox.instance("person", &rules).await?;
    let cluster = Cluster::of(person.client()?, sandbox.namespace());
    let (said, ended) = say(&wanted(&sandbox, false), URL, None, &cluster).await;
    let told = format!("{:#}", ended.unwrap_err());
    assert!(
        told.contains("read ObsykAgent") && told.contains("you may not look at it"),
        "{told}"
    );
    assert!(said.is_empty());
    assert!(
        sandbox
            .api::<Secret>()
            .get_opt("obsyk-credentials")
            .await?
            .is_none()
    );
    Ok(())
}

fn process(namespace: &str, capabilities: &[&str]) -> Process {
    Process {
        namespace: namespace.to_owned(),
        capabilities: capabilities.iter().map(ToString::to_string).collect(),
        ..Process::default()
    }
}

#[test]
fn home_is_where_the_manager_with_the_capability_runs() {
    let hub = process("tp", &[]);
    let manager = process("tp", &["sync", "inventory"]);
    assert_eq!(home(&[hub.clone(), manager.clone()]).unwrap(), "tp");
    let told = home(&[hub, process("tp", &["sync"])]).unwrap_err().to_string();
    assert!(told.contains("capabilities.inventory.enabled=true"), "{told}");
    let told = home(&[process("a", &["inventory"]), manager])
        .unwrap_err()
        .to_string();
    assert!(told.contains("in a, tp: choose one with --namespace"), "{told}");
}

#[test]
fn wrong_arguments_are_refused_before_the_cluster_is_asked() {
    assert!(
        cluster_name("").is_err() && cluster_name(&"x".repeat(254)).is_err() && cluster_name("a\nb").is_err()
    );
    assert_eq!(cluster_name("prod").as_deref(), Ok("prod"));
    for wrong in ["hub.example.com", "ftp://hub", "https://"] {
        assert!(platform_url(wrong).is_err(), "{wrong}");
    }
    assert!(platform_url("http://hub").is_ok());
    let file = tempfile_with("no certificate");
    assert!(
        certificates(file.path())
            .unwrap_err()
            .to_string()
            .contains("no certificate")
    );
}

fn tempfile_with(text: &str) -> tempfile::NamedTempFile {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), text).unwrap();
    file
}
