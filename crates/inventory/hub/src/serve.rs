//! Starts the hub: database, listeners, and the tasks beside them.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use trustplane_process::admin::{Check, Readiness};
use trustplane_process::args::{BindAddress, BindError};
use trustplane_process::clock::Clock;
use trustplane_process::metrics::Metrics;
use trustplane_process::serve::{Limits, serve};
use trustplane_process::shutdown::Shutdown;
use trustplane_process::supervise::Supervisor;
use trustplane_process::tls::{CertifiedKeys, ServerTls, TlsError, serve_tls};

use crate::app::{App, IngestLimits, Rates, Throttles};
use crate::certificates::{self, CertificateError};
use crate::folder::{Folder, FolderError};
use crate::live::Live;
use crate::metrics::HubMetrics;
use crate::store::identity::{self, AGENT_URLS, CA_BUNDLE, CONSOLE_URL};
use crate::store::writer::{WriteTransaction, Writer, writer};
use crate::store::{self, IdentityReaders, StoreError};
use crate::{agent, api, store::contact, store::objects, store::sweep};

/// How often what has expired is removed.
const CLEAN: Duration = Duration::from_secs(60);

/// Connections of agents. Each may have a body of `--max-event-bytes` under way.
const AGENT_LIMITS: Limits = Limits {
    connections: 1024,
    head: Duration::from_secs(10),
    idle: Duration::from_secs(100),
    head_bytes: 16 * 1024,
    drain: Duration::from_secs(20),
};
/// Connections of browsers. An open page is idle in the sense of the listener: it waits for news.
const CONSOLE_LIMITS: Limits = Limits {
    connections: 256,
    head: Duration::from_secs(10),
    idle: Duration::from_secs(2 * 3600),
    head_bytes: 16 * 1024,
    drain: Duration::from_secs(5),
};

