use std::convert::Infallible;
use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt;
use futures::stream::{iter, pending};
use http::{Request, Response};
use http_body::Frame;
use http_body_util::StreamBody;
use kube::client::Body;
use serde_json::json;
use tokio::time::sleep;
use trustplane_plan::kinds::CONFIG_MAP;
use trustplane_plan::{Keep, ObjectRef, Target};
use trustplane_process::metrics::Metrics;

use crate::apply::{Effect, Written};
use crate::watch::currency::LONGEST_SILENCE;
use crate::watch::{Metadata, Subscription, Tuning, WatchSpec, Watches};

/// A watch of ConfigMaps. The API server sends a list with one of them, and then nothing more over an open connection.
async fn silent() -> Subscription<()> {
    let answer = |_: Request<Body>| {
        let object = json!({ "namespace": "ns", "name": "a", "uid": "u", "resourceVersion": "5" });
        let end = json!({
            "resourceVersion": "5", "annotations": { "k8s.io/initial-events-end": "true" },
        });
        let lines = [("ADDED", object), ("BOOKMARK", end)];
        let lines = lines.map(|(kind, metadata)| {
            json!({ "type": kind, "object": { "metadata": metadata } }).to_string() + "\n"
        });
        let chunk = Ok::<_, Infallible>(Frame::data(Bytes::from(lines.concat())));
        let body = StreamBody::new(iter([chunk]).chain(pending()));
        std::future::ready(Ok::<_, Infallible>(Response::new(body)))
    };
    let client = kube::Client::new(tower::service_fn(answer), "default");
    let watches = Watches::new(client, Tuning::default(), &Metrics::new());
    let watch = watches.subscribe(WatchSpec::new(CONFIG_MAP, Metadata(Keep::default())));
    watch.store().ready().await.unwrap();
    watch
}

#[tokio::test(start_paused = true)]
async fn store_is_not_current_when_the_server_has_fallen_silent() {
    let watch = silent().await;
    let store = watch.store();
    sleep(LONGEST_SILENCE - Duration::from_secs(1)).await;
    assert!(store.currency().is_some());
    sleep(Duration::from_secs(2)).await;
    assert!(store.currency().is_none());
}

#[tokio::test(start_paused = true)]
async fn store_is_behind_a_write_that_it_does_not_show() {
    let watch = silent().await;
    for (effect, is_behind) in [
        (Effect::Updated("5".into()), false),
        (Effect::Updated("6".into()), true),
        (Effect::Deleted("u".into()), true),
        (Effect::Deleted("other".into()), false),
        (Effect::Refused("5".into()), true),
        (Effect::Refused("4".into()), false),
    ] {
        let write = Written {
            target: Target {
                kind: CONFIG_MAP,
                object: ObjectRef::new(Some("ns"), "a"),
            },
            effect,
        };
        assert_eq!(watch.store().is_behind(&write), is_behind, "{:?}", write.effect);
    }
}
