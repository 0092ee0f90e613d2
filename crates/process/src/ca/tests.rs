mod keeper;
mod rotation;

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};

use super::*;

const HOUR: SignedDuration = SignedDuration::from_hours(1);

/// A life short enough to walk through.
const POLICY: Policy = Policy {
    ca_life: SignedDuration::from_hours(36),
    leaf_life: SignedDuration::from_hours(6),
    propagation: SignedDuration::from_hours(2),
};

fn start() -> Timestamp {
    "2026-01-01T00:00:00Z".parse().unwrap()
}

fn after(hours: i64) -> Timestamp {
    start() + HOUR * i32::try_from(hours).unwrap()
}

fn request() -> LeafRequest {
    LeafRequest {
        name: "test".into(),
        dns: vec!["localhost".into()],
        ..LeafRequest::default()
    }
}

/// Steps until nothing is due.
fn settle(mut authority: Authority, now: Timestamp) -> Authority {
    while let Some(next) = authority.step(now).unwrap().next {
        authority = next;
    }
    authority
}

#[test]
fn a_rotation_announces_then_signs_then_retires() {
    let created = Authority::create("test", POLICY, start()).unwrap();
    assert!(created.step(after(23)).unwrap().next.is_none());
    assert_eq!(created.step(after(23)).unwrap().look_again, after(24));

    let announced = settle(created.clone(), after(24));
    assert_eq!(
        announced.state.current, created.state.current,
        "the old one signs on"
    );
    let next = announced.state.next.clone().unwrap();
    assert!(announced.bundle_pem().contains(&next.certificate));
    assert_eq!(announced.step(after(25)).unwrap().look_again, after(26));

    let promoted = settle(announced, after(26));
    assert_eq!(promoted.state.current, next);
    let previous = promoted.state.previous.clone().unwrap();
    assert_eq!(previous.certificate, created.state.current.certificate);
    assert!(
        previous.retire_at >= after(26 + 2 + 6),
        "the last leaf of a late signer has expired by then"
    );

    let retired = settle(promoted, after(35));
    assert_eq!(retired.bundle_pem(), next.certificate);
    assert_eq!(retired.step(after(35)).unwrap().look_again, after(24 + 24));
}

#[test]
fn a_long_absence_ends_in_a_working_authority() {
    let created = Authority::create("test", POLICY, start()).unwrap();
    let announced = settle(created.clone(), after(24));
    for (stored, name) in [(created, "created"), (announced, "announced")] {
        let late = after(1000);
        let revived = stored.clone().revive(late).unwrap();
        assert!(!stored.can_sign(late) && revived.can_sign(late), "{name}");
        let woken = settle(stored, late);
        let leaf = woken.issue(&request(), late).unwrap();
        assert!(woken.vouches_for(&leaf) && leaf.expires() > late, "{name}");
        assert_eq!(woken.state.previous, None, "{name}");
    }
}

#[test]
fn a_leaf_outlives_neither_its_authority_nor_the_policy() {
    let authority = Authority::create("test", POLICY, start()).unwrap();
    let life = |life, now| {
        let leaf = authority.issue(&LeafRequest { life, ..request() }, now).unwrap();
        leaf.expires().duration_since(now)
    };
    assert_eq!(life(None, start()), HOUR * 6);
    assert_eq!(life(Some(HOUR * 600), start()), HOUR * 6);
    assert_eq!(life(Some(HOUR), start()), HOUR);
    assert_eq!(life(None, after(34)), HOUR * 2);
    let error = authority.issue(&request(), after(36)).unwrap_err();
    assert_eq!(
        error.to_string(),
        "the signing CA expired at 2026-01-02T12:00:00Z"
    );
    let leaf = authority.issue(&request(), start()).unwrap();
    assert_eq!(leaf.renew_at(), after(4));
}

#[test]
fn a_leaf_names_what_was_asked_and_nothing_else() {
    let authority = Authority::create("test", POLICY, start()).unwrap();
    let asked = LeafRequest {
        uris: vec!["spiffe://trustplane/agent".into()],
        addresses: vec!["127.0.0.1".parse().unwrap()],
        usage: Usage::Server,
        ..request()
    };
    let leaf = authority.issue(&asked, start()).unwrap();
    let der = leaf.certified_key().unwrap().cert[0].clone();
    let (_, parsed) = x509_parser::parse_x509_certificate(&der).unwrap();
    let names = &parsed
        .subject_alternative_name()
        .unwrap()
        .unwrap()
        .value
        .general_names;
    let names: Vec<_> = names.iter().map(ToString::to_string).collect();
    assert_eq!(
        names,
        [
            "DNSName(localhost)",
            "URI(spiffe://trustplane/agent)",
            "IPAddress(7f:00:00:01)"
        ]
    );
    let usage = parsed.extended_key_usage().unwrap().unwrap().value;
    assert!(usage.server_auth && !usage.client_auth);
    assert!(!parsed.is_ca());

    let bad = LeafRequest {
        dns: vec!["bücher".into()],
        ..LeafRequest::default()
    };
    let error = authority.issue(&bad, start()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "cannot issue for the DNS name `bücher`: not a valid one"
    );
}

#[test]
fn lives_that_leave_no_room_are_refused() {
    Policy::default().validate().unwrap();
    for policy in [
        Policy {
            leaf_life: HOUR * 7,
            ..POLICY
        },
        Policy {
            ca_life: HOUR * 35,
            ..POLICY
        },
        Policy {
            propagation: SignedDuration::ZERO,
            ..POLICY
        },
    ] {
        assert!(Authority::create("test", policy, start()).is_err(), "{policy:?}");
    }
}

#[test]
fn what_is_stored_is_what_comes_back() {
    let mut authority = Authority::create("test", POLICY, start()).unwrap();
    for hours in [0, 24, 26, 35] {
        authority = settle(authority, after(hours));
        let data = exposed(&authority);
        let state = AuthorityState::from_data(&data).unwrap();
        assert_eq!(&state, authority.state());
        let leaf = Authority::resume("test", POLICY, state)
            .unwrap()
            .issue(&request(), after(hours))
            .unwrap();
        assert!(authority.vouches_for(&leaf));
    }
}

#[test]
fn damaged_storage_is_named_and_never_quoted() {
    let good = exposed(&settle(
        Authority::create("test", POLICY, start()).unwrap(),
        after(24),
    ));
    let broken = |damage: &dyn Fn(&mut Data)| {
        let mut data = good.clone();
        damage(&mut data);
        AuthorityState::from_data(&data).unwrap_err().to_string()
    };
    let missing = |key: &str| format!("the stored authority has no usable `{key}`");
    for key in ["current.crt", "current.key", "next.key", "times.json"] {
        assert_eq!(broken(&|data| drop(data.remove(key))), missing(key));
    }
    let swapped = |data: &mut Data| {
        let other = data["next.key"].clone();
        data.insert("current.key".into(), other);
    };
    assert_eq!(broken(&swapped), missing("current.key"));
    assert_eq!(
        broken(&|data| drop(data.insert("times.json".into(), b"{".to_vec()))),
        missing("times.json")
    );
}

type Data = BTreeMap<String, Vec<u8>>;

fn exposed(authority: &Authority) -> Data {
    authority
        .state()
        .to_data()
        .into_iter()
        .map(|(key, value)| (key, value.expose().clone()))
        .collect()
}