/// Why the hub does not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The data directory.
    #[error(transparent)]
    Folder(#[from] FolderError),
    /// The database.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The certificate.
    #[error(transparent)]
    Certificate(#[from] CertificateError),
    /// TLS.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// An address.
    #[error(transparent)]
    Bind(#[from] BindError),
}

/// How the hub serves.
#[derive(Debug, Clone)]
pub struct Config {
    /// The data directory.
    pub folder: PathBuf,
    /// Where agents are served.
    pub agents: BindAddress,
    /// Where the console is served.
    pub console: BindAddress,
    /// URLs under which agents reach the hub.
    pub urls: Vec<String>,
    /// Further names in the certificate.
    pub hosts: Vec<String>,
    /// A certificate chain and its key, instead of the own CA.
    pub tls: Option<(PathBuf, PathBuf)>,
    /// What agents may send.
    pub limits: IngestLimits,
    /// How often agents may send requests.
    pub rates: Rates,
    /// How often the session of an open page is checked.
    pub session_check: Duration,
}

/// The parts of a process that the hub uses: those of a frame, or of a test.
#[derive(Debug, Clone)]
pub struct ProcessContext<'a> {
    /// For what is counted.
    pub metrics: &'a Metrics,
    /// For whether the database is open.
    pub readiness: &'a Readiness,
    /// Watches the tasks.
    pub supervisor: &'a Supervisor,
    /// The end.
    pub shutdown: &'a Shutdown,
    /// The time of day.
    pub clock: Arc<dyn Clock>,
}

/// A hub that serves.
#[derive(Debug)]
pub struct Hub {
    /// Where agents are served.
    pub agents: Option<SocketAddr>,
    /// Where the console is served.
    pub console: Option<SocketAddr>,
    /// URLs under which agents reach the hub.
    pub urls: Vec<String>,
    /// The URL of the console.
    pub console_url: Option<String>,
    /// The CA that agents must trust; `None` if the certificate comes from files.
    pub ca_bundle: Option<String>,
    /// Queues what is to be written.
    pub writer: Writer,
    _database: Check,
}

/// Starts all parts.
pub async fn start(config: Config, context: &ProcessContext<'_>) -> Result<Hub, StartError> {
    let database = context.readiness.check("database");
    let folder = Folder::open(&config.folder)?;
    let lock = folder.lock()?;
    let mut connection = store::open(folder.path()).await?;
    let readers = store::readers(folder.path()).await?;
    let identities = IdentityReaders::open(folder.path()).await?;
    let agents = listen(&config.agents).await?;
    let console = listen(&config.console).await?;
    let (agents_at, console_at) = (address(agents.as_ref()), address(console.as_ref()));
    let urls = match agents_at {
        Some(at) if config.urls.is_empty() => vec![format!("https://localhost:{}", at.port())],
        _ => config.urls.clone(),
    };
    let console_url = console_at.map(|at| format!("http://localhost:{}", at.port()));
    let keys = CertifiedKeys::new();
    let ca_bundle = certify(&config, &folder, &urls, keys.clone(), context).await?;
    publish(
        &mut connection,
        &urls,
        console_url.as_deref(),
        ca_bundle.as_deref(),
    )
    .await?;

    let live = Arc::new(Live::default());
    let (writer, task) = writer(
        connection,
        context.clock.clone(),
        live.clone(),
        config.limits.cluster,
    );
    let app = Arc::new(App {
        writer: writer.clone(),
        readers,
        identities,
        clock: context.clock.clone(),
        live,
        metrics: HubMetrics::register(context.metrics),
        limits: config.limits,
        throttles: Throttles::new(config.rates),
        audiences: urls.clone(),
        session_check: config.session_check,
        stop: context.shutdown.token(),
    });
    // Requests that drain still write, so the writer ends after them; and with it the lock.
    context
        .supervisor
        .spawn_attendant("writer", move |stop| async move {
            task.run(stop).await;
            drop(lock);
        });
    attend(&app, context);
    if let Some(listener) = agents {
        let config = ServerTls::new(keys).build()?;
        let served = serve_tls(
            listener,
            config,
            agent::router(app.clone()),
            AGENT_LIMITS,
            context.shutdown.token(),
        );
        context.supervisor.spawn("agents", served);
    }
    if let Some(listener) = console {
        let served = serve(
            listener,
            api::router(app),
            CONSOLE_LIMITS,
            context.shutdown.token(),
        );
        context.supervisor.spawn("console", served);
    }
    database.ready();
    Ok(Hub {
        agents: agents_at,
        console: console_at,
        urls,
        console_url,
        ca_bundle,
        writer,
        _database: database,
    })
}

/// Starts the tasks beside the listeners.
fn attend(app: &Arc<App>, context: &ProcessContext<'_>) {
    let (supervisor, stop) = (context.supervisor, || context.shutdown.token());
    supervisor.spawn("live", app.live.clone().run(stop()));
    let states = app.live.clone();
    supervisor.spawn(
        "states",
        states.watch_states(app.readers.clone(), app.clock.clone(), stop()),
    );
    supervisor.spawn("clean", clean(app.clone(), stop()));
}

async fn listen(address: &BindAddress) -> Result<Option<TcpListener>, BindError> {
    address.listen().await
}

fn address(listener: Option<&TcpListener>) -> Option<SocketAddr> {
    listener.and_then(|listener| listener.local_addr().ok())
}

/// Starts what keeps the certificate fresh. Gives the CA bundle, if the CA is our own.
async fn certify(
    config: &Config,
    folder: &Folder,
    urls: &[String],
    keys: Arc<CertifiedKeys>,
    context: &ProcessContext<'_>,
) -> Result<Option<String>, StartError> {
    let (supervisor, stop) = (context.supervisor, context.shutdown.token());
    if let Some((chain, key)) = config.tls.clone() {
        let follower = certificates::follow(chain, key, keys).await?;
        supervisor.spawn("certificate", follower.run(certificates::FILE_POLL, stop));
        return Ok(None);
    }
    let authority = certificates::authority(folder, context.clock.now())?;
    let bundle = authority.bundle_pem();
    let request = certificates::leaf_request(urls, &config.hosts);
    let (sender, receiver) = watch::channel(Arc::new(authority));
    let clock = context.clock.clone();
    let keeper = certificates::keeper(receiver, request, keys, clock.clone(), context.metrics)?;
    supervisor.spawn("certificate", keeper.run(stop.clone()));
    supervisor.spawn(
        "authority",
        certificates::rotate(folder.clone(), sender, clock, stop),
    );
    Ok(Some(bundle))
}

/// Tells the commands that work on the same database where the hub is.
async fn publish(
    connection: &mut sqlx::SqliteConnection,
    urls: &[String],
    console: Option<&str>,
    bundle: Option<&str>,
) -> Result<(), StoreError> {
    let urls = serde_json::to_string(urls).unwrap_or_default();
    identity::set(connection, AGENT_URLS, &urls).await?;
    identity::set(connection, CONSOLE_URL, console.unwrap_or_default()).await?;
    identity::set(connection, CA_BUNDLE, bundle.unwrap_or_default()).await
}

/// Removes what has expired, and counts what is there, until `stop`.
async fn clean(app: Arc<App>, stop: CancellationToken) {
    loop {
        let cleaned = clean_once(&app).await;
        if let Err(error) = cleaned {
            tracing::warn!(
                error = store::writer::cause(&error),
                "cannot remove what has expired"
            );
        }
        tokio::select! {
            () = tokio::time::sleep(CLEAN) => {}
            () = stop.cancelled() => return,
        }
    }
}

/// Removes what has expired; whether there may be more.
pub async fn remove_expired(transaction: &mut WriteTransaction) -> Result<bool, StoreError> {
    identity::forget_expired(transaction).await?;
    contact::forget_activity(transaction).await?;
    transaction.snapshots.forget_cut_off();
    sweep::forget_gone(transaction).await
}

async fn clean_once(app: &App) -> Result<(), StoreError> {
    let mut more = true;
    while more {
        more = app
            .writer
            .run(|transaction: &mut WriteTransaction| Box::pin(remove_expired(transaction)))
            .await?;
    }
    app.metrics.objects(objects::count(&app.readers).await?);
    Ok(())
}
