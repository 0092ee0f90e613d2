//! What the server does with reviews that are not as they should be, and with judges that are not.

use std::slice::from_ref;
use std::sync::atomic::{AtomicUsize, Ordering};

use axum::body::Bytes;
use http::{Method, Request as HttpRequest};
use serde_json::{Value, json};
use tokio::sync::watch;
use tower::ServiceExt;

use super::super::{Failure, Operation};
use super::*;

fn webhook(name: &str) -> Webhook {
    Webhook {
        name: format!("{name}.test.trustplane.io"),
        effect: Effect::Validating,
        path: format!("/{name}"),
        group: String::new(),
        versions: vec!["v1".into()],
        resources: vec!["configmaps".into()],
        operations: vec![Operation::Create],
        match_conditions: Vec::new(),
        failure: Failure::Fail,
        timeout_seconds: 3,
    }
}

/// A judge whose whole behaviour is a future.
struct Slow<F>(F);

impl<F, R> Judge for Slow<F>
where
    F: Fn() -> R + Send + Sync + 'static,
    R: Future<Output = Verdict> + Send + 'static,
{
    fn judge<'a>(&'a self, _: &'a Request) -> Pin<Box<dyn Future<Output = Verdict> + Send + 'a>> {
        Box::pin((self.0)())
    }
}

fn court() -> (Judges, Metrics) {
    let mut judges = Judges::default();
    judges.add(webhook("fine"), |_: &Request| Verdict::allow());
    judges.add(webhook("early"), |_: &Request| -> Verdict { panic!("at once") });
    judges.add(webhook("late"), Slow(|| async { panic!("later") }));
    judges.add(webhook("hang"), Slow(std::future::pending));
    judges.add(webhook("blind"), |_: &Request| Verdict::Undecided {
        why: "the mirrors cannot be read".into(),
    });
    (judges, Metrics::new())
}

fn sound() -> Vec<u8> {
    let review = json!({
        "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
        "request": {
            "uid": "u1", "name": "n", "operation": "DELETE", "userInfo": {},
            "kind": {"group": "", "version": "v1", "kind": "ConfigMap"},
            "resource": {"group": "", "version": "v1", "resource": "configmaps"},
            "object": null, "oldObject": null,
        }
    });
    review.to_string().into_bytes()
}

async fn send(router: &Router, method: Method, path: &str, body: Body) -> (u16, String) {
    let request = HttpRequest::builder()
        .method(method)
        .uri(path)
        .body(body)
        .unwrap();
    let response = router.clone().oneshot(request).await.unwrap();
    let (code, body) = (response.status().as_u16(), response.into_body());
    let bytes = to_bytes(body, 1 << 20).await.unwrap();
    (code, String::from_utf8(bytes.to_vec()).unwrap())
}

