//! Who may speak to the hub: clients with their keys and tokens, and people with their sessions.

use sqlx::{Row, SqliteConnection};

use super::writer::{WriteTransaction, Writer};
use super::{IdentityReaders, StoreError};
use crate::secret::{Hash, Token};
use crate::time::{HOUR, MINUTE, Millis, SECOND};

/// How long an agent's token is good.
pub const TOKEN_LIFE: Millis = HOUR;
/// How long a link to sign in is good.
pub const SIGN_IN_LIFE: Millis = 10 * MINUTE;
/// How long a session lasts.
pub const SESSION_LIFE: Millis = 12 * HOUR;
/// How many keys a client may have, so that a new one can be used before the old one is taken away.
pub const MAX_KEYS: usize = 4;

/// The setting under which the running hub tells where its console is.
pub const CONSOLE_URL: &str = "console_url";
/// The setting under which the running hub tells where agents reach it, as a JSON list.
pub const AGENT_URLS: &str = "agent_urls";

/// The setting under which the running hub tells which CA agents must trust; empty if its certificate comes from files.
pub const CA_BUNDLE: &str = "ca_bundle";

/// A client as `client list` shows it.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Client {
    /// Its id.
    pub id: String,
    /// Its name, for people.
    pub name: String,
    /// When it was added.
    #[serde(skip)]
    pub created: Millis,
    /// The ids of its keys, the newest first.
    pub keys: Vec<String>,
    /// Whether it is refused.
    pub disabled: bool,
    /// The name of its cluster, once an agent has reported one.
    pub cluster: Option<String>,
    /// The uid of its cluster, once an agent has reported one.
    pub cluster_uid: Option<String>,
    /// The last request of its agent that was accepted.
    #[serde(skip)]
    pub last_contact: Option<Millis>,
}

/// A public key of a client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientKey {
    /// Its id.
    pub kid: String,
    /// The uncompressed point.
    pub point: Vec<u8>,
}

/// Why a client was not added.
#[derive(Debug, PartialEq, Eq)]
pub enum Added {
    /// The client and its key are there now.
    New,
    /// The client was there; it has one key more.
    Key,
    /// The client has this key already.
    Known,
    /// The client has as many keys as it may have.
    Full,
    /// The key belongs to another client.
    Taken,
}

/// Adds a client with a key, or a key to a client that is there.
pub async fn add_client(
    connection: &mut SqliteConnection,
    id: &str,
    name: &str,
    key: &ClientKey,
    now: Millis,
) -> Result<Added, StoreError> {
    let owner: Option<String> = sqlx::query_scalar("SELECT client FROM client_keys WHERE kid = ?1 LIMIT 1")
        .bind(&key.kid)
        .fetch_optional(&mut *connection)
        .await?;
    if let Some(owner) = owner {
        return Ok(if owner == id { Added::Known } else { Added::Taken });
    }
    let inserted =
        sqlx::query("INSERT INTO clients (id, name, created) VALUES (?1, ?2, ?3) ON CONFLICT DO NOTHING")
            .bind(id)
            .bind(name)
            .bind(now)
            .execute(&mut *connection)
            .await?;
    let is_new = inserted.rows_affected() == 1;
    let row = sqlx::query("SELECT count(*), max(created) FROM client_keys WHERE client = ?1")
        .bind(id)
        .fetch_one(&mut *connection)
        .await?;
    let (keys, newest): (i64, Option<Millis>) = (row.try_get(0)?, row.try_get(1)?);
    if usize::try_from(keys).unwrap_or(MAX_KEYS) >= MAX_KEYS {
        return Ok(Added::Full);
    }
    // The key that was added last is the newest, also if the clock was set back.
    let created = newest.map_or(now, |newest| now.max(newest + 1));
    sqlx::query("INSERT INTO client_keys (client, kid, point, created) VALUES (?1, ?2, ?3, ?4)")
        .bind(id)
        .bind(&key.kid)
        .bind(&key.point)
        .bind(created)
        .execute(&mut *connection)
        .await?;
    sqlx::query("INSERT INTO clusters (client, name, created) VALUES (?1, ?2, ?3) ON CONFLICT DO NOTHING")
        .bind(id)
        .bind(name)
        .bind(now)
        .execute(&mut *connection)
        .await?;
    Ok(if is_new { Added::New } else { Added::Key })
}

