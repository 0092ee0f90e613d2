//! A manager: one process that runs any set of capabilities.
//!
//! A binary names its capabilities and hands over; the rest is here: arguments, clients, the choice of what can run in
//! this cluster, the election, admission, and an orderly end.
//!
//! ```no_run
//! use trustplane_kit::manager::{self, NoMore, Program};
//!
//! const PROGRAM: Program = Program {
//!     name: env!("CARGO_PKG_NAME"),
//!     component: "manager",
//!     version: env!("CARGO_PKG_VERSION"),
//! };
//!
//! fn main() -> std::process::ExitCode {
//!     manager::main(PROGRAM, |_: NoMore| Vec::new())
//! }
//! ```
//!
//! # The end
//!
//! On SIGTERM the process is no longer ready and takes no new work. What writes is waited for, then the lease is given
//! back, so that the successor neither waits for the lease to run out nor meets a write of ours.

mod args;
mod assembly;
mod capability;
mod choice;
mod context;
mod facts;
mod secret_identity;
mod webhooks;

use std::{io::Write, process::ExitCode, sync::Arc};

use k8s_openapi::api::coordination::v1::Lease;
use kube::Api;
use tokio::sync::watch;
use tokio_util::{sync::CancellationToken, task::TaskTracker};
pub use trustplane_process::frame::Program;
use trustplane_process::frame::{self, Frame};

use args::Arguments;
pub use args::{Command, ManagerArgs, NoMore};
pub use assembly::Assembly;
pub use capability::{Capability, PROCESS, Part, Start, StartError, describe};
pub use choice::{ChoiceError, Lack};
pub use context::{Context, Workbench};
pub use secret_identity::{Inherited, SecretIdentity};

use self::facts::Facts;
use crate::{
    apply,
    clients::Clients,
    events::Events,
    lease::{Election, Fence, Identity, Timing},
    rights::Rights,
    watch::{Tuning, Watches},
};

/// Runs a manager to its end, with the capabilities that are made from their own arguments.
pub fn main<M: clap::Args>(program: Program, capabilities: impl FnOnce(M) -> Vec<Capability>) -> ExitCode {
    frame::main(program, async |arguments: Arguments<M>| {
        let Arguments { manager, more } = arguments;
        let known = capabilities(more);
        match manager.command {
            Some(Command::Describe) => print_description(program.version, &known).map(|()| ExitCode::SUCCESS),
            // The future holds all that starts: it is kept off the stack.
            None => Box::pin(run(manager, program, &known)).await,
        }
    })
}

/// What every manager of this name may do, whatever its capabilities.
pub fn process_rights(name: &str) -> Rights {
    Election::rights(name)
        .and(Events::rights())
        .and(apply::installation_key_rights())
}

fn print_description(version: &str, known: &[Capability]) -> Result<(), StartError> {
    let description = describe(version, known);
    writeln!(
        std::io::stdout(),
        "{}",
        serde_json::to_string_pretty(&description)?
    )?;
    Ok(())
}

async fn run(
    mut arguments: ManagerArgs,
    program: Program,
    known: &[Capability],
) -> Result<ExitCode, StartError> {
    // A name that does not exist is told before anything is started.
    let named = arguments
        .capabilities
        .as_deref()
        .map(|names| choice::named(names, known))
        .transpose()?;
    let frame = Frame::start(&arguments.common, program).await?;
    let fence = if arguments.elects() {
        Fence::closed()
    } else {
        Fence::always()
    };
    let identity = Identity::new(program.component, program.version, arguments.pod.as_deref());
    let config = arguments.kube.config().await?;
    arguments.run_in(&config.default_namespace);
    let clients = Clients::new(config, identity, fence)?;
    let chosen = match named {
        Some(named) => named,
        None => possible(&clients, &arguments, known).await?,
    };
    let context = context(&frame, clients, &arguments, &chosen).await?;
    for capability in &chosen {
        (capability.start)(context.clone())
            .await
            .map_err(|error| format!("{}: {error}", capability.name))?;
    }
    webhooks::serve(&context, &arguments, &chosen).await?;
    let names: Vec<_> = chosen.iter().map(|capability| capability.name).collect();
    tracing::info!(
        capabilities = names.join(","),
        dry_run = arguments.dry_run,
        "running"
    );
    Ok(frame.run().await)
}