#[tokio::test(start_paused = true)]
async fn whatever_goes_wrong_has_an_answer_of_its_own_and_is_counted() {
    let (judges, metrics) = court();
    let router = judges.router(&metrics);
    let too_large = vec![b' '; MAX_REVIEW + 1];
    let cases: [(&str, Vec<u8>, u16, &str, &str); 7] = [
        ("early", sound(), 500, "panic", "the judge failed"),
        ("late", sound(), 500, "panic", "the judge failed"),
        (
            "hang",
            sound(),
            500,
            "timeout",
            "the judge did not answer in time",
        ),
        ("blind", sound(), 500, "undecided", "the mirrors cannot be read"),
        ("fine", too_large, 413, "too_large", "the review is too large"),
        (
            "fine",
            b"hello".to_vec(),
            400,
            "malformed",
            "the body is not an AdmissionReview with a request",
        ),
        (
            "fine",
            br#"{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview"}"#.to_vec(),
            400,
            "malformed",
            "",
        ),
    ];
    for (path, body, code, outcome, words) in cases {
        let (answered, text) = send(&router, Method::POST, &format!("/{path}"), body.into()).await;
        assert_eq!(answered, code, "{path}: {text}");
        assert!(text.contains(words), "{path}: {text}");
        let name = format!(r#"webhook="{path}.test.trustplane.io",outcome="{outcome}""#);
        assert!(metrics.encode().contains(&name), "{name}: {}", metrics.encode());
        let (answered, text) = send(&router, Method::POST, "/fine", sound().into()).await;
        assert_eq!(answered, 200, "after {path}: {text}");
        let answer: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(answer["response"]["uid"], "u1");
    }
    assert_eq!(send(&router, Method::POST, "/none", sound().into()).await.0, 404);
    assert_eq!(send(&router, Method::GET, "/fine", Body::empty()).await.0, 405);
}

#[tokio::test(start_paused = true)]
async fn a_body_that_does_not_come_holds_nobody_up() {
    let (judges, metrics) = court();
    let router = judges.router(&metrics);
    let stalled = || Body::from_stream(futures::stream::pending::<Result<Bytes, std::io::Error>>());
    let stalling: Vec<_> = (0..MOST_AT_ONCE)
        .map(|_| {
            let router = router.clone();
            tokio::spawn(async move { send(&router, Method::POST, "/fine", stalled()).await })
        })
        .collect();
    // All slots are taken by now, and come free at their deadline, which is before that of whoever comes later.
    tokio::time::sleep(Duration::from_secs(1)).await;
    let (code, text) = send(&router, Method::POST, "/fine", sound().into()).await;
    assert_eq!(code, 200, "{text}");
    for stalled in stalling {
        assert_eq!(stalled.await.unwrap().0, 408);
    }
}

#[tokio::test(start_paused = true)]
async fn a_burst_waits_for_its_turn_and_is_not_refused() {
    let (gate, inside) = (watch::Sender::new(false), Arc::new(AtomicUsize::new(0)));
    let (door, entered) = (gate.subscribe(), inside.clone());
    let judge = Slow(move || {
        let (mut door, entered) = (door.clone(), entered.clone());
        async move {
            entered.fetch_add(1, Ordering::SeqCst);
            door.wait_for(|open| *open).await.unwrap();
            Verdict::allow()
        }
    });
    let mut judges = Judges::default();
    judges.add(webhook("gate"), judge);
    let router = judges.router(&Metrics::new());
    let burst: Vec<_> = (0..MOST_AT_ONCE + 36)
        .map(|_| {
            let router = router.clone();
            tokio::spawn(async move { send(&router, Method::POST, "/gate", sound().into()).await.0 })
        })
        .collect();
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert_eq!(
        inside.load(Ordering::SeqCst),
        MOST_AT_ONCE,
        "no more are in memory at once"
    );
    gate.send_replace(true);
    for answer in burst {
        assert_eq!(answer.await.unwrap(), 200);
    }
}

#[test]
fn judges_and_declared_webhooks_fit_together_or_it_is_told() {
    let allow = |_: &Request| Verdict::allow();
    let check = |judged: &[Webhook], declared: &[Webhook]| {
        let mut judges = Judges::default();
        for webhook in judged {
            judges.add(webhook.clone(), allow);
        }
        judges.check(declared).map_err(|error| error.to_string())
    };
    let (one, other) = (webhook("one"), webhook("other"));
    let at = |path: &str| Webhook {
        path: path.to_owned(),
        ..other.clone()
    };
    assert_eq!(
        check(&[one.clone(), other.clone()], &[other.clone(), one.clone()]),
        Ok(())
    );
    let told = check(from_ref(&one), &[one.clone(), other.clone()]).unwrap_err();
    assert_eq!(
        told,
        "webhook other.test.trustplane.io is declared, but nobody judges it"
    );
    let told = check(&[one.clone(), other.clone()], from_ref(&one)).unwrap_err();
    assert!(told.contains("is not declared"), "{told}");
    let told = check(&[one.clone(), at("/one")], &[one.clone(), at("/one")]).unwrap_err();
    assert_eq!(told, "two webhooks have the path /one");
    for path in ["", "/", "one", "/a//b", "/{a}", "/A", "/a b"] {
        let told = check(&[at(path)], &[at(path)]).unwrap_err();
        assert!(told.contains("is no path"), "{path}: {told}");
    }
}