/// What [`retire_keys`] did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RetiredKeys {
    /// How many keys were removed.
    pub removed: u64,
    /// The id of the key that stays; `None` if the client had none.
    pub kept: Option<String>,
}

/// Removes every key of a client but the newest; `None` if there is no such client. Tokens that were issued before stay good until they
/// expire.
pub async fn retire_keys(
    connection: &mut SqliteConnection,
    client: &str,
) -> Result<Option<RetiredKeys>, StoreError> {
    let known = sqlx::query("SELECT 1 FROM clients WHERE id = ?1")
        .bind(client)
        .fetch_optional(&mut *connection)
        .await?;
    if known.is_none() {
        return Ok(None);
    }
    let kept: Option<String> =
        sqlx::query_scalar("SELECT kid FROM client_keys WHERE client = ?1 ORDER BY created DESC LIMIT 1")
            .bind(client)
            .fetch_optional(&mut *connection)
            .await?;
    let removed = sqlx::query("DELETE FROM client_keys WHERE client = ?1 AND kid <> ?2")
        .bind(client)
        .bind(&kept)
        .execute(&mut *connection)
        .await?;
    Ok(Some(RetiredKeys {
        removed: removed.rows_affected(),
        kept,
    }))
}

/// All clients, by name.
pub async fn clients(connection: &mut SqliteConnection) -> Result<Vec<Client>, StoreError> {
    let rows = sqlx::query(
        "SELECT c.id, c.name, c.created, c.disabled, \
         (SELECT json_group_array(kid) FROM (SELECT kid FROM client_keys k WHERE k.client = c.id ORDER BY created DESC)), \
         l.name, l.uid, l.last_contact \
         FROM clients c LEFT JOIN clusters l ON l.client = c.id ORDER BY c.name, c.id",
    )
    .fetch_all(connection)
    .await?;
    rows.iter()
        .map(|row| {
            let keys: String = row.try_get(4)?;
            let cluster_uid: Option<String> = row.try_get(6)?;
            let cluster: Option<String> = row.try_get(5)?;
            Ok(Client {
                // Before the first request the cluster has the name of the client.
                cluster: cluster.filter(|_| cluster_uid.is_some()),
                cluster_uid,
                last_contact: row.try_get(7)?,
                id: row.try_get(0)?,
                name: row.try_get(1)?,
                created: row.try_get(2)?,
                disabled: row.try_get::<i64, _>(3)? != 0,
                keys: serde_json::from_str(&keys).map_err(|_| StoreError::Unreadable("list of keys"))?,
            })
        })
        .collect()
}

/// The keys of a client that may sign; none for a client that is unknown or disabled.
pub async fn keys(readers: &IdentityReaders, client: &str) -> Result<Vec<ClientKey>, StoreError> {
    let rows = sqlx::query(
        "SELECT k.kid, k.point FROM client_keys k JOIN clients c ON c.id = k.client \
         WHERE c.id = ?1 AND c.disabled = 0 ORDER BY k.created DESC",
    )
    .bind(client)
    .fetch_all(readers.pool())
    .await?;
    rows.iter()
        .map(|row| {
            Ok(ClientKey {
                kid: row.try_get(0)?,
                point: row.try_get(1)?,
            })
        })
        .collect()
}

/// Issues a token for an assertion that was not used before; `false` if it was.
pub async fn issue_token(
    writer: &Writer,
    client: String,
    jti: Hash,
    jti_expires: Millis,
    token: Hash,
) -> Result<bool, StoreError> {
    writer
        .run(move |transaction: &mut WriteTransaction| {
            Box::pin(async move {
                let seen = sqlx::query(
                    "INSERT INTO jti_seen (client, jti, expires) VALUES (?1, ?2, ?3) ON CONFLICT DO NOTHING",
                )
                .bind(&client)
                .bind(jti.as_bytes())
                .bind(jti_expires)
                .execute(&mut transaction.connection)
                .await?;
                if seen.rows_affected() == 0 {
                    return Ok(false);
                }
                sqlx::query("INSERT INTO tokens (hash, client, expires) VALUES (?1, ?2, ?3)")
                    .bind(token.as_bytes())
                    .bind(&client)
                    .bind(transaction.now + TOKEN_LIFE)
                    .execute(&mut transaction.connection)
                    .await?;
                Ok(true)
            })
        })
        .await
}

/// Who an agent is, by its token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Agent {
    /// Its client.
    pub client: String,
    /// The row of its cluster.
    pub cluster: i64,
}