/// The capabilities whose CRDs and rights exist; the log says which, and why the others do not run.
async fn possible(
    clients: &Clients,
    arguments: &ManagerArgs,
    known: &[Capability],
) -> Result<Vec<Capability>, kube::Error> {
    let facts = Facts::gather(&clients.call, arguments.namespace(), known).await?;
    let mut possible = Vec::new();
    for capability in known {
        let webhooks = match webhooks::are_served(arguments) {
            true => capability.webhook_rights(&arguments.name),
            false => Rights::none(),
        };
        let (needed, lack) = facts.lacks(capability, &webhooks);
        if !needed.is_nothing() {
            tracing::info!(capability = capability.name, "does not run: {needed}");
            continue;
        }
        if !lack.is_nothing() {
            tracing::warn!(
                capability = capability.name,
                "runs with less than it could use: {lack}"
            );
        }
        possible.push(capability.clone());
    }
    Ok(possible)
}

/// The Lease to lead by: that of a system whose place we take, if it is there and nobody gave us a name; else our own. So the
/// two never write at once, as long as the other takes part in the election.
async fn lease(
    clients: &Clients,
    arguments: &ManagerArgs,
    chosen: &[Capability],
) -> Result<String, kube::Error> {
    let leases: Api<Lease> = Api::namespaced(clients.call.clone(), arguments.namespace());
    let before = chosen.iter().filter_map(|capability| capability.lease_before);
    for name in before.filter(|_| arguments.is_nameless()) {
        match leases.get_opt(name).await {
            Ok(Some(_)) => {
                tracing::info!(lease = name, "leads by the Lease that is there");
                return Ok(name.to_owned());
            }
            Ok(None) => {}
            Err(kube::Error::Api(status)) if status.code == 403 => {}
            Err(error) => return Err(error),
        }
    }
    Ok(arguments.name.clone())
}

async fn context(
    frame: &Frame,
    clients: Clients,
    arguments: &ManagerArgs,
    chosen: &[Capability],
) -> Result<Context, StartError> {
    let writers = TaskTracker::new();
    let supervisor = frame.supervisor().clone();
    let leading = if arguments.elects() {
        let lease = lease(&clients, arguments, chosen).await?;
        let election = Election::new(&clients, arguments.namespace(), &lease, Timing::default());
        let leading = election.leading();
        let drained = CancellationToken::new();
        supervisor.spawn("election", election.run(drained.clone()));
        let (shutdown, writers) = (frame.shutdown().clone(), writers.clone());
        supervisor.spawn("drain", async move {
            shutdown.requested().await;
            writers.close();
            writers.wait().await;
            drained.cancel();
        });
        leading
    } else {
        watch::Sender::new(true).subscribe()
    };
    let fingerprinter = if arguments.dry_run {
        apply::rehearsal_key(&clients.unfenced, arguments.namespace()).await?
    } else {
        apply::installation_key(&clients.unfenced, arguments.namespace()).await?
    };
    let identity = &clients.identity;
    let (events, publisher) = Events::new(
        clients.call.clone(),
        "trustplane",
        identity.instance(),
        frame.metrics(),
    );
    supervisor.spawn(
        "events",
        writers.track_future(publisher.run(frame.shutdown().token())),
    );
    let watches = Watches::new(clients.watch.clone(), Tuning::default(), frame.metrics());
    let (stopped, stop) = (watches.clone(), frame.shutdown().token());
    // The feeds of the controllers end with their subscriptions.
    supervisor.spawn("watches", async move {
        stop.cancelled().await;
        stopped.stop();
    });
    let bench = Workbench {
        watches,
        events,
        fingerprinter,
        leading,
        namespace: Arc::from(arguments.namespace()),
        dry_run: arguments.dry_run,
        metrics: frame.metrics().clone(),
        clients,
    };
    Ok(Context {
        bench,
        readiness: frame.readiness().clone(),
        liveness: frame.liveness().clone(),
        state: frame.state().clone(),
        supervisor,
        shutdown: frame.shutdown().clone(),
        writers,
        judges: Arc::default(),
    })
}
