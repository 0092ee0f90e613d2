//! A model of an API server that misbehaves, and the proof that stores and subscribers reach the truth all the same.

mod link;
mod server;
mod sinks;

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use proptest::prelude::*;
use tokio_util::sync::CancellationToken;
use trustplane_plan::kinds::CONFIG_MAP;
use trustplane_plan::{Keep, ObjectRef};

use super::{
    Change, Metadata, Payload, Reason, Resume, Tuning, Versions, destination::IntoStore, follower::Follower,
    hub::Hub, metrics::WatchMetrics, request::Selection,
};
use link::Link;
use server::Server;

/// What can happen.
#[derive(Debug, Clone)]
enum Action {
    Write(u8),
    Delete(u8),
    Recreate(u8),
    Compact,
    /// The server sends this many lines or pages.
    Deliver(u8),
    /// A subscriber takes this many changes.
    Take(u8, u8),
    Fail(Reason),
    /// The next line comes twice.
    Duplicate,
    /// The next two lines change places.
    Reorder,
    /// The next line is lost: nobody can know.
    Drop,
    /// The next list is what the server had some time ago.
    StaleList(u8),
    /// Somebody new subscribes.
    Join,
    /// The process starts anew from what its first subscriber stored; another subscriber starts with nothing.
    Restart,
}

/// What a subscriber makes of the changes it hears: names with uids and versions.
type View = BTreeMap<String, (String, String)>;

struct Subscriber {
    id: u64,
    view: View,
}

struct World {
    link: Link<IntoStore<Metadata>>,
    hub: Arc<Hub<()>>,
    subscribers: Vec<Subscriber>,
}

fn tuning() -> Arc<Tuning> {
    Arc::new(Tuning {
        page_size: 2,
        refresh: None,
        ..Tuning::default()
    })
}

fn selection() -> Selection {
    Selection {
        kind: CONFIG_MAP,
        labels: None,
        fields: None,
        payload: Payload::Metadata,
    }
}

fn start(resume: Option<Versions>) -> (Arc<Hub<()>>, Follower<IntoStore<Metadata>>) {
    let metrics = WatchMetrics::default().of(&CONFIG_MAP);
    let collections = [Arc::from("")].into();
    let hub = Arc::new(Hub::new(
        selection(),
        collections,
        resume.as_ref(),
        metrics,
        CancellationToken::new(),
        <Metadata as crate::watch::Project>::names,
    ));
    let project = Arc::new(Metadata(Keep::default()));
    let destination = IntoStore::new(hub.clone(), Arc::from(""), project);
    let follower = Follower::new(hub.clone(), Arc::from(""), destination, tuning());
    (hub, follower)
}

impl World {
    fn new(streams: bool) -> Self {
        let (hub, follower) = start(None);
        let (id, _) = hub.join(None);
        Self {
            link: Link::new(Server::new(streams), &hub, follower),
            hub,
            subscribers: vec![Subscriber {
                id,
                view: View::new(),
            }],
        }
    }

    fn act(&mut self, action: Action) -> Result<(), TestCaseError> {
        match action {
            Action::Take(subscriber, changes) => self.take(usize::from(subscriber), usize::from(changes))?,
            Action::Join => {
                let (id, _) = self.hub.join(None);
                self.subscribers.push(Subscriber {
                    id,
                    view: View::new(),
                });
            }
            Action::Restart => self.restart(),
            action => self.link.act(action),
        }
        Ok(())
    }

    fn restart(&mut self) {
        let survivor = self.subscribers.swap_remove(0);
        let versions = {
            let state = self.hub.lock();
            (*state.inboxes.all[&survivor.id].versions(&state.inboxes.versions)).clone()
        };
        let known = survivor
            .view
            .iter()
            .map(|(name, (uid, _))| (object(name), Arc::from(uid.as_str())));
        let resume = Resume {
            versions: versions.clone(),
            known: known.collect(),
        };
        let (hub, follower) = start(Some(versions));
        self.link.restart(&hub, follower);
        self.hub = hub;
        let (id, _) = self.hub.join(Some(resume));
        self.subscribers = vec![Subscriber {
            id,
            view: survivor.view,
        }];
    }

    fn take(&mut self, subscriber: usize, changes: usize) -> Result<(), TestCaseError> {
        let count = self.subscribers.len();
        let subscriber = &mut self.subscribers[subscriber % count];
        for _ in 0..changes {
            let change = self
                .hub
                .lock()
                .inboxes
                .all
                .get_mut(&subscriber.id)
                .and_then(super::inbox::Inbox::pop);
            let Some(change) = change else { break };
            let name = change.object().name().to_owned();
            match change {
                Change::Applied { object, .. } => {
                    let state = (
                        object.meta.uid.to_string(),
                        object.meta.resource_version.to_string(),
                    );
                    let before = subscriber.view.insert(name, state.clone());
                    prop_assert!(
                        before.is_none_or(|(uid, _)| uid == state.0),
                        "applied over another uid"
                    );
                }
                Change::Deleted { uid, .. } => {
                    let before = subscriber.view.remove(&name).map(|(uid, _)| uid);
                    prop_assert_eq!(before.as_deref(), Some(&*uid), "a deletion out of the blue");
                }
            }
        }
        Ok(())
    }

    /// The server behaves from now on; everything must come out true.
    fn settle(&mut self) -> Result<(), TestCaseError> {
        let truth = self.link.settle(&self.hub)?;
        for subscriber in 0..self.subscribers.len() {
            self.take(subscriber, usize::MAX)?;
            prop_assert_eq!(
                &self.subscribers[subscriber].view,
                &truth,
                "subscriber {}",
                subscriber
            );
        }
        let state = self.hub.lock();
        let shelf = &state.collections[""].shelf;
        let complete = self.hub.standing().borrow().complete;
        for object in shelf.objects.values() {
            let known = truth.get(object.meta.object.name());
            prop_assert_eq!(
                known.map(|(_, version)| version.as_str()),
                Some(&*object.meta.resource_version)
            );
        }
        prop_assert!(
            !complete || shelf.objects.len() == truth.len(),
            "the store lacks something"
        );
        Ok(())
    }
}

fn object(name: &str) -> ObjectRef {
    ObjectRef::new(Some("ns"), name)
}

fn any_action() -> impl Strategy<Value = Action> {
    let failure = prop_oneof![
        Just(Reason::Connection),
        Just(Reason::Ended),
        Just(Reason::Expired),
        Just(Reason::Server),
        Just(Reason::Unauthorized),
        Just(Reason::NotServed),
        Just(Reason::Forbidden),
        Just(Reason::TimedOut),
    ];
    prop_oneof![
        6 => (0_u8..5).prop_map(Action::Write),
        2 => (0_u8..5).prop_map(Action::Delete),
        2 => (0_u8..5).prop_map(Action::Recreate),
        1 => Just(Action::Compact),
        8 => (1_u8..8).prop_map(Action::Deliver),
        4 => (0_u8..3, 1_u8..4).prop_map(|(who, changes)| Action::Take(who, changes)),
        2 => failure.prop_map(Action::Fail),
        1 => Just(Action::Duplicate),
        1 => Just(Action::Reorder),
        1 => Just(Action::Drop),
        1 => (1_u8..6).prop_map(Action::StaleList),
        1 => Just(Action::Join),
        1 => Just(Action::Restart),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn everybody_reaches_the_truth(streams: bool, actions in proptest::collection::vec(any_action(), 0..80)) {
        let mut world = World::new(streams);
        for action in actions {
            world.act(action)?;
            world.link.now += Duration::from_millis(10);
        }
        world.settle()?;
    }
}
