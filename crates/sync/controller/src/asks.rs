//! What is kept of a pod: the text of its annotation, and nothing at all of one that has none.
//!
//! The watch only copies the text: it reads no YAML and compiles no pattern. [`PodRequests`] does, when a pod has changed or is
//! looked at, once for each text.

use std::collections::{BTreeSet, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jiff::Timestamp;
use serde::Deserialize;
use tokio::task::yield_now;
use trustplane_kit::watch::{Payload, Project, ProjectError, Stopped, Store, Watched};
use trustplane_plan::{Meta, ObjectRef};
use trustplane_sync_core::grammar::{self, LONGEST_ANNOTATION, ParseCache, Parsed};
use trustplane_sync_core::pod::{Asks, Pod, workload};
use trustplane_sync_core::request::Source;

use crate::named::Named;

/// So many annotations are read before others get a turn on the thread.
const TURN: usize = 64;
/// How many annotation texts are kept before the first sweep removes those that no pod has any more.
const FIRST_SWEEP: usize = 64;

/// The annotations of a pod that asks for something, as they were written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Annotated {
    text: Arc<str>,
    force: Option<Arc<str>>,
}

/// What the watch keeps of a pod.
pub(crate) type Kept = Option<Box<Annotated>>;

/// Keeps the text of the annotations. Pods with the same text share it.
#[derive(Default)]
pub(crate) struct PodAnnotations(Mutex<Texts>);

/// The texts of pods, each once.
#[derive(Default)]
struct Texts {
    all: HashSet<Arc<str>>,
    next_sweep: usize,
}

impl Texts {
    fn share(&mut self, text: &str) -> Arc<str> {
        if let Some(known) = self.all.get(text) {
            return known.clone();
        }
        if self.all.len() >= self.next_sweep.max(FIRST_SWEEP) {
            self.all.retain(|text| Arc::strong_count(text) > 1);
            self.next_sweep = 2 * self.all.len();
        }
        let text: Arc<str> = text.into();
        self.all.insert(text.clone());
        text
    }
}

#[derive(Deserialize)]
struct Object {
    metadata: Metadata,
}

#[derive(Deserialize)]
struct Metadata {
    #[serde(default)]
    annotations: Annotations,
}

#[derive(Deserialize, Default)]
struct Annotations {
    #[serde(rename = "jasm.codnod.io/secret-sync")]
    sync: Option<String>,
    #[serde(rename = "jasm.codnod.io/force-sync")]
    force: Option<String>,
}

impl Project for PodAnnotations {
    type Out = Kept;

    fn payload(&self) -> Payload {
        Payload::Metadata
    }

    fn project(&self, _meta: &Meta, json: &str) -> Result<Kept, ProjectError> {
        let Annotations { sync, force } = serde_json::from_str::<Object>(json)?.metadata.annotations;
        let Some(text) = sync else {
            return Ok(None);
        };
        // Of a text that is too long so much is kept that it still is.
        let text = match text.len() > LONGEST_ANNOTATION {
            true => &text[..text.ceil_char_boundary(LONGEST_ANNOTATION + 1)],
            false => text.as_str(),
        };
        let mut texts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(Some(Box::new(Annotated {
            text: texts.share(text),
            force: force.map(Into::into),
        })))
    }
}

/// What the pods of a watch ask for, and which of them ask for a Secret.
pub(crate) struct PodRequests {
    store: Store<Kept>,
    /// The names that an annotation may use.
    providers: Vec<&'static str>,
    cache: Mutex<ParseCache>,
    named: Mutex<Named>,
}

impl PodRequests {
    pub fn new(store: Store<Kept>, providers: Vec<&'static str>) -> Self {
        Self {
            store,
            providers,
            cache: Mutex::default(),
            named: Mutex::default(),
        }
    }

    /// A pod, if it asks for something and is not on its way out.
    pub fn get(&self, pod: &ObjectRef) -> Option<Pod> {
        let watched = self.store.get(pod)?;
        let Watched { meta, value } = &*watched;
        let annotated = value.as_deref().filter(|_| !meta.is_terminating())?;
        Some(Pod {
            object: meta.object.clone(),
            uid: meta.uid.clone(),
            created: meta.created.unwrap_or(Timestamp::UNIX_EPOCH),
            workload: workload(meta),
            service_account: None,
            asks: self.asks(annotated),
        })
    }

    /// The pods that ask for a Secret, in the order of their names.
    pub fn claimants(&self, secret: &ObjectRef) -> Vec<Pod> {
        let pods = self.named().pods(secret);
        let pods = pods.iter().filter_map(|pod| self.get(pod));
        // What a pod asks for may have changed since it was heard of.
        pods.filter(|pod| {
            let mut secrets = pod.asks.secrets().into_iter();
            secrets.any(|name| name.as_str() == secret.name())
        })
        .collect()
    }

