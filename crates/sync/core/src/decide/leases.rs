//! Content that ends.

use super::world::*;
use super::*;

#[test]
fn what_is_leased_is_asked_for_before_it_ends_and_not_earlier() {
    let mut world = World::new(vec![pod("a", 0, "refreshInterval: 5m")]);
    world.lease = Some(Duration::from_secs(3600));
    world.answer = Ok(r#"{"user":"one"}"#);
    world.look(0);
    let annotation = &world.meta().annotations[LEASE];
    assert_eq!(annotation, "2023-11-14T22:13:20Z/2023-11-14T23:13:20Z lease-1");
    // Neither a restart, nor a pod, nor the interval makes another one.
    world.answer = Ok(r#"{"user":"two"}"#);
    world.pods.push(pod("a2", 300, "refreshInterval: 5m"));
    for second in [301, 1200, 2100] {
        world.record = Record::new(at(second));
        assert_eq!(world.look(second), [""; 0]);
    }
    assert_eq!(world.asked, 1);
    let wait = world.plan(2100).look_again.unwrap();
    assert!(wait <= Duration::from_secs(3600 * 3 / 4 - 2100), "{wait:?}");
    // Then it is time, and the next one has a life of its own.
    assert_eq!(world.look(2700).len(), 3, "written and told to both");
    assert_eq!(world.asked, 2);
    assert!(world.meta().annotations[LEASE].ends_with(" lease-2"));
    assert_eq!(world.look(2701), [""; 0]);
}

#[test]
fn a_lease_that_somebody_wrote_does_not_count() {
    let mut world = World::new(vec![pod("a", 0, "")]);
    world.lease = Some(Duration::from_secs(3600));
    world.look(0);
    world.touch(|body| {
        lose(body, "/f:metadata/f:annotations", "f:trustplane.io/lease");
        body["metadata"]["annotations"][LEASE] = "2023-11-14T22:13:20Z/2999-11-14T23:13:20Z x".into();
    });
    world.look(10);
    assert_eq!(world.asked, 2);
    // And nobody can make a Secret leased that is not.
    let mut world = World::new(vec![pod("a", 0, "refreshInterval: 5m")]);
    world.look(0);
    world.touch(|body| {
        body["metadata"]["annotations"][LEASE] = "2023-11-14T22:13:20Z/2999-11-14T23:13:20Z x".into();
    });
    world.look(1000);
    assert_eq!(world.asked, 2);
}

#[test]
fn a_lease_that_cannot_be_replaced_is_tried_again_and_the_secret_stays() {
    let mut world = World::new(vec![pod("a", 0, "")]);
    world.lease = Some(Duration::from_secs(3600));
    world.look(0);
    world.answer = Err(FetchError::Unavailable {
        what: "down".to_owned(),
    });
    let told = world.look(2700);
    assert!(
        told.len() == 1 && told[0].contains("SecretFetchFailed"),
        "{told:?}"
    );
    assert!(world.plan(2701).look_again.is_some());
    assert!(matches!(world.live, Live::Ours(_)));
}