/// The agent that a token was issued to, if the token is still good.
pub async fn agent(readers: &IdentityReaders, token: Hash, now: Millis) -> Result<Option<Agent>, StoreError> {
    let row = sqlx::query(
        "SELECT c.id, l.id FROM tokens t JOIN clients c ON c.id = t.client JOIN clusters l ON l.client = c.id \
         WHERE t.hash = ?1 AND t.expires > ?2 AND c.disabled = 0",
    )
    .bind(token.as_bytes())
    .bind(now)
    .fetch_optional(readers.pool())
    .await?;
    row.map(|row| {
        Ok(Agent {
            client: row.try_get(0)?,
            cluster: row.try_get(1)?,
        })
    })
    .transpose()
}

/// Keeps a new link to sign in.
pub async fn add_sign_in(connection: &mut SqliteConnection, now: Millis) -> Result<Token, StoreError> {
    let token = Token::random();
    sqlx::query("INSERT INTO sign_in_tokens (hash, expires) VALUES (?1, ?2)")
        .bind(token.hash().as_bytes())
        .bind(now + SIGN_IN_LIFE)
        .execute(connection)
        .await?;
    Ok(token)
}

/// Uses up a link to sign in; `None` if it is unknown, used or too old. The answer is the token of a new session.
pub async fn sign_in(writer: &Writer, link: Hash) -> Result<Option<Token>, StoreError> {
    writer
        .run(move |transaction: &mut WriteTransaction| {
            Box::pin(async move {
                let used = sqlx::query("DELETE FROM sign_in_tokens WHERE hash = ?1 AND expires > ?2")
                    .bind(link.as_bytes())
                    .bind(transaction.now)
                    .execute(&mut transaction.connection)
                    .await?;
                if used.rows_affected() == 0 {
                    return Ok(None);
                }
                let session = Token::random();
                sqlx::query("INSERT INTO sessions (hash, expires) VALUES (?1, ?2)")
                    .bind(session.hash().as_bytes())
                    .bind(transaction.now + SESSION_LIFE)
                    .execute(&mut transaction.connection)
                    .await?;
                Ok(Some(session))
            })
        })
        .await
}

/// Whether a session is good.
pub async fn has_session(readers: &IdentityReaders, session: Hash, now: Millis) -> Result<bool, StoreError> {
    let found = sqlx::query("SELECT 1 FROM sessions WHERE hash = ?1 AND expires > ?2")
        .bind(session.as_bytes())
        .bind(now)
        .fetch_optional(readers.pool())
        .await?;
    Ok(found.is_some())
}

/// Ends a session.
pub async fn sign_out(writer: &Writer, session: Hash) -> Result<(), StoreError> {
    writer
        .run(move |transaction: &mut WriteTransaction| {
            Box::pin(async move {
                sqlx::query("DELETE FROM sessions WHERE hash = ?1")
                    .bind(session.as_bytes())
                    .execute(&mut transaction.connection)
                    .await?;
                Ok(())
            })
        })
        .await
}

/// Removes what has expired.
pub async fn forget_expired(transaction: &mut WriteTransaction) -> Result<(), StoreError> {
    // An assertion is remembered a little longer than it could be used, so that no clock of ours decides.
    let used = transaction.now - 10 * SECOND;
    for (statement, before) in [
        ("DELETE FROM jti_seen WHERE expires < ?1", used),
        ("DELETE FROM tokens WHERE expires < ?1", transaction.now),
        ("DELETE FROM sign_in_tokens WHERE expires < ?1", transaction.now),
        ("DELETE FROM sessions WHERE expires < ?1", transaction.now),
    ] {
        sqlx::query(statement)
            .bind(before)
            .execute(&mut transaction.connection)
            .await?;
    }
    Ok(())
}

/// Writes a setting for the commands that work on the same database.
pub async fn set(connection: &mut SqliteConnection, name: &str, value: &str) -> Result<(), StoreError> {
    sqlx::query("INSERT INTO settings (name, value) VALUES (?1, ?2) ON CONFLICT (name) DO UPDATE SET value = excluded.value")
        .bind(name)
        .bind(value)
        .execute(connection)
        .await?;
    Ok(())
}

/// Reads a setting.
pub async fn get(connection: &mut SqliteConnection, name: &str) -> Result<Option<String>, StoreError> {
    let value = sqlx::query_scalar("SELECT value FROM settings WHERE name = ?1")
        .bind(name)
        .fetch_optional(connection)
        .await?;
    Ok(value)
}
