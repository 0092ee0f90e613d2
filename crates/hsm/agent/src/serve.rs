//! `trustplane-agent serve`: the whole agent.

mod args;

use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use futures::future::BoxFuture;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use trustplane_hsm_core::pin_record::{DigestKey, DigestKeyError};
use trustplane_hsm_token::Attempt;
use trustplane_kit::clients::{ClientError, Clients};
use trustplane_kit::lease::{Fence, Identity};
use trustplane_kit::watch::{Tuning, Watches};
use trustplane_process::admin::LIMITS;
use trustplane_process::args::{BindAddress, BindError};
use trustplane_process::frame::{self, Frame, FrameError};
use trustplane_process::secret::Secret;
use trustplane_process::serve::serve as serve_http;
use trustplane_process::tls::TlsFiles;

pub(crate) use args::profile;
pub use args::{Caches, ServeArgs};

use crate::catalogue::Catalogue;
use crate::hold::usual_folder;
use crate::host::{Host, Program, Provision, Settings};
use crate::kubernetes::{Tied, Ties};
use crate::meters::Meters;
use crate::pcscd::{Pcscd, Signs, read_signs};
use crate::probes::Probes;
use crate::server::{Certificates, Port, ServerError, serve_local};
use crate::service::Service;
use crate::wire::Wanted;

