//! What ties an agent to its cluster: the Secret with its PIN, and the ConfigMap with its record.

use std::io;
use std::str::FromStr;
use std::sync::Arc;

use futures::future::BoxFuture;
use tokio::sync::watch;
use trustplane_hsm_core::pin_record::{DigestKey, word};
use trustplane_hsm_token::Attempt;
use trustplane_kit::clients::Clients;
use trustplane_kit::watch::Watches;

use crate::host::{Given, Host, Provision, Settings};
use crate::pin_secret::{PinRef, PinState, follow};
use crate::record::{Book, ConfigMapLedger, Ledger, report};

/// The ConfigMap of a record: `<namespace>/<name>`.
///
/// ```
/// use trustplane_hsm_agent::kubernetes::RecordRef;
///
/// let record: RecordRef = "vault/hsm-agent-a".parse().unwrap();
/// assert_eq!((record.namespace.as_str(), record.name.as_str()), ("vault", "hsm-agent-a"));
/// assert!("hsm-agent-a".parse::<RecordRef>().is_err());
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordRef {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

/// A text that names no ConfigMap.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a record is named by <namespace>/<name>")]
pub struct RecordRefError;

impl FromStr for RecordRef {
    type Err = RecordRefError;

    fn from_str(text: &str) -> Result<Self, RecordRefError> {
        match text.split_once('/') {
            Some((namespace, name)) if !namespace.is_empty() && !name.is_empty() && !name.contains('/') => {
                Ok(Self {
                    namespace: namespace.to_owned(),
                    name: name.to_owned(),
                })
            }
            _ => Err(RecordRefError),
        }
    }
}

/// What an agent uses in its cluster.
#[derive(Debug, Clone)]
pub struct Ties {
    /// Where the PIN is.
    pub pin: PinRef,
    /// Where the record is.
    pub record: RecordRef,
    /// The key of the digests in the record.
    pub digests: DigestKey,
    /// The uid of our pod.
    pub pod: String,
    /// How a blank token is made ours, if it may be.
    pub provision: Option<Provision>,
}

/// An agent that is tied to its cluster.
pub struct Tied {
    /// The token. It is opened as soon as there is a PIN.
    pub host: Arc<Host>,
    /// Has to run as long as the host does: gives it the PIN of the Secret, also when that changes.
    pub pins: BoxFuture<'static, ()>,
    /// Has to run as long as the host does: writes down how it is doing.
    pub report: BoxFuture<'static, ()>,
}

impl Ties {
    /// Starts the host. Must be called on the runtime of the clients.
    pub fn start(self, settings: Settings, clients: &Clients, watches: &Watches) -> io::Result<Tied> {
        let record = &self.record;
        let ledger = ConfigMapLedger::new(clients.call.clone(), &record.namespace, &record.name);
        let ledger: Arc<dyn Ledger> = Arc::new(ledger);
        let book = Book::new(ledger.clone(), self.digests, &self.pod);
        let host = Arc::new(Host::start_recorded(settings, book, self.provision)?);
        let (pins, follow) = follow(watches, self.pin);
        let given = host.clone();
        Ok(Tied {
            pins: Box::pin(async move {
                tokio::select! {
                    () = follow => {}
                    () = pass_on(pins, &given) => {}
                }
            }),
            report: Box::pin(report(ledger, host.health(), self.pod)),
            host,
        })
    }
}

/// Gives the host each PIN that there is, and says when there is none.
async fn pass_on(mut pins: watch::Receiver<PinState>, host: &Host) {
    loop {
        let now = pins.borrow_and_update().clone();
        let told = match now {
            PinState::Unknown => Ok(()),
            PinState::Missing(why) => host.no_pin(why).await,
            PinState::Given { uid, pin, again } => {
                let given = Given {
                    pin,
                    secret: uid,
                    again: word(&again),
                    attempt: Attempt::Automatic,
                };
                host.give(given).await
            }
        };
        if told.is_err() || pins.changed().await.is_err() {
            return;
        }
    }
}
