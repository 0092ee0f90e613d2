//! The floor: a loop that knows what to do. It reads ZTWIM once and writes to each operand what the capability would write, one after the
//! other, with the rights of the capability.

use anyhow::{Context, Result};
use kube::Client;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};
use trustplane_api::identity::ZTWIM;
use trustplane_api::identity::names::{INHERITED, SINGLETON};
use trustplane_plan::Kind;

use crate::follower::FOLLOWERS;
use crate::stage::{Stage, api};

/// The field manager of the capability: the fields of operands have the owner that they had.
const MANAGER: &str = "trustplane-identity";

/// A loop that writes operands.
pub struct Floor {
    client: Client,
    writes: Vec<(Kind, Value)>,
}

impl Floor {
    /// Keeps what the capability has written.
    pub async fn new(stage: &Stage) -> Result<Self> {
        let client = stage.instance("floor").await?.client()?;
        let mut writes = Vec::new();
        for kind in FOLLOWERS {
            let live = serde_json::to_value(api(&client, &kind).get(SINGLETON).await?)?;
            let metadata = &live["metadata"];
            let record = metadata["annotations"][INHERITED].as_str().context("a record")?;
            let wish = json!({
                "apiVersion": kind.api_version(), "kind": kind.kind,
                "metadata": {
                    "name": SINGLETON, "annotations": { INHERITED: record },
                    "ownerReferences": metadata["ownerReferences"],
                },
                "spec": serde_json::from_str::<Value>(record)?,
            });
            writes.push((kind, wish));
        }
        Ok(Self { client, writes })
    }

    /// Brings the name of the cluster from ZTWIM to each operand.
    pub async fn bring(&mut self) -> Result<()> {
        let ztwim = api(&self.client, &ZTWIM).get(SINGLETON).await?;
        let name = &ztwim.data["spec"]["clusterName"];
        for (kind, wish) in &mut self.writes {
            wish["spec"]["clusterName"] = name.clone();
            wish["metadata"]["annotations"][INHERITED] = wish["spec"].to_string().into();
            let ours = PatchParams::apply(MANAGER).force();
            api(&self.client, kind)
                .patch(SINGLETON, &ours, &Patch::Apply(&wish))
                .await?;
        }
        Ok(())
    }
}
