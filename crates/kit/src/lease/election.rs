//! The driver of an [`Elector`]: reads and writes the Lease, opens and closes the fence.

use std::time::Duration;

use jiff::{Timestamp, Unit};
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use kube::api::PostParams;
use kube::{Api, Client};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::elector::{Elector, Record, Step, View, Written};
use super::{Fence, Identity, Timing};
use crate::rights::{Place, Rights};

/// How long giving the lease back may take in all. A lease that could not be given back runs out by itself.
const RELEASE: Duration = Duration::from_secs(2);

/// The process must end: it led, and leads no more.
#[derive(Debug, thiserror::Error)]
pub enum ElectionError {
    /// The lease was not renewed in time, or somebody else holds it.
    #[error("lost the lease {namespace}/{name}")]
    Lost {
        /// The namespace of the Lease.
        namespace: String,
        /// The name of the Lease.
        name: String,
    },
}

/// Takes part in the election of one leader among the replicas of a process.
///
/// ```no_run
/// # async fn example(clients: trustplane_kit::clients::Clients, stop: tokio_util::sync::CancellationToken)
/// # -> Result<(), Box<dyn std::error::Error>> {
/// use trustplane_kit::lease::{Election, Timing};
///
/// let election = Election::new(&clients, "trustplane", "manager", Timing::default());
/// let mut leading = election.leading();
/// tokio::spawn(election.run(stop)); // under a supervisor: its error ends the process
/// leading.wait_for(|leads| *leads).await?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Election {
    leases: Api<Lease>,
    namespace: String,
    name: String,
    fence: Fence,
    timing: Timing,
    elector: Elector,
    leading: watch::Sender<bool>,
    /// The metadata of the Lease: a write keeps what others put there.
    metadata: ObjectMeta,
}

impl Election {
    /// A candidate for the Lease of this name. It writes with the one client that the fence does not hold back.
    pub fn new(clients: &crate::clients::Clients, namespace: &str, name: &str, timing: Timing) -> Self {
        Self::with(
            clients.unfenced.clone(),
            clients.fence.clone(),
            &clients.identity,
            (namespace, name),
            timing,
        )
    }

    fn with(client: Client, fence: Fence, me: &Identity, lease: (&str, &str), timing: Timing) -> Self {
        Self {
            leases: Api::namespaced(client, lease.0),
            namespace: lease.0.to_owned(),
            name: lease.1.to_owned(),
            fence,
            timing,
            elector: Elector::new(me.instance(), timing),
            leading: watch::Sender::new(false),
            metadata: ObjectMeta::default(),
        }
    }

    /// What an election needs on the API server. The installation makes the Lease; one that somebody deleted is made again.
    pub fn rights(name: &str) -> Rights {
        Rights::none()
            .on(Place::Home, "coordination.k8s.io", &["leases"], &["create"])
            .on_objects(
                Place::Home,
                "coordination.k8s.io",
                &["leases"],
                &["get", "update"],
                &[name],
            )
    }

    /// Whether this process leads. It goes from false to true once, and back at most once: then the process ends.
    pub fn leading(&self) -> watch::Receiver<bool> {
        self.leading.subscribe()
    }

    /// Runs until the lease is lost, which is an error, or until `shutdown`.
    ///
    /// Cancel `shutdown` when running work has drained: the fence closes at once, and the lease is given back so that the
    /// successor starts within its next poll.
    pub async fn run(mut self, shutdown: CancellationToken) -> Result<(), ElectionError> {
        let outcome = self.lead(&shutdown).await;
        self.stop();
        outcome?;
        self.elector.leave();
        let release = async {
            loop {
                let now = self.fence.clock().now();
                let step = self.elector.step(now, Timestamp::now());
                if matches!(step, Step::Left | Step::Lost | Step::Wait(_)) {
                    return;
                }
                self.perform(step, RELEASE).await;
            }
        };
        if tokio::time::timeout(RELEASE, release).await.is_err() {
            tracing::warn!(
                lease = self.name,
                "could not give the lease back in time; it runs out by itself"
            );
        }
        Ok(())
    }