/// Why the agent does not start.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// Nothing says which token is wanted.
    #[error("say which token is wanted: --token-label, --token-serial or --reader-serial")]
    Token,
    /// The process cannot be set up.
    #[error(transparent)]
    Frame(#[from] FrameError),
    /// A port cannot be used.
    #[error(transparent)]
    Port(#[from] BindError),
    /// The service cannot be served.
    #[error(transparent)]
    Server(#[from] ServerError),
    /// A file with a secret cannot be used.
    #[error("read {}: {reason}", .file.display())]
    File {
        /// The file.
        file: PathBuf,
        /// Why. It holds nothing of it.
        reason: String,
    },
    /// The cluster cannot be reached.
    #[error(transparent)]
    Cluster(#[from] ClientError),
    /// The module's process cannot be run.
    #[error("run the module: {0}")]
    Host(#[from] io::Error),
}

/// A token, and what has to run beside it.
struct Parts {
    host: Arc<Host>,
    beside: Vec<(&'static str, BoxFuture<'static, ()>)>,
}

/// Serves until the process is asked to end, and gives the exit code.
pub async fn run(args: ServeArgs, itself: frame::Program) -> Result<ExitCode, ServeError> {
    let wanted = args.wanted().ok_or(ServeError::Token)?;
    let frame = Frame::start(&args.common, itself).await?;
    if args.slot_id.is_some_and(|slot| slot >= 0) {
        tracing::info!("--slot-id is not used: the token is known by its serial number, label or reader");
    }
    let (signs, seen) = watch::channel(Signs::default());
    let given_back = CancellationToken::new();
    let pcscd = (args.pcscd != Path::new("off"))
        .then(|| pcscd(&args).attend(frame.supervisor(), seen, given_back.clone()));
    let settings = settings(&args, wanted, &frame)?;
    // What is wrong with ports or certificates is told before the token is touched.
    let (health, grpc) = (listen(args.health_port).await?, listen(args.port).await?);
    let addresses = (health.local_addr()?, grpc.local_addr()?);
    let port = port(&args, grpc).await?;
    let runtime = settings.runtime.clone();
    let Parts { host, beside } = match &args.pin_file {
        Some(file) => alone(settings, file)?,
        None => tied(settings, &args, &frame, itself.version).await?,
    };
    for (name, task) in beside {
        spawn(&frame, name, task);
    }
    spawn(&frame, "host", ended(host.clone()));
    host.attend(frame.supervisor(), given_back);
    spawn(&frame, "signs", read_signs(host.health(), signs));
    serve(&args, &frame, &host, (port, health, runtime), pcscd);
    tracing::info!(
        device = args.device_name,
        agent = args.agent_name,
        health = %addresses.0,
        grpc = %addresses.1,
        "serving"
    );
    let ended = frame.run().await;
    // If somebody took so long that nobody was waited for, it is given back now.
    host.stop().await;
    Ok(ended)
}

fn settings(args: &ServeArgs, wanted: Wanted, frame: &Frame) -> io::Result<Settings> {
    let program = Program {
        path: std::env::current_exe()?,
        arguments: vec!["module".into()],
        environment: Vec::new(),
        output: args.output(),
    };
    Ok(Settings {
        limits: args.limits(),
        deadline: args.module_deadline,
        runtime: args.runtime_dir.clone().unwrap_or_else(usual_folder),
        liveness: frame.liveness().clone(),
        ..Settings::new(program, args.pkcs11_library.clone(), wanted)
    })
}

/// Starts what serves: calls, probes, and the passes that lists are answered from.
fn serve(
    args: &ServeArgs,
    frame: &Frame,
    host: &Arc<Host>,
    (port, health, runtime): (Port, TcpListener, PathBuf),
    pcscd: Option<watch::Receiver<bool>>,
) {
    let (supervisor, shutdown) = (frame.supervisor(), frame.shutdown());
    let catalogue = Arc::new(Catalogue::new(args.passes()));
    let meters = Meters::new(frame.metrics());
    let probes = Probes {
        host: host.clone(),
        catalogue: catalogue.clone(),
        meters: meters.clone(),
        metrics: frame.metrics().clone(),
        liveness: frame.liveness().clone(),
        pcscd,
        stop: shutdown.token(),
    };
    supervisor.spawn_attendant("probes", |stop| serve_http(health, probes.router(), LIMITS, stop));
    let service = Arc::new(Service::new(host.clone(), catalogue.clone(), meters));
    let passes = catalogue.run(host.clone(), shutdown.token());
    supervisor.spawn("passes", passes);
    let local = serve_local(service.clone(), host.health(), runtime, shutdown.token());
    supervisor.spawn("socket", local);
    supervisor.spawn("grpc", port.serve(service, shutdown.token()));
}

async fn port(args: &ServeArgs, listener: TcpListener) -> Result<Port, ServeError> {
    let files = TlsFiles {
        identity: Some((args.tls_cert_file.clone(), args.tls_key_file.clone())),
        trust: args.tls_client_ca_file.clone(),
    };
    Ok(Port::open(listener, Certificates::of(files)).await?)
}

fn pcscd(args: &ServeArgs) -> Pcscd {
    let mut pcscd = Pcscd::at(&args.pcscd);
    pcscd.program.output = args.output();
    pcscd
}

/// Starts a task that has to run until the end of the process.
fn spawn(frame: &Frame, name: &'static str, task: impl Future<Output = ()> + Send + 'static) {
    let stop = frame.shutdown().token();
    frame.supervisor().spawn(name, async move {
        tokio::select! {
            () = stop.cancelled() => {}
            () = task => {}
        }
    });
}

/// Waits for the end of a host, without which there is nothing to serve.
async fn ended(host: Arc<Host>) {
    host.ended().await;
}

/// Without a cluster: the PIN of a file is tried once, and nothing is written down.
fn alone(settings: Settings, file: &Path) -> Result<Parts, ServeError> {
    let pin = secret_line(file)?;
    let host = Host::start(settings, pin, Attempt::Automatic)?;
    Ok(Parts {
        host: Arc::new(host),
        beside: Vec::new(),
    })
}

async fn tied(
    settings: Settings,
    args: &ServeArgs,
    frame: &Frame,
    version: &'static str,
) -> Result<Parts, ServeError> {
    let (Some(pin), Some(record)) = (args.pin_secret.clone(), args.record.clone()) else {
        return Err(ServeError::File {
            file: PathBuf::from("--pin-secret"),
            reason: "it has to be given with --record".to_owned(),
        });
    };
    let unusable = |error: DigestKeyError| ServeError::File {
        file: args.record_key_file.clone(),
        reason: error.to_string(),
    };
    let digests = DigestKey::new(read(&args.record_key_file)?.expose()).map_err(unusable)?;
    let provision = match args.auto_provision {
        true => Some(provision(args)?),
        false => None,
    };
    let identity = Identity::new("hsm-agent", version, args.pod.as_deref());
    let config = args.kube.config().await?;
    let clients = Clients::new(config, identity, Fence::always())?;
    let watches = Watches::new(clients.watch.clone(), Tuning::default(), frame.metrics());
    let ties = Ties {
        pin,
        record,
        digests,
        pod: args.pod_uid.clone(),
        provision,
    };
    let Tied { host, pins, report } = ties.start(settings, &clients, &watches)?;
    let (stop, stopped) = (frame.shutdown().token(), watches);
    let watching: BoxFuture<'static, ()> = Box::pin(async move {
        stop.cancelled().await;
        stopped.stop();
    });
    Ok(Parts {
        host,
        beside: vec![("pins", pins), ("record", report), ("watches", watching)],
    })
}

/// How a blank token is set up. The manager makes an SO-PIN when the agent has found a blank token, and gives it to the next pod.
fn provision(args: &ServeArgs) -> Result<Provision, ServeError> {
    let file = &args.so_pin_file;
    let officer = match file.try_exists() {
        Ok(false) => None,
        _ => Some(secret_line(file)?),
    };
    let label = args.token_label.clone();
    Ok(Provision {
        officer,
        label: label.unwrap_or_else(|| args.device_name.chars().take(32).collect()),
    })
}

async fn listen(port: u16) -> Result<TcpListener, BindError> {
    let address = BindAddress::Every { port };
    let listener = address.listen().await?;
    listener.ok_or_else(|| BindError::Syntax(address.to_string()))
}

fn read(file: &Path) -> Result<Secret<Vec<u8>>, ServeError> {
    let unreadable = |error: io::Error| ServeError::File {
        file: file.to_owned(),
        reason: error.to_string(),
    };
    std::fs::read(file).map(Secret::new).map_err(unreadable)
}

/// The one line of a file.
pub(crate) fn secret_line(file: &Path) -> Result<Secret<String>, ServeError> {
    let bytes = read(file)?;
    let text = std::str::from_utf8(bytes.expose())
        .ok()
        .map(|text| text.trim_end_matches(['\r', '\n']));
    match text {
        Some(text) if !text.is_empty() => Ok(Secret::new(text.to_owned())),
        _ => Err(ServeError::File {
            file: file.to_owned(),
            reason: "it has to hold one line of text".to_owned(),
        }),
    }
}
