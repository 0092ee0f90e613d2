//! The watches of the kinds: they run while a platform is served, each by itself.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use futures::stream::{FuturesUnordered, StreamExt};
use tokio::sync::watch::Receiver;
use tokio::time::{Instant, sleep_until};
use trustplane_inventory_core::{InventoryKind, ProjectionError, project};
use trustplane_kit::watch::{
    Health, Payload, ProjectError, Sighting, Sink, SinkWatch, Standing, WatchSpec, Watches,
};
use trustplane_plan::ObjectRef;

use crate::shared::Shared;

/// How long a kind may fail before the first snapshot goes without it.
const PATIENCE: Duration = Duration::from_secs(30);

/// Takes the objects of one kind.
struct KindSink {
    kind: InventoryKind,
    shared: Shared,
}

impl Sink for KindSink {
    fn payload(&self) -> Payload {
        match self.kind.is_table() {
            true => Payload::Table,
            false => Payload::Full,
        }
    }

    fn list_begun(&self) {
        self.shared.change(|world| {
            world.list_begun(self.kind);
            false
        });
    }

    fn applied(&self, object: &Sighting<'_>) -> Result<(), ProjectError> {
        // Outside of the lock: this is most of the work.
        let projected = project(self.kind, object.json);
        let version = object.version.parse().unwrap_or_default();
        self.shared.change(|world| match &projected {
            Ok(seen) => world.applied(self.kind, seen, version, object.listing),
            Err(_) => world.undecodable(self.kind, object.object, object.uid),
        });
        projected.map(drop).map_err(|error| unreadable(&error))
    }

    fn deleted(&self, _object: &ObjectRef, uid: &str) {
        self.shared.change(|world| world.deleted(self.kind, uid));
    }

    fn list_complete(&self, whole: bool) {
        let mut again = false;
        self.shared.change(|world| {
            again = world.list_complete(self.kind, whole).again;
            true
        });
        if again {
            self.shared.relist(self.kind);
        }
    }

    fn list_dropped(&self) {
        self.shared.change(|world| {
            world.list_dropped(self.kind);
            false
        });
    }
}

/// The error as watches tell it; it never quotes the object.
fn unreadable(error: &ProjectionError) -> ProjectError {
    ProjectError::new(match error {
        ProjectionError::NotJson(_) => "it is not JSON",
        ProjectionError::Field(_) => "a field is missing or of another type",
        ProjectionError::Unnamed(_) => "its name or uid is empty",
        ProjectionError::Cells(_) => "the API server prints other columns than expected",
    })
}

/// Keeps the watches of all kinds while a platform is served. It never ends.
pub(crate) async fn read(shared: Shared, watches: Watches) {
    loop {
        while !shared.is_wanted() {
            shared.readers_woken().await;
        }
        let kinds = shared.look(trustplane_inventory_core::world::World::kinds);
        let running: BTreeMap<InventoryKind, SinkWatch> = kinds
            .into_iter()
            .map(|kind| {
                let sink = Arc::new(KindSink {
                    kind,
                    shared: shared.clone(),
                });
                (kind, watches.pour(WatchSpec::new(kind.kind(), ()), sink))
            })
            .collect();
        let healths: FuturesUnordered<_> = running
            .iter()
            .map(|(kind, watch)| follow(*kind, watch.standing(), &shared))
            .collect();
        tokio::select! {
            () = lists(&running, &shared) => {}
            () = healths.for_each(|()| std::future::ready(())) => {}
        }
        // What an ended watch still tells would be taken for news of the next one.
        join_all(running.into_values().map(SinkWatch::stop)).await;
        shared.forget();
    }
}

/// Asks for lists, until no platform is served.
async fn lists(running: &BTreeMap<InventoryKind, SinkWatch>, shared: &Shared) {
    while shared.is_wanted() {
        for kind in shared.take_relists() {
            if let Some(watch) = running.get(&kind) {
                watch.relist();
            }
        }
        shared.readers_woken().await;
    }
}

/// Tells the world whether a kind can be read, as long as its watch runs.
async fn follow(kind: InventoryKind, mut standing: Receiver<Standing>, shared: &Shared) {
    loop {
        let health = standing.borrow_and_update().health;
        let (why, look_again) = match health {
            Health::Ready | Health::Starting => (None, None),
            Health::Forbidden => (Some(forbidden(kind)), None),
            Health::NotServed => (Some("the API server does not serve it".to_owned()), None),
            Health::Failing { since, reason } => {
                let late = Instant::from_std(since) + PATIENCE;
                match late <= Instant::now() {
                    true => (Some(format!("cannot be read: {}", reason.as_str())), None),
                    false => (None, Some(late)),
                }
            }
        };
        shared.change(|world| world.set_unreadable(kind, why));
        let due = async {
            match look_again {
                Some(time) => sleep_until(time).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            changed = standing.changed() => if changed.is_err() { return },
            () = due => {}
        }
    }
}

/// Names the right that is missing.
fn forbidden(kind: InventoryKind) -> String {
    let resource = kind.kind();
    let group = match &*resource.group {
        "" => String::new(),
        group => format!(".{group}"),
    };
    format!("not permitted to list and watch {}{group}", resource.plural)
}
