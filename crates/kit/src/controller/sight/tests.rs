use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use trustplane_plan::kinds::CONFIG_MAP;
use trustplane_plan::{ObjectRef, Target};

use super::*;

/// A store that shows everything up to a version, and a list brings it up to date if it may.
#[derive(Clone)]
struct Shown {
    version: watch::Sender<u64>,
    newest: u64,
    lists: Arc<AtomicU32>,
    lists_help: bool,
}

impl Shown {
    fn new(version: u64, newest: u64) -> Self {
        Self {
            version: watch::Sender::new(version),
            newest,
            lists: Arc::default(),
            lists_help: true,
        }
    }

    fn lists(&self) -> u32 {
        self.lists.load(Ordering::SeqCst)
    }
}

impl Mirror for Shown {
    fn is_current(&self) -> bool {
        *self.version.borrow() == self.newest
    }

    fn is_behind(&self, write: &Written) -> bool {
        match &write.effect {
            Effect::Updated(version) => *self.version.borrow() < version.parse().unwrap(),
            Effect::Refused(version) => self.version.borrow().to_string() == **version,
            Effect::Created(_) | Effect::Deleted(_) => false,
        }
    }

    fn changes(&self) -> watch::Receiver<u64> {
        self.version.subscribe()
    }

    fn relist(&self) {
        self.lists.fetch_add(1, Ordering::SeqCst);
        if self.lists_help {
            self.version.send_replace(self.newest);
        }
    }
}

fn key(name: &str) -> ObjectRef {
    ObjectRef::new(Some("ns"), name)
}

fn written(name: &str, version: u64) -> Written {
    Written {
        target: Target {
            kind: CONFIG_MAP,
            object: key(name),
        },
        effect: Effect::Updated(version.to_string().into()),
    }
}

fn stores(of: &[&Shown]) -> Stores {
    let mut stores = Stores::default();
    for shown in of {
        let (followed, required) = (Box::new((*shown).clone()), Box::new((*shown).clone()));
        stores.followed.push(Followed::new(followed));
        stores.for_removals.push(Followed::new(required));
    }
    stores
}

#[tokio::test(start_paused = true)]
async fn a_look_waits_for_the_event_of_the_last_write() {
    let shown = Shown::new(1, 9);
    let stores = stores(&[&shown]);
    let own = OwnWrites::new();
    own.note(&key("a"), vec![written("a", 5)], &stores);
    let started = Instant::now();
    let event = async {
        tokio::time::sleep(Duration::from_secs(2)).await;
        shown.version.send_replace(5);
    };
    let a = key("a");
    let (seen, ()) = tokio::join!(own.are_seen(&a, &stores), event);
    assert!(seen);
    assert_eq!(
        started.elapsed(),
        Duration::from_secs(2),
        "by event, not by timer"
    );
    assert_eq!(shown.lists(), 0);
    assert!(own.lock().is_empty(), "what was seen is forgotten");
}

#[tokio::test(start_paused = true)]
async fn other_keys_do_not_wait() {
    let shown = Shown::new(1, 9);
    let stores = stores(&[&shown]);
    let own = OwnWrites::new();
    own.note(&key("a"), vec![written("a", 5)], &stores);
    let started = Instant::now();
    assert!(own.are_seen(&key("b"), &stores).await);
    assert_eq!(started.elapsed(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn a_store_that_stays_behind_is_listed_afresh() {
    let (frozen, well) = (Shown::new(1, 9), Shown::new(9, 9));
    let stores = stores(&[&frozen, &well]);
    let own = OwnWrites::new();
    own.note(&key("a"), vec![written("a", 5)], &stores);
    assert!(own.are_seen(&key("a"), &stores).await);
    assert_eq!((frozen.lists(), well.lists()), (1, 0));
}

#[tokio::test(start_paused = true)]
async fn a_look_is_told_when_even_a_list_does_not_help() {
    let mut frozen = Shown::new(1, 9);
    frozen.lists_help = false;
    let stores = stores(&[&frozen]);
    let own = OwnWrites::new();
    own.note(&key("a"), vec![written("a", 5)], &stores);
    let started = Instant::now();
    assert!(!own.are_seen(&key("a"), &stores).await);
    assert_eq!(started.elapsed(), OWN_WRITES * 2);
    assert!(!own.are_seen(&key("a"), &stores).await);
    assert_eq!(
        frozen.lists(),
        1,
        "a server under load is not listed at every look"
    );
    frozen.version.send_replace(5);
    assert!(own.are_seen(&key("a"), &stores).await);
}

#[tokio::test(start_paused = true)]
async fn a_later_write_takes_the_place_of_the_earlier() {
    let shown = Shown::new(1, 9);
    let stores = stores(&[&shown]);
    let own = OwnWrites::new();
    own.note(&key("a"), vec![written("a", 5)], &stores);
    own.note(&key("a"), vec![written("a", 7), written("b", 3)], &stores);
    shown.version.send_replace(6);
    let unseen = own.of(&key("a")).unwrap().0;
    assert_eq!(unseen, [written("a", 7), written("b", 3)]);
    shown.version.send_replace(7);
    assert!(own.are_seen(&key("a"), &stores).await);
}

#[tokio::test(start_paused = true)]
async fn a_refusal_that_changes_nothing_holds_a_key_up_only_for_a_while() {
    let shown = Shown::new(5, 5);
    let stores = stores(&[&shown]);
    let own = OwnWrites::new();
    let refused = Written {
        effect: Effect::Refused("5".into()),
        ..written("a", 0)
    };
    own.note(&key("a"), vec![refused], &stores);
    let started = Instant::now();
    assert!(own.are_seen(&key("a"), &stores).await);
    assert_eq!((started.elapsed(), shown.lists()), (OWN_WRITES, 0));
}

#[tokio::test(start_paused = true)]
async fn a_store_that_holds_up_a_removal_is_listed_afresh() {
    let shown = Shown::new(1, 9);
    let stores = stores(&[&shown]);
    assert!(!stores.allow_removals(), "it was not current when it was asked");
    assert_eq!(shown.lists(), 1);
    assert!(stores.allow_removals());
    shown.version.send_replace(8);
    assert!(!stores.allow_removals() && !stores.allow_removals());
    assert_eq!(shown.lists(), 1, "lists are a minute apart");
}

#[test]
fn what_was_seen_is_swept_out() {
    let shown = Shown::new(1, 9);
    let stores = stores(&[&shown]);
    let own = OwnWrites::new();
    for name in 0..SWEEP {
        own.note(&key(&name.to_string()), vec![written("a", 5)], &stores);
    }
    shown.version.send_replace(5);
    own.note(&key("last"), vec![written("a", 6)], &stores);
    assert_eq!(own.lock().len(), 1);
}
