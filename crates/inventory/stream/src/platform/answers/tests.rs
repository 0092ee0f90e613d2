use std::time::Duration;

use trustplane_process::metrics::Metrics;
use trustplane_process::outside::{Outside, Retry};

use super::*;

fn answer(status: u16, body: &str) -> Answer {
    Answer {
        status: http::StatusCode::from_u16(status).unwrap(),
        headers: [(http::header::RETRY_AFTER, "7".parse().unwrap())]
            .into_iter()
            .collect(),
        body: Secret::new(body.as_bytes().to_vec()),
    }
}

#[test]
fn answers_mean_what_the_contract_says() {
    let of = |status: u16| outcome(&answer(status, "no\nway"));
    assert_eq!(of(202), Outcome::Accepted);
    assert_eq!(of(401), Outcome::Unauthorized("no way".into()));
    assert_eq!(of(403), Outcome::Forbidden("no way".into()));
    assert_eq!(of(429), Outcome::Throttled(Some(Duration::from_secs(7))));
    for status in [408, 425, 500, 503] {
        assert!(matches!(of(status), Outcome::Unreachable(_)), "{status}");
    }
    for status in [400, 404, 409, 413, 422] {
        assert_eq!(of(status), Outcome::Refused(status, "no way".into()));
    }
}

#[test]
fn a_redirection_sets_no_object_aside_and_names_the_field() {
    for status in [301, 302, 307, 308] {
        for outcome in [outcome(&answer(status, "")), no_token(&answer(status, ""))] {
            let Outcome::Unreachable(why) = outcome else {
                panic!("{status}: {outcome:?}");
            };
            assert!(
                why.contains("redirections are not followed") && why.contains("spec.platformURL"),
                "{why}"
            );
        }
    }
}

#[test]
fn the_token_path_blames_the_url_only_if_it_is_missing() {
    for status in [404, 405, 410] {
        let outcome = no_token(&answer(status, "<html>not found</html>"));
        let Outcome::Unreachable(why) = outcome else {
            panic!("{status}: {outcome:?}");
        };
        assert!(why.contains("spec.platformURL may be wrong"), "{why}");
    }
    let outcome = no_token(&answer(400, "invalid_grant"));
    assert_eq!(
        outcome,
        Outcome::Unauthorized("/oauth/token answers 400: invalid_grant".into())
    );
}

#[tokio::test]
async fn a_request_that_cannot_be_made_sets_no_object_aside() {
    let outside = Outside::builder("test")
        .retry(Retry::NEVER)
        .build(&Metrics::new());
    let unusable = WebError::Setting {
        field: "URL",
        problem: "must name a host",
    };
    let made = outside.call_alone(|_| async { Err::<(), _>(unusable.clone().into_fault()) });
    let failed = failed(&made.await.unwrap_err());
    assert_eq!(failed, Outcome::Unreachable("the URL must name a host".into()));
}