    /// All Secrets that pods ask for, or those of one namespace.
    pub fn secrets(&self, namespace: Option<&str>) -> BTreeSet<ObjectRef> {
        self.named().secrets(namespace)
    }

    /// Takes note that a pod has changed. Answers which Secrets that concerns: those that it asks for, and those that it asked
    /// for before, which may have a new owner.
    pub fn hear(&self, pod: &ObjectRef) -> BTreeSet<ObjectRef> {
        let now = self.names(pod);
        self.named().set(pod, now)
    }

    /// Waits until all pods of the first list are known by the Secrets that they ask for.
    pub async fn ready(&self) -> Result<(), Stopped> {
        self.store.ready().await?;
        for (index, pod) in self.asking().into_iter().enumerate() {
            self.note_first(&pod);
            if index % TURN == TURN - 1 {
                yield_now().await;
            }
        }
        Ok(())
    }

    fn note_first(&self, pod: &ObjectRef) {
        // What the pod asks for is read under the lock: whatever happens to it after that is heard after this.
        let mut named = self.named();
        let now = self.names(pod);
        named.set_first(pod, now);
    }

    /// The Secrets that are asked for from sources that are meant.
    pub async fn fed_by(&self, is_meant: impl Fn(&Source) -> bool) -> BTreeSet<ObjectRef> {
        let mut fed = BTreeSet::new();
        for (index, name) in self.asking().into_iter().enumerate() {
            if let Some(pod) = self.get(&name) {
                let requests = pod.asks.requests().filter(|request| is_meant(&request.source));
                fed.extend(
                    requests.map(|request| ObjectRef::new(name.namespace(), request.secret_name.as_str())),
                );
            }
            if index % TURN == TURN - 1 {
                yield_now().await;
            }
        }
        fed
    }

    /// The names of the pods that ask for something.
    fn asking(&self) -> Vec<ObjectRef> {
        let mut asking = Vec::new();
        self.store.for_each(|pod| {
            if pod.value.is_some() {
                asking.push(pod.meta.object.clone());
            }
        });
        asking
    }

    /// The Secrets that a pod's annotation names.
    fn names(&self, pod: &ObjectRef) -> Vec<ObjectRef> {
        let Some(watched) = self.store.get(pod) else {
            return Vec::new();
        };
        let Some(annotated) = &watched.value else {
            return Vec::new();
        };
        let asks = self.asks(annotated);
        let names = asks.secrets().into_iter();
        names
            .map(|name| ObjectRef::new(pod.namespace(), name.as_str()))
            .collect()
    }

    fn asks(&self, annotated: &Annotated) -> Asks {
        Asks {
            annotation: self.read(&annotated.text),
            force: annotated.force.clone(),
        }
    }

    /// Reads an annotation, unless it was read before. Nobody waits for another's text meanwhile.
    fn read(&self, text: &Arc<str>) -> Parsed {
        let cache = || self.cache.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(parsed) = cache().get(text) {
            return parsed;
        }
        let parsed = Arc::new(grammar::parse(text, &self.providers));
        cache().put(text, &parsed);
        parsed
    }

    fn named(&self) -> MutexGuard<'_, Named> {
        self.named.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use trustplane_plan::Keep;

    use super::*;

    fn projected(project: &PodAnnotations, text: &str) -> Box<Annotated> {
        let body = json!({"metadata": {"name": "p", "namespace": "n", "annotations": {"jasm.codnod.io/secret-sync": text}}});
        let meta = Meta::decode(&body.to_string(), &Keep::default()).unwrap();
        project.project(&meta, &body.to_string()).unwrap().unwrap()
    }

    #[test]
    fn watch_keeps_the_text_and_reads_nothing() {
        let project = PodAnnotations::default();
        // Reading it would be an error; keeping it is none.
        let kept = projected(&project, "include: ['(']");
        assert_eq!(&*kept.text, "include: ['(']");
    }

    #[test]
    fn pods_with_the_same_annotation_share_its_text() {
        let project = PodAnnotations::default();
        let (one, other) = (
            projected(&project, "provider: mock"),
            projected(&project, "provider: mock"),
        );
        assert!(Arc::ptr_eq(&one.text, &other.text));
    }

    #[test]
    fn texts_that_no_pod_has_are_dropped() {
        let project = PodAnnotations::default();
        for index in 0..10 * FIRST_SWEEP {
            projected(&project, &format!("path: {index}"));
        }
        let texts = project.0.lock().unwrap();
        assert!(texts.all.len() <= FIRST_SWEEP, "{}", texts.all.len());
    }

    #[test]
    fn text_that_is_too_long_is_cut_and_still_too_long() {
        let kept = projected(&PodAnnotations::default(), &"é".repeat(LONGEST_ANNOTATION));
        assert!(kept.text.len() <= LONGEST_ANNOTATION + 4);
        let problem = grammar::parse(&kept.text, &[]).unwrap_err();
        assert!(
            problem.text.contains("must not be longer than 65536 bytes"),
            "{problem}"
        );
    }
}
