//! From what changed to the keys that have to be looked at.

use crate::queue::{Key, Lane, Queue};
use crate::watch::{Change, Subscription};

/// Turns changes into keys until the watch is stopped. Deletions are changes like any other.
///
/// `keys` says which keys a change concerns; `lane` how urgent it is, unless the object is one of the first list: those go to
/// the bulk lane, so that a restart does not hold up what happens meanwhile.
pub async fn feed<T, K, I>(
    mut subscription: Subscription<T>,
    queue: Queue<K>,
    lane: impl Fn(&Change<T>) -> Lane + Send,
    keys: impl Fn(&Change<T>) -> I + Send,
) where
    T: Send + Sync + 'static,
    K: Key,
    I: IntoIterator<Item = K>,
{
    while let Some(change) = subscription.next().await {
        pass_on(&change, &queue, &lane, &keys);
    }
}

fn pass_on<T, K: Key, I: IntoIterator<Item = K>>(
    change: &Change<T>,
    queue: &Queue<K>,
    lane: impl Fn(&Change<T>) -> Lane,
    keys: impl Fn(&Change<T>) -> I,
) {
    let lane = match change {
        Change::Applied { initial: true, .. } => Lane::Bulk,
        _ => lane(change),
    };
    for key in keys(change) {
        queue.add(key, lane);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::json;
    use trustplane_plan::{Keep, Meta, ObjectRef};
    use trustplane_process::metrics::Metrics;

    use super::*;
    use crate::queue::Policy;
    use crate::watch::Watched;

    fn object(name: &str) -> Arc<Watched<()>> {
        let body = json!({ "metadata": { "namespace": "ns", "name": name, "uid": name } });
        let meta = Meta::decode(&body.to_string(), &Keep::default()).unwrap();
        Arc::new(Watched { meta, value: () })
    }

    #[tokio::test]
    async fn every_change_reaches_its_keys_in_the_right_lane() {
        let queue = Queue::new("test", Policy::default(), 1, &Metrics::new());
        let initial = Change::Applied {
            object: object("initial"),
            initial: true,
        };
        let applied = Change::Applied {
            object: object("applied"),
            initial: false,
        };
        let last = Some(object("deleted"));
        let deleted = Change::Deleted {
            object: ObjectRef::new(Some("ns"), "deleted"),
            uid: "deleted".into(),
            last,
        };
        let lane = |change: &Change<()>| match change {
            Change::Deleted { .. } => Lane::Urgent,
            Change::Applied { .. } => Lane::Normal,
        };
        let keys = |change: &Change<()>| [change.object().clone(), ObjectRef::new(None, "all")];
        for change in [&initial, &applied, &deleted] {
            pass_on(change, &queue, lane, keys);
        }
        let mut served = Vec::new();
        while queue.depths().keys > 0 {
            let work = queue.next().await.unwrap();
            served.push(work.key().to_string());
            work.done(crate::queue::Outcome::Success { look_again: None });
        }
        assert_eq!(served, ["ns/deleted", "all", "ns/applied", "ns/initial"]);
    }
}
