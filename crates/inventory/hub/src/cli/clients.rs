//! The commands `client add`, `client retire-keys` and `client list`.

use std::io::{self, Read, Write};

use jiff::Timestamp;
use serde_json::json;
use sqlx::{Connection, SqliteConnection};
use trustplane_process::args::BindAddress;

use super::CommandError;
use crate::args::HubArgs;
use crate::certificates;
use crate::folder::Folder;
use crate::store::StoreError;
use crate::store::identity::{self, AGENT_URLS, Added, CA_BUNDLE, add_client, clients};
use crate::time;
use crate::token::key::{self, MAX_PEM};

/// Reads the public key on stdin.
pub(super) fn read_key() -> Result<identity::ClientKey, CommandError> {
    let mut pem = String::new();
    let limit = u64::try_from(MAX_PEM).unwrap_or(u64::MAX) + 1;
    io::stdin().lock().take(limit).read_to_string(&mut pem)?;
    Ok(key::read(&pem)?)
}

/// Adds a client, or a key to a client.
pub(super) async fn add(
    connection: &mut SqliteConnection,
    id: &str,
    name: &str,
    key: &identity::ClientKey,
) -> Result<(), CommandError> {
    let now = Timestamp::now().as_millisecond();
    let begun = connection.begin_with("BEGIN IMMEDIATE").await;
    let mut transaction = begun.map_err(StoreError::from)?;
    match add_client(&mut transaction, id, name, key, now).await? {
        Added::Taken => return Err(CommandError::Taken),
        Added::Full => return Err(CommandError::Full(id.to_owned())),
        Added::New | Added::Key | Added::Known => {}
    }
    transaction.commit().await.map_err(StoreError::from)?;
    Ok(())
}

/// Prints what an agent needs to know of the hub and of itself.
pub(super) async fn introduce(
    connection: &mut SqliteConnection,
    folder: &Folder,
    id: &str,
    name: &str,
    json: bool,
    told: &HubArgs,
) -> Result<(), CommandError> {
    let published = identity::get(connection, AGENT_URLS).await?;
    let urls: Vec<String> = match published {
        Some(urls) => serde_json::from_str(&urls).map_err(|_| StoreError::Unreadable("list of URLs"))?,
        None => default_urls(told),
    };
    let bundle = match identity::get(connection, CA_BUNDLE).await? {
        Some(bundle) if bundle.is_empty() => None,
        // The file is newer than what was published, if the CA was rotated since.
        _ => Some(certificates::authority(folder, Timestamp::now())?.bundle_pem()),
    };
    let mut out = io::stdout();
    if json {
        let answer = json!({"client_id": id, "name": name, "urls": urls, "ca_bundle": bundle});
        writeln!(out, "{answer}")?;
        return Ok(());
    }
    writeln!(out, "client_id:    {id}")?;
    for url in &urls {
        writeln!(out, "platformURL:  {url}")?;
    }
    if let Some(bundle) = bundle {
        writeln!(out, "caBundle:\n{}", bundle.trim_end())?;
    }
    Ok(())
}

fn default_urls(told: &HubArgs) -> Vec<String> {
    if !told.url.is_empty() {
        return told.url.clone();
    }
    match &told.agents_bind_address {
        BindAddress::Off => Vec::new(),
        address => address
            .port()
            .map(|port| format!("https://localhost:{port}"))
            .into_iter()
            .collect(),
    }
}

/// Removes every key of a client but the newest.
pub(super) async fn retire_keys(
    connection: &mut SqliteConnection,
    id: &str,
    json: bool,
) -> Result<(), CommandError> {
    let begun = connection.begin_with("BEGIN IMMEDIATE").await;
    let mut transaction = begun.map_err(StoreError::from)?;
    let retired = identity::retire_keys(&mut transaction, id).await?;
    let retired = retired.ok_or_else(|| CommandError::UnknownClient(id.to_owned()))?;
    transaction.commit().await.map_err(StoreError::from)?;
    let (removed, kept) = (retired.removed, retired.kept);
    let mut out = io::stdout();
    if json {
        let answer = json!({"client_id": id, "removed": removed, "kept": kept});
        writeln!(out, "{answer}")?;
    } else {
        let kept = kept.as_deref().unwrap_or("none");
        writeln!(
            out,
            "client_id:    {id}\nremoved keys: {removed}\nkept key:     {kept}"
        )?;
    }
    Ok(())
}

/// Prints all clients.
pub(super) async fn list(connection: &mut SqliteConnection, json: bool) -> Result<(), CommandError> {
    let clients = clients(connection).await?;
    let mut out = io::stdout();
    if json {
        let items: Vec<_> = clients
            .iter()
            .map(|client| {
                json!({"id": client.id, "name": client.name, "keys": client.keys, "disabled": client.disabled,
                    "created": time::text(client.created), "cluster": client.cluster, "cluster_uid": client.cluster_uid,
                    "last_contact": client.last_contact.map(time::text)})
            })
            .collect();
        writeln!(out, "{}", json!({"items": items}))?;
        return Ok(());
    }
    writeln!(
        out,
        "{:<36} {:<24} {:<5} {:<24} {:<20} ADDED",
        "CLIENT", "NAME", "KEYS", "CLUSTER", "LAST CONTACT"
    )?;
    for client in clients {
        let contact = client.last_contact.map_or_else(|| "never".to_owned(), time::text);
        writeln!(
            out,
            "{:<36} {:<24} {:<5} {:<24} {contact:<20} {}",
            client.id,
            client.name,
            client.keys.len(),
            client.cluster.as_deref().unwrap_or("-"),
            time::text(client.created)
        )?;
    }
    Ok(())
}
