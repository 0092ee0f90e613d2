use super::*;

fn report(trouble: Trouble, snapshot: &str, heartbeat: &str) -> Report {
    Report {
        trouble: Some(trouble),
        snapshot_failed: Some(snapshot.to_owned()),
        heartbeat_refused: Some(heartbeat.to_owned()),
        ..Report::default()
    }
}

#[test]
fn a_status_keeps_the_first_words_while_the_trouble_is_the_same() {
    let first = report(
        Trouble::Unauthorized("request 1".into()),
        "the platform refused the snapshot: 422: request 2",
        "409: request 3",
    );
    let same = report(
        Trouble::Unauthorized("request 4".into()),
        "the platform refused the snapshot: 422: request 5",
        "409: request 6",
    );
    assert_eq!(unquoted(&same), unquoted(&first), "nobody is told");
    assert_eq!(steady(&first, same), first);
}

#[test]
fn a_status_takes_new_words_when_the_trouble_changes() {
    let first = report(
        Trouble::Unauthorized("request 1".into()),
        "the platform refused the snapshot: 422: request 2",
        "409: request 3",
    );
    for (trouble, snapshot, heartbeat) in [
        (
            Trouble::Forbidden("request 1".into()),
            "failed to send the snapshot: HTTP status 503",
            "410: request 3",
        ),
        (
            Trouble::Unauthorized("/oauth/token answers 400: request 1".into()),
            "the platform refused the snapshot: 413: request 2",
            "410: request 3",
        ),
        (
            Trouble::Unreachable("HTTP status 503".into()),
            "failed to send the snapshot: the connection was cut",
            "404: request 3",
        ),
    ] {
        let now = report(trouble, snapshot, heartbeat);
        assert_ne!(unquoted(&now), unquoted(&first));
        assert_eq!(steady(&first, now.clone()), now);
    }
    let well = Report::default();
    assert_eq!(steady(&first, well.clone()), well);
    assert_eq!(steady(&well, first.clone()), first);
}

#[test]
fn an_answer_to_replaced_credentials_closes_no_way() {
    let at_once = Outcome::Throttled(Some(Duration::ZERO));
    for outcome in [
        Outcome::Unauthorized("401".into()),
        Outcome::Forbidden("403".into()),
        Outcome::Unreachable("cut".into()),
    ] {
        assert_eq!(outdated(outcome), at_once);
    }
    assert_eq!(outdated(Outcome::Accepted), Outcome::Accepted);
}
