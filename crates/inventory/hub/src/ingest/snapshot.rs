//! Snapshots: all objects of a cluster in one body, taken in while it arrives.

use std::collections::BTreeSet;

use serde_json::Value;
use tokio::time::Instant;
use trustplane_inventory_core::InventoryKind;

use super::body::BodyReader;
use super::pieces::{PieceReader, Progress};
use super::splitter::{Piece, SplitError, Splitter, Want};
use super::{Acknowledged, MAX_CLUSTER_NAME, MAX_WORD};
use crate::agent::AgentError;
use crate::app::App;
use crate::error::ApiError;
use crate::record::{self, ObjectIdentity, Reason, Record, Rejection};
use crate::store::apply::apply;
use crate::store::contact::{ClusterReport, Pin, record_contact};
use crate::store::identity::Agent;
use crate::store::merge::Op;
use crate::store::sweep::{Ticket, sweep};
use crate::store::writer::{WriteTransaction, Writer};
use crate::time::{Millis, SECOND};

/// How many objects are written together.
const BATCH_OBJECTS: usize = 512;
/// How many bytes of objects are written together.
const BATCH_BYTES: usize = 1024 * 1024;
/// How many bytes of objects are held until the uid of the cluster is known. Agents write it first; JSON knows no order.
const HELD_BYTES: usize = 8 * 1024 * 1024;
/// What an object in memory counts besides its projection: its names, and the memory that holds them.
const OBJECT_COST: usize = 512;
/// How many objects a snapshot may have; elements that are `null` count too. The hub remembers the uids of all of them while it arrives.
pub const MAX_OBJECTS: usize = 2_000_000;
/// How often the hub notes, while a snapshot arrives, that it hears of the cluster.
const CONTACT_EVERY: Millis = 30 * SECOND;

/// Takes a snapshot.
pub async fn take(app: &App, agent: &Agent, body: BodyReader) -> Result<Acknowledged, AgentError> {
    let begun = Instant::now();
    let acknowledged = Intake::new(app, agent.cluster).read(body).await?;
    app.metrics.snapshot(begun.elapsed());
    Ok(acknowledged)
}

fn want(key: &str) -> Want {
    match key {
        "cluster_uid" | "cluster_name" | "kubernetes_version" | "platform" | "region" | "agent_version" => {
            Want::Value
        }
        key if InventoryKind::from_array(key).is_some() => Want::Elements,
        _ => Want::Nothing,
    }
}

/// A snapshot that arrives.
struct Intake<'a> {
    app: &'a App,
    writer: Writer,
    cluster: i64,
    uid: Option<String>,
    report: ClusterReport,
    ticket: Option<Ticket>,
    /// The array that is being read.
    kind: Option<InventoryKind>,
    /// Kinds whose array was there as a whole.
    complete: BTreeSet<String>,
    batch: Vec<Op>,
    batch_bytes: usize,
    /// Elements of arrays, `null` included.
    elements: usize,
    objects: usize,
    changed: usize,
    /// When the hub last noted that it hears of the cluster.
    contact: Millis,
}

impl<'a> Intake<'a> {
    fn new(app: &'a App, cluster: i64) -> Self {
        Self {
            app,
            writer: app.writer.clone(),
            cluster,
            uid: None,
            report: ClusterReport::default(),
            ticket: None,
            kind: None,
            complete: BTreeSet::new(),
            batch: Vec::new(),
            batch_bytes: 0,
            elements: 0,
            objects: 0,
            changed: 0,
            contact: app.now(),
        }
    }

    async fn read(mut self, body: BodyReader) -> Result<Acknowledged, AgentError> {
        let splitter = Splitter::new(want, self.app.limits.object_bytes());
        let mut pieces = PieceReader::new(body, splitter);
        loop {
            match pieces.next().await? {
                Progress::Piece(piece) => self.piece(piece).await?,
                Progress::Bytes => {}
                Progress::End => return self.finish().await,
            }
            self.keep_contact().await?;
        }
    }

    /// Notes that the hub hears of the cluster: a snapshot may take longer than the time after which a cluster counts as stale.
    async fn keep_contact(&mut self) -> Result<(), AgentError> {
        let now = self.app.now();
        let Some(uid) = self.uid.clone().filter(|_| now - self.contact >= CONTACT_EVERY) else {
            return Ok(());
        };
        self.contact = now;
        let cluster = self.cluster;
        self.writer
            .run(move |transaction: &mut WriteTransaction| {
                Box::pin(async move {
                    record_contact(transaction, cluster, &uid, &ClusterReport::default()).await
                })
            })
            .await?;
        Ok(())
    }

    async fn piece(&mut self, piece: Piece) -> Result<(), AgentError> {
        match piece {
            Piece::Value { key, value } => self.head(&key, value).await,
            Piece::Begin { key } => {
                self.kind = InventoryKind::from_array(&key);
                Ok(())
            }
            Piece::Element { index, value } => self.element(index, value).await,
            Piece::End => {
                if let Some(kind) = self.kind.take() {
                    self.complete.insert(kind.name().to_owned());
                }
                Ok(())
            }
        }
    }

