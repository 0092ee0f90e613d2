//! Reading the audit log of a control plane from a place on.

use std::io::SeekFrom;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use tokio::fs::File;
use tokio::io::{AsyncReadExt, AsyncSeekExt};

use super::{Audit, Event};
use crate::{ControlPlane, until};

/// The log is written when a request has been answered; a marker that takes longer than this will not come.
const PATIENCE: Duration = Duration::from_secs(30);

/// No line is longer: requests are logged without their bodies.
const LONGEST_LINE: u64 = 1 << 20;

/// A place in the audit log.
#[derive(Debug, Clone)]
pub struct Mark {
    plane: Arc<ControlPlane>,
    offset: u64,
}

impl Mark {
    /// The present end of the log: whatever was answered before is before it, whatever is asked later is behind it.
    pub async fn now(plane: &Arc<ControlPlane>) -> Result<Self> {
        let log = Log::new(plane);
        let start = log.end().await?;
        let (_, offset) = log.read_up_to_a_new_marker(plane, start).await?;
        Ok(Self {
            plane: plane.clone(),
            offset,
        })
    }

    /// Everything that was answered since the mark.
    pub async fn since(&self) -> Result<Audit> {
        let log = Log::new(&self.plane);
        let (events, _) = log.read_up_to_a_new_marker(&self.plane, self.offset).await?;
        Ok(Audit::new(events))
    }
}

struct Log {
    path: PathBuf,
}

impl Log {
    fn new(plane: &ControlPlane) -> Self {
        Self {
            path: plane.audit_log().to_owned(),
        }
    }

    /// Where the last whole line ends. The length of the file is no such place while the next line is being written.
    async fn end(&self) -> Result<u64> {
        let metadata = tokio::fs::metadata(&self.path).await;
        let length = metadata
            .with_context(|| format!("find the audit log {}", self.path.display()))?
            .len();
        let start = length.saturating_sub(LONGEST_LINE);
        Ok(start + u64::try_from(self.whole_lines(start).await?.len())?)
    }

    /// Asks the API server for an object that nobody has, and reads until that shows up: the log is written in the order
    /// in which requests were answered, so everything that was answered before is there.
    async fn read_up_to_a_new_marker(&self, plane: &ControlPlane, start: u64) -> Result<(Vec<Event>, u64)> {
        let marker = format!("marker-{:032x}", rand::random::<u128>());
        let nowhere: Api<ConfigMap> = Api::default_namespaced(plane.client()?);
        nowhere.get_opt(&marker).await.context("mark the audit log")?;
        until("the marker in the audit log", PATIENCE, || async {
            let text = self.read(start).await?;
            let Some(found) = text.find(&marker) else {
                return Ok(None);
            };
            let Some(end) = text[found..].find('\n').map(|newline| found + newline + 1) else {
                return Ok(None);
            };
            let events = text[..end].lines().map(parse).collect::<Result<Vec<_>>>()?;
            Ok(Some((events, start + u64::try_from(end)?)))
        })
        .await
    }

    async fn read(&self, start: u64) -> Result<String> {
        String::from_utf8(self.whole_lines(start).await?).context("read the audit log")
    }

    /// Everything from there on. The last line may be half written, and is left out.
    async fn whole_lines(&self, start: u64) -> Result<Vec<u8>> {
        let mut file = File::open(&self.path).await.context("open the audit log")?;
        file.seek(SeekFrom::Start(start)).await?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).await.context("read the audit log")?;
        let last = bytes.iter().rposition(|byte| *byte == b'\n');
        bytes.truncate(last.map_or(0, |last| last + 1));
        Ok(bytes)
    }
}

fn parse(line: &str) -> Result<Event> {
    serde_json::from_str(line).with_context(|| format!("understand a line of the audit log: {line}"))
}
