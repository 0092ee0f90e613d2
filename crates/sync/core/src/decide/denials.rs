//! What is told of requests that no policy allows.

use super::world::*;
use super::*;
use crate::grammar;
use crate::policy::{Policy, Rules};

#[test]
fn a_denial_names_the_request_and_nothing_else() {
    let mut world = World::new(vec![pod("a", 0, "")]);
    let text = "{secrets: [{provider: mock, path: shop/x, secretName: x}, {provider: mock, path: other/db, secretName: db}]}";
    world.pods[0].asks.annotation = Arc::new(grammar::parse(text, &["mock"]));
    world.rules = Rules::of(&[], "shop", None);
    let denied = "tell Pod shop/a: PolicyDenied secrets[1], secretName db: no policy allows this request";
    assert_eq!(world.look(1), [denied]);
}

#[test]
fn policies_that_cannot_be_read_deny_and_say_so() {
    let mut world = World::new(vec![pod("a", 0, "")]);
    world.rules = Rules::unreadable();
    let denied = "tell Pod shop/a: PolicyDenied secretName db: the policies of the cluster cannot be read, so no request is \
                  allowed; the log of the manager tells its admin why";
    assert_eq!(world.look(1), [denied]);
    assert_eq!(world.asked, 0);
    world.rules = Rules::of(&[], "shop", None);
    assert_eq!(world.look(2)[0], "create Secret shop/db");
}

#[test]
fn a_denied_key_is_not_delivered_under_another_name() {
    for fields in [
        "keys: {harmless: password}",
        "rename: {'password': harmless}",
        "format: raw, key: harmless",
        "select: password",
    ] {
        let mut world = World::new(vec![pod("a", 0, fields)]);
        let spec =
            r#"{"rules": [{"paths": ["**"]}, {"effect": "Deny", "paths": ["**"], "keys": ["pass*"]}]}"#;
        let policy = Policy::new(&serde_json::from_str(spec).unwrap());
        world.rules = Rules::of(&[Arc::new(policy)], "shop", None);
        let told = world.look(1);
        assert!(
            told.len() == 1 && told[0].contains("PolicyDenied"),
            "{fields}: {told:?}"
        );
        // What leaves the key out is served.
        world.pods[0].asks = asks("exclude: [password], rename: {'user': password}", None);
        assert_eq!(world.look(2)[0], "create Secret shop/db", "{fields}");
    }
}
