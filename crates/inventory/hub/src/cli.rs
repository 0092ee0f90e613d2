//! The command line of `trustplane-hub`: serving, and commands on the database of a hub that may be running.

mod clients;

use std::error::Error;
use std::io::{self, IsTerminal, Write};
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use jiff::Timestamp;
use serde_json::json;
use sqlx::{Connection, SqliteConnection};
use trustplane_process::clock::SystemClock;
use trustplane_process::frame::{self, Frame, Program};

use crate::api::stream::SESSION_CHECK;
use crate::app::Rates;
use crate::args::{Arguments, ClientCommand, Command, HubArgs};
use crate::certificates::CertificateError;
use crate::folder::{Folder, FolderError, choose};
use crate::secret::random_id;
use crate::serve::{Config, Hub, ProcessContext, start};
use crate::store::identity::{self, CONSOLE_URL, MAX_KEYS, SIGN_IN_LIFE, add_sign_in};
use crate::store::writer::WriteTransaction;
use crate::store::{self, StoreError};
use crate::time::SECOND;
use crate::token::key::KeyError;

/// Why a command failed.
#[derive(Debug, thiserror::Error)]
pub enum CommandError {
    /// The data directory.
    #[error(transparent)]
    Folder(#[from] FolderError),
    /// The database.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The CA.
    #[error(transparent)]
    Certificate(#[from] CertificateError),
    /// The key.
    #[error("the public key on stdin cannot be used: {0}")]
    Key(#[from] KeyError),
    /// The key belongs to another client.
    #[error("the public key belongs to another client: each client needs a key of its own")]
    Taken,
    /// The client has as many keys as it may have.
    #[error(
        "the client {0} has {MAX_KEYS} keys already; once its agent uses the newest one, remove the others: trustplane-hub client retire-keys {0}"
    )]
    Full(String),
    /// There is no such client.
    #[error("there is no client {0}; trustplane-hub client list shows all of them")]
    UnknownClient(String),
    /// The console is off.
    #[error("the hub serves no console (--console-bind-address=0)")]
    NoConsole,
    /// Stdin or stdout.
    #[error("cannot read stdin or write stdout")]
    Io(#[from] io::Error),
}

/// Does what the command line says.
pub fn main(program: Program) -> ExitCode {
    frame::main(program, async |arguments: Arguments| {
        let env = |name: &str| std::env::var(name).ok();
        let folder = choose(arguments.hub.data_dir.as_deref(), env)?;
        let Some(command) = arguments.command.clone() else {
            let frame = Frame::start(&arguments.common, program).await?;
            // The future holds all that starts: it is kept off the stack.
            let hub = Box::pin(run(&frame, &arguments.hub, &folder)).await?;
            let code = frame.run().await;
            // Until here its check of the database counts.
            drop(hub);
            return Ok(code);
        };
        match Box::pin(command_on(&folder, command, &arguments.hub)).await {
            Ok(()) => Ok(ExitCode::SUCCESS),
            Err(error) => {
                // If stderr is closed as well, there is no other place to write the error to.
                let _ = writeln!(io::stderr(), "error: {}", chain(&error));
                Ok(ExitCode::FAILURE)
            }
        }
    })
}

fn chain(error: &dyn Error) -> String {
    let causes = std::iter::successors(error.source(), |&error| error.source());
    causes.fold(error.to_string(), |text, cause| {
        let cause = cause.to_string();
        if text.contains(&cause) {
            text
        } else {
            format!("{text}: {cause}")
        }
    })
}

/// Serves.
async fn run(frame: &Frame, told: &HubArgs, folder: &Path) -> Result<Hub, Box<dyn Error + Send + Sync>> {
    let config = Config {
        folder: folder.to_owned(),
        agents: told.agents_bind_address.clone(),
        console: told.console_bind_address.clone(),
        urls: told.url.clone(),
        hosts: told.host.clone(),
        tls: told.tls_cert_file.clone().zip(told.tls_key_file.clone()),
        limits: told.limits(),
        rates: Rates::default(),
        session_check: SESSION_CHECK,
    };
    let context = ProcessContext {
        metrics: frame.metrics(),
        readiness: frame.readiness(),
        supervisor: frame.supervisor(),
        shutdown: frame.shutdown(),
        clock: Arc::new(SystemClock),
    };
    let hub = start(config, &context).await?;
    tracing::info!(agents = ?hub.agents, console = ?hub.console, urls = ?hub.urls, data = %folder.display(), "serves");
    greet(&hub).await?;
    Ok(hub)
}

/// Prints a link to sign in for a person at a terminal. Elsewhere the output may be kept, and a link is a key.
async fn greet(hub: &Hub) -> Result<(), Box<dyn Error + Send + Sync>> {
    let Some(console) = &hub.console_url else {
        return Ok(());
    };
    let mut out = io::stdout();
    if !out.is_terminal() {
        writeln!(
            out,
            "Console: {console} (for a link to sign in, run: trustplane-hub sign-in)"
        )?;
        return Ok(());
    }
    let token = hub
        .writer
        .run(|transaction: &mut WriteTransaction| {
            Box::pin(async move { add_sign_in(&mut transaction.connection, transaction.now).await })
        })
        .await?;
    writeln!(
        out,
        "Sign in, once and within ten minutes:\n  {console}/sign-in?token={}",
        token.expose()
    )?;
    Ok(())
}

/// Does a command on a data directory that has a database: only serving makes one.
async fn command_on(folder: &Path, command: Command, told: &HubArgs) -> Result<(), CommandError> {
    let folder = Folder::existing(folder)?;
    let mut connection = store::open(folder.path()).await?;
    match command {
        Command::SignIn { json } => sign_in(&mut connection, json, told).await?,
        Command::Client(ClientCommand::Add { name, id, json }) => {
            let key = clients::read_key()?;
            let id = id.unwrap_or_else(|| random_id("c-"));
            clients::add(&mut connection, &id, &name, &key).await?;
            clients::introduce(&mut connection, &folder, &id, &name, json, told).await?;
        }
        Command::Client(ClientCommand::RetireKeys { id, json }) => {
            clients::retire_keys(&mut connection, &id, json).await?;
        }
        Command::Client(ClientCommand::List { json }) => clients::list(&mut connection, json).await?,
    }
    connection.close().await.map_err(StoreError::from)?;
    Ok(())
}

async fn sign_in(connection: &mut SqliteConnection, json: bool, told: &HubArgs) -> Result<(), CommandError> {
    let published = identity::get(connection, CONSOLE_URL).await?;
    let port = told.console_bind_address.port().filter(|port| *port != 0);
    let console = match published {
        Some(url) if url.is_empty() => return Err(CommandError::NoConsole),
        Some(url) => url,
        None => format!("http://localhost:{}", port.ok_or(CommandError::NoConsole)?),
    };
    let token = add_sign_in(connection, Timestamp::now().as_millisecond()).await?;
    let url = format!("{console}/sign-in?token={}", token.expose());
    let mut out = io::stdout();
    if json {
        let answer = json!({"url": url, "token": token.expose(), "expires_in": SIGN_IN_LIFE / SECOND});
        writeln!(out, "{answer}")?;
    } else {
        writeln!(out, "{url}")?;
    }
    Ok(())
}
