//! Heartbeats: the agent lives although nothing changes.

use super::events::parse;
use super::{Acknowledged, MAX_WORD, cluster_uid};
use crate::agent::AgentError;
use crate::app::App;
use crate::record;
use crate::store::contact::{ClusterReport, Pin, record_contact};
use crate::store::identity::Agent;
use crate::store::writer::WriteTransaction;

/// Takes a heartbeat.
pub async fn take(app: &App, agent: &Agent, body: &[u8]) -> Result<Acknowledged, AgentError> {
    let payload = parse(body)?;
    let uid = cluster_uid(&payload)?;
    let report = ClusterReport {
        heartbeat: true,
        agent_version: record::optional(&payload, "agent_version", MAX_WORD)?,
        ..ClusterReport::default()
    };
    let cluster = agent.cluster;
    let pin = app
        .writer
        .run(move |transaction: &mut WriteTransaction| {
            Box::pin(async move { record_contact(transaction, cluster, &uid, &report).await })
        })
        .await?;
    match pin {
        Pin::Same => Ok(Acknowledged::new(0, 0)),
        Pin::Other => Err(AgentError::OtherCluster),
    }
}