    /// A text about the cluster. Its uid begins the snapshot.
    async fn head(&mut self, key: &str, value: Value) -> Result<(), AgentError> {
        let text = |limit| {
            let field: &'static str = match key {
                "cluster_uid" => "cluster_uid",
                "cluster_name" => "cluster_name",
                "kubernetes_version" => "kubernetes_version",
                "platform" => "platform",
                "region" => "region",
                _ => "agent_version",
            };
            let holder = Value::Object([(field.to_owned(), value.clone())].into_iter().collect());
            record::optional(&holder, field, limit)
        };
        match key {
            "cluster_uid" => {
                let uid = text(record::MAX_UID)?;
                if let Some(uid) = uid {
                    self.begin(uid).await?;
                }
            }
            "cluster_name" => self.report.cluster_name = text(MAX_CLUSTER_NAME)?,
            "kubernetes_version" => self.report.kubernetes_version = text(MAX_WORD)?,
            "platform" => self.report.platform = text(MAX_WORD)?,
            "region" => self.report.region = text(MAX_WORD)?,
            _ => self.report.agent_version = text(MAX_WORD)?,
        }
        Ok(())
    }

    async fn begin(&mut self, uid: String) -> Result<(), AgentError> {
        if self.ticket.is_some() {
            return Err(Rejection::new("cluster_uid", "must be there once", Reason::Malformed).into());
        }
        let (cluster, met) = (self.cluster, uid.clone());
        let ticket = self
            .writer
            .run(move |transaction: &mut WriteTransaction| {
                Box::pin(async move {
                    match record_contact(transaction, cluster, &met, &ClusterReport::default()).await? {
                        Pin::Other => Ok(None),
                        Pin::Same => Ok(Some(transaction.snapshots.begin(cluster))),
                    }
                })
            })
            .await?;
        self.ticket = Some(ticket.ok_or(AgentError::OtherCluster)?);
        self.uid = Some(uid);
        Ok(())
    }

    async fn element(&mut self, index: usize, value: Value) -> Result<(), AgentError> {
        self.elements += 1;
        let most = self.app.limits.snapshot_objects;
        if self.elements > most {
            let message = format!("body: must have at most {most} objects, null ones included");
            return Err(ApiError::too_large(message).into());
        }
        let Some(kind) = self.kind.filter(|_| !value.is_null()) else {
            return Ok(());
        };
        self.objects += 1;
        let element = || format!("{}[{index}]", kind.array());
        let identity = ObjectIdentity::read(kind.name(), &value).map_err(|fault| fault.within(&element()))?;
        let record = Record::read(identity, value).map_err(|fault| fault.within(&element()))?;
        self.batch_bytes += record.object.len() + OBJECT_COST;
        self.batch.push(Op::Upsert(record));
        if self.ticket.is_none() && self.batch_bytes > HELD_BYTES {
            let rule = "required before so many objects";
            return Err(Rejection::new("cluster_uid", rule, Reason::Missing).into());
        }
        if self.batch.len() >= BATCH_OBJECTS || self.batch_bytes >= BATCH_BYTES {
            self.write().await?;
        }
        Ok(())
    }

    /// Writes the objects that have gathered, if it is known whose they are.
    async fn write(&mut self) -> Result<(), AgentError> {
        let Some(ticket) = self.ticket.clone().filter(|_| !self.batch.is_empty()) else {
            return Ok(());
        };
        self.batch_bytes = 0;
        let ops = std::mem::take(&mut self.batch);
        let cluster = self.cluster;
        let applied = self
            .writer
            .run(move |transaction: &mut WriteTransaction| {
                Box::pin(async move {
                    if !transaction.snapshots.is_open(&ticket) {
                        return Ok(None);
                    }
                    Ok(Some(apply(transaction, cluster, ops).await?))
                })
            })
            .await?
            .ok_or(AgentError::Superseded)?;
        self.changed += applied.changed;
        self.app.metrics.ignored(applied.ignored);
        Ok(())
    }

    /// The body was whole: what it did not name is removed.
    async fn finish(mut self) -> Result<Acknowledged, AgentError> {
        self.write().await?;
        let (Some(ticket), Some(uid)) = (self.ticket, self.uid) else {
            return Err(Rejection::new("cluster_uid", "required", Reason::Missing).into());
        };
        let (cluster, report, kinds) = (self.cluster, self.report, self.complete);
        let swept = self
            .writer
            .run(move |transaction: &mut WriteTransaction| {
                Box::pin(async move {
                    // The pinned uid was checked at the beginning, and never changes.
                    record_contact(transaction, cluster, &uid, &report).await?;
                    sweep(transaction, &ticket, &kinds).await
                })
            })
            .await?
            .ok_or(AgentError::Superseded)?;
        Ok(Acknowledged::new(self.objects, self.changed + swept))
    }
}

impl From<SplitError> for AgentError {
    fn from(error: SplitError) -> Self {
        match error {
            SplitError::Rejected(rejection) => rejection.into(),
            SplitError::TooLarge { .. } => ApiError::too_large(error.to_string()).into(),
        }
    }
}
