//! The proof that a sink which believes what it is told ends up with what is true.

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex, MutexGuard},
    time::Duration,
};

use proptest::prelude::*;
use tokio_util::sync::CancellationToken;
use trustplane_plan::{ObjectRef, kinds::CONFIG_MAP};

use super::{Action, View, any_action, link::Link, selection, server::Server, tuning};
use crate::watch::{
    Payload, ProjectError, Sighting, Sink, follower::Follower, hub::Hub, metrics::WatchMetrics,
    sink::IntoSink, spec::is_older,
};

/// A sink that keeps names with uids and versions, and notes each call that breaks a promise.
#[derive(Default)]
struct Recorder(Mutex<Record>);

#[derive(Default)]
struct Record {
    view: View,
    /// The names of the list that is under way.
    listed: Option<BTreeSet<String>>,
    /// The newest version since the last list.
    newest: Option<String>,
    broken: Vec<String>,
}

impl Record {
    fn expect(&mut self, holds: bool, promise: impl FnOnce() -> String) {
        if !holds {
            self.broken.push(promise());
        }
    }

    fn event(&mut self, version: &str) {
        let newest = self.newest.take();
        let is_in_order = newest.as_ref().is_none_or(|newest| !is_older(version, newest));
        self.expect(is_in_order, || format!("an event of {version} after {newest:?}"));
        self.newest = Some(version.to_owned());
    }
}

impl Recorder {
    fn lock(&self) -> MutexGuard<'_, Record> {
        self.0.lock().unwrap()
    }
}

impl Sink for Recorder {
    fn payload(&self) -> Payload {
        Payload::Metadata
    }

    fn list_begun(&self) {
        let mut record = self.lock();
        let before = record.listed.replace(BTreeSet::new());
        record.expect(before.is_none(), || "a list within a list".to_owned());
    }

    fn applied(&self, object: &Sighting<'_>) -> Result<(), ProjectError> {
        let mut record = self.lock();
        let name = object.object.name().to_owned();
        let state = (object.uid.to_owned(), object.version.to_owned());
        let told = format!("{object:?}");
        record.view.insert(name.clone(), state);
        match &mut record.listed {
            Some(listed) => drop(listed.insert(name)),
            None => record.event(object.version),
        }
        let is_right = record.listed.is_some() == object.listing;
        record.expect(is_right, || format!("of a list or not: {told}"));
        Ok(())
    }

    fn deleted(&self, object: &ObjectRef, uid: &str) {
        let mut record = self.lock();
        if record
            .view
            .get(object.name())
            .is_some_and(|(known, _)| known == uid)
        {
            record.view.remove(object.name());
        }
    }

    fn list_complete(&self, whole: bool) {
        let mut record = self.lock();
        record.expect(whole, || "not whole".to_owned());
        record.newest = None;
        match record.listed.take() {
            Some(listed) => record.view.retain(|name, _| listed.contains(name)),
            None => record.broken.push("complete before it began".to_owned()),
        }
    }

    fn list_dropped(&self) {
        let mut record = self.lock();
        let listed = record.listed.take();
        record.expect(listed.is_some(), || "dropped before it began".to_owned());
    }
}

fn follower(hub: &Arc<Hub<()>>, sink: &Arc<Recorder>) -> Follower<IntoSink<Recorder>> {
    let destination = IntoSink::new(hub.clone(), Arc::from(""), sink.clone());
    Follower::new(hub.clone(), Arc::from(""), destination, tuning())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn a_sink_reaches_the_truth(streams: bool, actions in proptest::collection::vec(any_action(), 0..80)) {
        let metrics = WatchMetrics::default().of(&CONFIG_MAP);
        let collections = [Arc::from("")].into();
        let hub = Arc::new(Hub::poured(selection(), collections, metrics, CancellationToken::new()));
        let sink = Arc::new(Recorder::default());
        let mut link = Link::new(Server::new(streams), &hub, follower(&hub, &sink));
        for action in actions {
            match action {
                Action::Join => hub.relist(),
                // A fault of ours: the same sink hears of everything again.
                Action::Restart => link.restart(&hub, follower(&hub, &sink)),
                action => link.act(action),
            }
            link.now += Duration::from_millis(10);
        }
        let truth = link.settle(&hub)?;
        let record = sink.lock();
        prop_assert_eq!(&record.broken, &Vec::<String>::new());
        prop_assert_eq!(&record.view, &truth);
        prop_assert!(record.listed.is_none() && hub.standing().borrow().complete);
    }
}