    async fn lead(&mut self, shutdown: &CancellationToken) -> Result<(), ElectionError> {
        loop {
            let now = self.fence.clock().now();
            let step = self.elector.step(now, Timestamp::now());
            if step == Step::Lost {
                return Err(ElectionError::Lost {
                    namespace: self.namespace.clone(),
                    name: self.name.clone(),
                });
            }
            let work = async {
                match step {
                    Step::Wait(until) => tokio::time::sleep(until.saturating_sub(now)).await,
                    step => {
                        let left = self
                            .elector
                            .leads_until(now)
                            .map(|until| until.saturating_sub(now));
                        let limit = self.timing.call().min(left.unwrap_or(Duration::MAX));
                        self.perform(step, limit).await;
                    }
                }
            };
            tokio::select! {
                biased;
                () = shutdown.cancelled() => return Ok(()),
                () = work => {}
            }
        }
    }

    /// Carries out a read or a write within `limit`, and tells the elector.
    async fn perform(&mut self, step: Step, limit: Duration) {
        let started = self.fence.clock().now();
        let answer = tokio::time::timeout(limit, self.call(&step)).await;
        let now = self.fence.clock().now();
        match answer {
            Ok(Ok(Answer::Read(view))) => self.elector.read(now, view),
            Ok(Ok(Answer::Written(written))) => self.elector.written(started, now, written),
            Ok(Err(error)) => {
                tracing::warn!(lease = self.name, %error, "could not reach the lease");
                self.elector.unanswered(now);
            }
            Err(_) => {
                tracing::warn!(lease = self.name, ?limit, "the lease call took too long");
                self.elector.unanswered(now);
            }
        }
        if let Some(until) = self.elector.leads_until(now) {
            self.fence.open_until(until);
            // Not with each renewal: whoever follows this would look every few seconds for nothing.
            if self
                .leading
                .send_if_modified(|leads| !std::mem::replace(leads, true))
            {
                tracing::info!(lease = self.name, "leading");
            }
        }
    }

    async fn call(&mut self, step: &Step) -> Result<Answer, kube::Error> {
        let post = PostParams::default();
        let stored = match step {
            Step::Create(record) => {
                let metadata = ObjectMeta {
                    name: Some(self.name.clone()),
                    ..ObjectMeta::default()
                };
                self.leases.create(&post, &lease(metadata, record)).await
            }
            Step::Replace(record, version) => {
                let metadata = ObjectMeta {
                    resource_version: Some(version.clone()),
                    managed_fields: None,
                    ..self.metadata.clone()
                };
                self.leases
                    .replace(&self.name, &post, &lease(metadata, record))
                    .await
            }
            _ => {
                let Some(found) = self.leases.get_opt(&self.name).await? else {
                    return Ok(Answer::Read(View::Absent));
                };
                let (record, version) = self.seen(found);
                return Ok(Answer::Read(View::Present(record, version)));
            }
        };
        match stored {
            Ok(stored) => {
                let (record, version) = self.seen(stored);
                Ok(Answer::Written(Written::Stored(record, version)))
            }
            // Gone, changed or just made by somebody else: all of them are answered by a fresh read.
            Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => {
                Ok(Answer::Written(Written::Conflict))
            }
            Err(error) => Err(error),
        }
    }

    fn seen(&mut self, lease: Lease) -> (Record, String) {
        let spec = lease.spec.unwrap_or_default();
        self.metadata = lease.metadata;
        let record = Record {
            holder: spec.holder_identity.unwrap_or_default(),
            duration_seconds: spec.lease_duration_seconds.unwrap_or_default(),
            acquired: spec.acquire_time.map(|time| time.0),
            renewed: spec.renew_time.map(|time| time.0),
            transitions: spec.lease_transitions.unwrap_or_default(),
        };
        (record, self.metadata.resource_version.clone().unwrap_or_default())
    }

    fn stop(&self) {
        self.fence.close();
        if self.leading.send_if_modified(std::mem::take) {
            tracing::info!(lease = self.name, "no longer leading");
        }
    }
}

impl Drop for Election {
    /// Whoever drops the election, by an abort for instance, must not go on writing.
    fn drop(&mut self) {
        self.stop();
    }
}

enum Answer {
    Read(View),
    Written(Written),
}

fn lease(metadata: ObjectMeta, record: &Record) -> Lease {
    let micros = |time: Timestamp| MicroTime(time.round(Unit::Microsecond).unwrap_or(time));
    Lease {
        metadata,
        spec: Some(LeaseSpec {
            holder_identity: Some(record.holder.clone()),
            lease_duration_seconds: Some(record.duration_seconds),
            acquire_time: record.acquired.map(micros),
            renew_time: record.renewed.map(micros),
            lease_transitions: Some(record.transitions),
            ..LeaseSpec::default()
        }),
    }
}
