//! What survives a kill, and what the commands do.

use anyhow::Result;
use serde_json::json;

use super::{Enrolled, Process, command, json_of, names};

#[tokio::test]
async fn an_acknowledged_event_survives_a_kill() -> Result<()> {
    let root = tempfile::tempdir()?;
    let folder = root.path().join("hub");
    let mut process = Process::start(&folder).await?;
    let mut agent = Enrolled::new(&folder)?;
    agent.renew(&process, "j1").await?;
    for number in 0..20 {
        let uid = format!("pod-{number:02}");
        assert_eq!(agent.event(&process, "added", &uid).await?.status, 200);
    }
    assert_eq!(agent.event(&process, "deleted", "pod-00").await?.status, 200);
    process.kill()?;
    let process = Process::start(&folder).await?;
    let wanted: Vec<String> = (1..20).map(|number| format!("pod-{number:02}")).collect();
    assert_eq!(names(&folder, &process).await?, wanted);
    assert_eq!(
        agent.event(&process, "modified", "pod-00").await?.status,
        200,
        "the token is still good"
    );
    assert_eq!(
        names(&folder, &process).await?,
        wanted,
        "and the tombstone is there"
    );
    Ok(())
}

#[tokio::test]
async fn a_link_of_the_command_is_for_the_running_hub() -> Result<()> {
    let root = tempfile::tempdir()?;
    let folder = root.path().join("hub");
    let process = Process::start(&folder).await?;
    let link = String::from_utf8(command(&folder, &["sign-in"], "")?.stdout)?;
    assert!(
        link.starts_with(&format!(
            "http://localhost:{}/sign-in?token=",
            process.console.port()
        )),
        "{link}"
    );
    let answer = json_of(&command(&folder, &["sign-in", "--json"], "")?)?;
    assert_eq!(answer["expires_in"], 600);
    Ok(())
}

#[tokio::test]
async fn a_second_hub_on_the_same_data_is_refused() -> Result<()> {
    let root = tempfile::tempdir()?;
    let folder = root.path().join("hub");
    let _process = Process::start(&folder).await?;
    let listeners = [
        "--agents-bind-address=0",
        "--console-bind-address=0",
        "--admin-bind-address=0",
    ];
    let output = command(&folder, &listeners, "")?;
    assert_eq!(output.status.code(), Some(1));
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(errors.contains("another trustplane-hub serves"), "{errors}");
    Ok(())
}

#[tokio::test]
async fn clients_can_be_added_before_the_first_start() -> Result<()> {
    let root = tempfile::tempdir()?;
    let folder = root.path().join("hub");
    let pair = rcgen::KeyPair::generate()?;
    let pem = pair.public_key_pem();
    let added = json_of(&command(
        &folder,
        &["client", "add", "--name=one", "--id=c-1", "--json"],
        &pem,
    )?)?;
    assert_eq!(added["client_id"], "c-1");
    assert_eq!(added["urls"], json!(["https://localhost:8443"]));
    let bundle = added["ca_bundle"].clone();
    let again = json_of(&command(
        &folder,
        &["client", "add", "--name=one", "--id=c-1", "--json"],
        &pem,
    )?)?;
    assert_eq!(
        again["ca_bundle"], bundle,
        "the CA stays, and adding twice is no fault"
    );
    let text =
        String::from_utf8(command(&folder, &["client", "add", "--name=one", "--id=c-1"], &pem)?.stdout)?;
    assert!(
        text.contains("client_id:    c-1") && text.contains("BEGIN CERTIFICATE"),
        "{text}"
    );
    let list = json_of(&command(&folder, &["client", "list", "--json"], "")?)?;
    assert_eq!(list["items"].as_array().map(Vec::len), Some(1), "{list}");
    assert_eq!(list["items"][0]["name"], "one");
    Ok(())
}

#[tokio::test]
async fn keys_that_cannot_be_used_are_refused_with_the_rule() -> Result<()> {
    let root = tempfile::tempdir()?;
    let folder = root.path().join("hub");
    let pair = rcgen::KeyPair::generate()?;
    let other = rcgen::KeyPair::generate_for(&rcgen::PKCS_ECDSA_P384_SHA384)?;
    json_of(&command(
        &folder,
        &["client", "add", "--name=one", "--json"],
        &pair.public_key_pem(),
    )?)?;
    for (pem, says) in [
        (
            other.public_key_pem(),
            "want an ECDSA public key on the curve P-256",
        ),
        (pair.serialize_pem(), "this is a private key"),
        (String::new(), "want one PEM block"),
        (pair.public_key_pem(), "the public key belongs to another client"),
    ] {
        let output = command(&folder, &["client", "add", "--name=two"], &pem)?;
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1));
        assert!(errors.starts_with("error: ") && errors.contains(says), "{errors}");
        assert!(!errors.contains("MIG"), "no key is printed: {errors}");
    }
    Ok(())
}
