//! A sink that remembers what it was told, and a client that remembers every byte it got.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use anyhow::{Context, Result};
use bytes::Bytes;
use http::Response;
use http_body_util::BodyExt;
use kube::client::{ClientBuilder, DynBody};
use serde_json::Value;
use tokio::sync::watch;
use tower::util::{MapRequestLayer, MapResponseLayer};
use trustplane_kit::watch::{Payload, ProjectError, Sighting, Sink, SinkWatch, Tuning, WatchSpec, Watches};
use trustplane_plan::{Kind, ObjectRef};
use trustplane_testkit::DEADLINE;

use crate::watch_lists::unstreamable;
use crate::watch_rig::{OURS, Rig};

/// What a sink has made of its calls.
#[derive(Debug, Clone, Default)]
pub struct Heard {
    /// Names with uids and the cells of their rows.
    pub rows: BTreeMap<String, (String, Vec<Value>)>,
    /// The calls in short: `begun`, `+name`, `-name`, `complete`, `dropped`; those of a list indented.
    pub calls: Vec<String>,
    /// The texts of all rows.
    pub text: String,
    listed: Option<BTreeSet<String>>,
}

impl Heard {
    pub fn names(&self) -> Vec<&str> {
        self.rows.keys().map(String::as_str).collect()
    }

    pub fn count(&self, call: &str) -> usize {
        self.calls.iter().filter(|made| made.trim() == call).count()
    }
}

/// A sink of rows, to wait for what it hears.
#[derive(Debug, Default)]
pub struct Rows(watch::Sender<Heard>);

impl Rows {
    fn note(&self, call: &str, change: impl FnOnce(&mut Heard)) {
        self.0.send_modify(|heard| {
            let indent = if heard.listed.is_some() { "  " } else { "" };
            heard.calls.push(format!("{indent}{call}"));
            change(heard);
        });
    }

    pub fn heard(&self) -> Heard {
        self.0.borrow().clone()
    }

    /// Waits until what was heard is as wanted.
    pub async fn wait(&self, wanted: impl Fn(&Heard) -> bool) -> Result<Heard> {
        let mut heard = self.0.subscribe();
        let waited = tokio::time::timeout(DEADLINE, heard.wait_for(|heard| wanted(heard))).await;
        let calls = self.heard().calls;
        Ok(waited.with_context(|| format!("heard only {calls:?}"))??.clone())
    }

    /// Waits until these are there, and no others, and no list is under way.
    pub async fn wait_for(&self, names: &[&str]) -> Result<Heard> {
        self.wait(|heard| heard.listed.is_none() && heard.names() == names)
            .await
    }
}

impl Sink for Rows {
    fn payload(&self) -> Payload {
        Payload::Table
    }

    fn list_begun(&self) {
        self.note("begun", |heard| heard.listed = Some(BTreeSet::new()));
    }

    fn applied(&self, object: &Sighting<'_>) -> Result<(), ProjectError> {
        let row: Value = serde_json::from_str(object.json)?;
        let cells = row["cells"].as_array().cloned();
        let cells = cells.ok_or_else(|| ProjectError::new("the row has no cells"))?;
        let name = object.object.name().to_owned();
        self.note(&format!("+{name}"), |heard| {
            heard.text += object.json;
            heard.rows.insert(name.clone(), (object.uid.to_owned(), cells));
            if let Some(listed) = &mut heard.listed {
                listed.insert(name);
            }
        });
        Ok(())
    }

    fn deleted(&self, object: &ObjectRef, uid: &str) {
        self.note(&format!("-{}", object.name()), |heard| {
            if heard
                .rows
                .get(object.name())
                .is_some_and(|(known, _)| known == uid)
            {
                heard.rows.remove(object.name());
            }
        });
    }

    fn list_complete(&self, whole: bool) {
        assert!(whole, "every row has a name");
        self.0.send_modify(|heard| {
            heard.calls.push("complete".to_owned());
            let listed = heard.listed.take().unwrap_or_default();
            heard.rows.retain(|name, _| listed.contains(name));
        });
    }

    fn list_dropped(&self) {
        self.0.send_modify(|heard| {
            heard.calls.push("dropped".to_owned());
            heard.listed = None;
        });
    }
}

/// Every byte that a client was answered.
#[derive(Debug, Clone, Default)]
pub struct Wire(Arc<Mutex<Vec<u8>>>);

impl Wire {
    pub fn holds(&self, text: &str) -> bool {
        let bytes = self.0.lock().unwrap();
        bytes.windows(text.len()).any(|part| part == text.as_bytes())
    }

    fn record(&self, answer: Response<Box<DynBody>>) -> Response<Box<DynBody>> {
        let bytes = self.0.clone();
        answer.map(|body| {
            let recorded = body.map_frame(move |frame| {
                let data: Option<&Bytes> = frame.data_ref();
                bytes.lock().unwrap().extend(data.into_iter().flatten());
                frame
            });
            Box::new(recorded) as Box<DynBody>
        })
    }
}

/// Watches whose answers are recorded; of a server that streams lists, or of one that refuses to.
pub fn watches(rig: &Rig, tuning: Tuning, streams: bool) -> Result<(Watches, Wire)> {
    let wire = Wire::default();
    let (recorder, builder) = (wire.clone(), ClientBuilder::try_from(rig.instance.config()?)?);
    let record = MapResponseLayer::new(move |answer| recorder.record(answer));
    let change = MapRequestLayer::new(move |request| if streams { request } else { unstreamable(request) });
    let client = builder.with_layer(&record).with_layer(&change).build();
    Ok((Watches::new(client, tuning, &rig.metrics), wire))
}

/// Pours our objects of a kind, of the namespace of the rig, into a sink.
pub fn pour(rig: &Rig, watches: &Watches, kind: Kind) -> (Arc<Rows>, SinkWatch) {
    let rows = Arc::new(Rows::default());
    let spec = WatchSpec::new(kind, ())
        .namespaces([rig.sandbox.namespace()])
        .labels(OURS);
    (rows.clone(), watches.pour(spec, rows))
}
