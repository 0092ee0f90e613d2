use super::*;

fn entry(path: &str, digest: &str) -> SecretEntry {
    SecretEntry {
        path: path.to_owned(),
        version: 1,
        digest: digest.to_owned(),
        checksum: "sha256:0".to_owned(),
        keys: 1,
        ..SecretEntry::default()
    }
}

#[test]
fn entry_says_held_deleted_or_damaged() {
    let of = |entry: SecretEntry| listed(entry).1;
    assert!(matches!(of(entry("a", "d")), ListedSecret::Held(copy) if copy.digest == "d"));
    let deleted = SecretEntry {
        deleted: true,
        ..entry("a", "")
    };
    assert_eq!(of(deleted), ListedSecret::Deleted);
    let fault = SecretEntry {
        fault: "two objects\nhave one label".to_owned(),
        ..entry("a", "")
    };
    assert_eq!(
        of(fault),
        ListedSecret::Damaged("two objects have one label".to_owned())
    );
    let labels = [("sync.version".to_owned(), "x".to_owned())].into();
    let senseless = SecretEntry {
        metadata: Some(SecretMetadata {
            labels,
            ..SecretMetadata::default()
        }),
        ..entry("a", "d")
    };
    assert!(matches!(of(senseless), ListedSecret::Damaged(_)));
}

fn known(name: &str) -> KnownToken {
    KnownToken {
        name: name.to_owned(),
        device: ObjectRef::new(Some("tokens"), "pico"),
        agent: ObjectRef::new(Some("tokens"), name),
    }
}

/// A token that has listed one secret.
fn token(now: Instant) -> ListedToken {
    let mut token = ListedToken::new(known("a"), now);
    let (path, secret) = listed(entry("db", "d"));
    token.secrets = Some([(path, secret)].into());
    token.confirmed = Some(now);
    token
}

const FRESH: Duration = Duration::from_secs(60);

#[test]
fn token_keeps_its_list_until_it_was_silent_for_long() {
    let begun = Instant::now();
    let mut token = token(begun);
    token.silent = Some((begun, "no pod".to_owned()));
    let state = |at: u64| token.state("db", FRESH, PATIENCE, begun + Duration::from_secs(at));
    assert!(matches!(state(0), CopyState::Held(_)));
    assert!(matches!(state(14), CopyState::Held(_)));
    assert_eq!(state(15), CopyState::Away("no pod".to_owned()));
}

#[test]
fn old_list_counts_for_nothing_and_absence_is_only_told_of_a_fresh_one() {
    let begun = Instant::now();
    let token = token(begun);
    let state = |path: &str, at: u64| token.state(path, FRESH, PATIENCE, begun + Duration::from_secs(at));
    assert_eq!(state("other", 60), CopyState::Absent { deleted: false });
    assert_eq!(state("other", 61), CopyState::Unasked);
    assert_eq!(state("db", 61), CopyState::Unasked);
}

#[test]
fn before_it_is_known_which_tokens_there_are_nothing_is_concluded() {
    let lists = TokenLists::new(PATIENCE);
    let views = lists.at("db", FRESH);
    assert_eq!(views.len(), 1);
    assert_eq!(views[0].state, CopyState::Unasked);
    lists.lock().begun = true;
    assert!(lists.at("db", FRESH).is_empty());
}

#[test]
fn read_corrects_an_older_list_and_asks_for_a_new_one() {
    let lists = TokenLists::new(PATIENCE);
    let agent = known("a").agent;
    {
        let mut shared = lists.lock();
        shared.begun = true;
        shared.tokens.insert(agent.clone(), token(Instant::now()));
    }
    lists.learn(&agent, "db", None);
    assert_eq!(
        lists.at("db", FRESH)[0].state,
        CopyState::Absent { deleted: false }
    );
    assert!(lists.lock().refresh);
}

#[test]
fn refresh_asks_soon_and_leaves_a_silent_agent_its_backoff() {
    let begun = Instant::now();
    let later = begun + Duration::from_secs(100);
    let mut shared = Shared {
        refresh: true,
        ..Shared::default()
    };
    for name in ["answers", "silent"] {
        let mut token = token(begun);
        token.due = later;
        token.silent = (name == "silent").then(|| (begun, "no pod".to_owned()));
        shared.tokens.insert(known(name).agent, token);
    }
    shared.heed_refresh(begun);
    let due = |name: &str| shared.tokens[&known(name).agent].due;
    assert_eq!(due("answers"), begun + Duration::from_secs(1));
    assert_eq!(due("silent"), later);
}

#[test]
fn lists_are_newer_when_each_token_was_asked_again_or_is_away() {
    let lists = TokenLists::new(PATIENCE);
    let now = Instant::now();
    let met = now - Duration::from_secs(20);
    assert!(!lists.are_newer_than(met), "the tokens are not known yet");
    lists.lock().begun = true;
    for name in ["a", "b"] {
        lists.lock().tokens.insert(known(name).agent, token(now));
    }
    assert!(lists.are_newer_than(met));
    let change = |change: fn(&mut ListedToken, Instant)| {
        change(lists.lock().tokens.get_mut(&known("b").agent).unwrap(), met);
        lists.are_newer_than(met)
    };
    assert!(
        !change(|token, met| token.confirmed = Some(met)),
        "asked at the same time"
    );
    assert!(!change(
        |token, _| token.silent = Some((Instant::now(), String::new()))
    ));
    assert!(change(|token, met| token.silent = Some((met, String::new()))));
}
