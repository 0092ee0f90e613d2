//! What survives a kill, and what the commands do.

use std::path::PathBuf;

use anyhow::Result;
use serde_json::{Value, json};

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

/// A data directory in which a hub has been.
async fn served_once() -> Result<(tempfile::TempDir, PathBuf)> {
    let root = tempfile::tempdir()?;
    let folder = root.path().join("hub");
    Process::start(&folder).await?.kill()?;
    Ok((root, folder))
}

#[tokio::test]
async fn commands_refuse_a_directory_without_a_database() -> Result<()> {
    let root = tempfile::tempdir()?;
    let folder = root.path().join("typo");
    for arguments in [
        &["sign-in"][..],
        &["client", "list"],
        &["client", "add", "--name=one"],
        &["client", "retire-keys", "c-1"],
    ] {
        let output = command(&folder, arguments, "")?;
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{arguments:?}");
        assert!(
            errors.starts_with("error: there is no database in the data directory")
                && errors.contains("typo"),
            "{errors}"
        );
    }
    assert!(!folder.exists(), "nothing is made");
    Ok(())
}

#[tokio::test]
async fn clients_can_be_added_twice_and_while_no_hub_runs() -> Result<()> {
    let (_root, folder) = served_once().await?;
    let pair = rcgen::KeyPair::generate()?;
    let pem = pair.public_key_pem();
    let added = json_of(&command(
        &folder,
        &["client", "add", "--name=one", "--id=c-1", "--json"],
        &pem,
    )?)?;
    assert_eq!(added["client_id"], "c-1");
    assert_eq!(added["urls"], json!(["https://hub.example"]));
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
    assert_eq!(list["items"][0]["last_contact"], json!(null));
    assert_eq!(list["items"][0]["cluster"], json!(null));
    Ok(())
}

#[tokio::test]
async fn clients_are_listed_with_cluster_and_last_contact() -> Result<()> {
    let root = tempfile::tempdir()?;
    let folder = root.path().join("hub");
    let process = Process::start(&folder).await?;
    let mut agent = Enrolled::new(&folder)?;
    agent.renew(&process, "j1").await?;
    assert_eq!(agent.event(&process, "added", "pod-1").await?.status, 200);
    let list = json_of(&command(&folder, &["client", "list", "--json"], "")?)?;
    let item = &list["items"][0];
    assert_eq!(
        (&item["id"], &item["cluster_uid"]),
        (&json!(agent.id), &json!("c"))
    );
    assert_eq!(item["cluster"], "test");
    assert!(item["last_contact"].is_string(), "{list}");
    let text = String::from_utf8(command(&folder, &["client", "list"], "")?.stdout)?;
    let mut lines = text.lines();
    assert_eq!(
        lines
            .next()
            .unwrap_or_default()
            .split_whitespace()
            .collect::<Vec<_>>(),
        ["CLIENT", "NAME", "KEYS", "CLUSTER", "LAST", "CONTACT", "ADDED"]
    );
    assert!(lines.next().unwrap_or_default().starts_with(&agent.id), "{text}");
    Ok(())
}

#[tokio::test]
async fn retire_keys_makes_room_for_further_keys() -> Result<()> {
    let (_root, folder) = served_once().await?;
    let add = || {
        let pem = rcgen::KeyPair::generate()?.public_key_pem();
        command(
            &folder,
            &["client", "add", "--name=one", "--id=c-1", "--json"],
            &pem,
        )
    };
    for _ in 0..4 {
        json_of(&add()?)?;
    }
    let full = add()?;
    let errors = String::from_utf8_lossy(&full.stderr);
    assert_eq!(full.status.code(), Some(1));
    assert!(
        errors.contains("the client c-1 has 4 keys already")
            && errors.contains("trustplane-hub client retire-keys c-1"),
        "{errors}"
    );
    let keys = || -> Result<Value> {
        Ok(json_of(&command(&folder, &["client", "list", "--json"], "")?)?["items"][0]["keys"].clone())
    };
    let newest = keys()?[0].clone();
    for removed in [3, 0] {
        let retired = json_of(&command(
            &folder,
            &["client", "retire-keys", "c-1", "--json"],
            "",
        )?)?;
        assert_eq!(
            retired,
            json!({"client_id": "c-1", "removed": removed, "kept": newest})
        );
    }
    assert_eq!(keys()?, json!([newest]));
    let text = String::from_utf8(command(&folder, &["client", "retire-keys", "c-1"], "")?.stdout)?;
    assert!(text.contains("removed keys: 0"), "{text}");
    json_of(&add()?)?;
    let unknown = command(&folder, &["client", "retire-keys", "c-2", "--json"], "")?;
    let errors = String::from_utf8_lossy(&unknown.stderr);
    assert_eq!(unknown.status.code(), Some(1));
    assert!(errors.starts_with("error: there is no client c-2"), "{errors}");
    Ok(())
}

#[tokio::test]
async fn keys_that_cannot_be_used_are_refused_with_the_rule() -> Result<()> {
    let (_root, folder) = served_once().await?;
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
