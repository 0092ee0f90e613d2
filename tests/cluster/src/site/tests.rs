use std::time::Duration;

use super::*;
use crate::daemon::Daemon;
use crate::resource::Resource;

fn site(cache: &Cache, name: &str) -> Site {
    Site::new(cache, name.parse().unwrap())
}

fn sleeper(name: &str) -> Daemon {
    Daemon::new(name, "sleep")
        .arg("600")
        .grace(Duration::from_secs(5))
}

#[test]
fn a_construction_that_is_not_finished_leaves_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let cache = Cache::at(dir.path());
    let mut construction = site(&cache, "half").lock().unwrap().build(None).unwrap();
    let process = construction.start(&sleeper("one")).unwrap();
    let outside = dir.path().join("outside");
    construction
        .record(Resource::Directory {
            path: outside.clone(),
        })
        .unwrap();
    fs::create_dir(&outside).unwrap();
    assert!(process.alive().unwrap());
    drop(construction);
    assert!(!process.alive().unwrap());
    assert!(!outside.exists());
    assert!(!site(&cache, "half").dir().exists());
}

#[test]
fn down_ends_what_up_started_and_can_be_repeated() {
    let dir = tempfile::tempdir().unwrap();
    let cache = Cache::at(dir.path());
    let place = site(&cache, "whole");
    let mut construction = place.lock().unwrap().build(None).unwrap();
    let [port] = construction.reserve_ports().unwrap();
    let process = construction.start(&sleeper("one")).unwrap();
    construction.finish().unwrap();
    let running = place
        .lock()
        .unwrap()
        .running()
        .unwrap()
        .expect("a finished cluster runs");
    assert_eq!(
        (running.process("one"), running.ports()),
        (Some(&process), &[port][..])
    );
    down(&cache, place.name()).unwrap();
    assert!(!process.alive().unwrap());
    assert!(place.state().unwrap().is_none());
    down(&cache, place.name()).unwrap();
}

#[test]
fn the_remains_of_a_killed_run_are_cleared_by_the_next() {
    let dir = tempfile::tempdir().unwrap();
    let cache = Cache::at(dir.path());
    let place = site(&cache, "killed");
    let mut construction = place.lock().unwrap().build(None).unwrap();
    let process = construction.start(&sleeper("one")).unwrap();
    // What SIGKILL leaves: the state file and the process, but neither a lock nor a destructor that runs.
    let state = construction.state().clone();
    construction.finish().unwrap();
    state.write(&place.dir().join(STATE_FILE)).unwrap();
    let again = place.lock().unwrap();
    assert!(
        again.running().unwrap().is_none(),
        "an unfinished cluster counts as running"
    );
    let next = again.build(None).unwrap();
    assert!(!process.alive().unwrap());
    assert_eq!(next.state().resources(), []);
}

#[test]
fn what_cannot_be_removed_stays_recorded_and_does_not_keep_the_rest() {
    let dir = tempfile::tempdir().unwrap();
    let cache = Cache::at(dir.path());
    let place = site(&cache, "stuck");
    let mut construction = place.lock().unwrap().build(None).unwrap();
    let process = construction.start(&sleeper("one")).unwrap();
    let obstacle = dir.path().join("group");
    fs::create_dir(&obstacle).unwrap();
    fs::write(
        obstacle.join("file"),
        "a control group directory that refuses to go",
    )
    .unwrap();
    let stuck = Resource::ControlGroup {
        path: obstacle.clone(),
    };
    construction.record(stuck.clone()).unwrap();
    construction.finish().unwrap();
    assert!(down(&cache, place.name()).is_err());
    assert!(!process.alive().unwrap());
    assert_eq!(place.state().unwrap().unwrap().resources(), [stuck]);
    fs::remove_file(obstacle.join("file")).unwrap();
    down(&cache, place.name()).unwrap();
    assert!(!place.dir().exists());
}

#[test]
fn only_clusters_whose_owner_has_ended_are_orphans() {
    let dir = tempfile::tempdir().unwrap();
    let cache = Cache::at(dir.path());
    let mut owner = std::process::Command::new("sleep").arg("600").spawn().unwrap();
    let owner_identity = Identity::of(owner.id().cast_signed()).unwrap();
    for (name, owner) in [
        ("kept", Some(Identity::own().unwrap())),
        ("free", None),
        ("lost", owner_identity),
    ] {
        site(&cache, name)
            .lock()
            .unwrap()
            .build(owner)
            .unwrap()
            .finish()
            .unwrap();
    }
    assert_eq!(down_orphans(&cache).unwrap(), []);
    owner.kill().unwrap();
    owner.wait().unwrap();
    assert_eq!(down_orphans(&cache).unwrap(), ["lost".parse().unwrap()]);
    let left: Vec<String> = Site::all(&cache)
        .unwrap()
        .iter()
        .map(|site| site.name().to_string())
        .collect();
    assert_eq!(left, ["free", "kept"]);
}

#[test]
fn a_family_ends_together_and_takes_no_neighbour_along() {
    let dir = tempfile::tempdir().unwrap();
    let cache = Cache::at(dir.path());
    for name in ["test-1", "test-1-pool", "test-12"] {
        site(&cache, name)
            .lock()
            .unwrap()
            .build(None)
            .unwrap()
            .finish()
            .unwrap();
    }
    down_family(&cache, &"test-1".parse().unwrap()).unwrap();
    let left: Vec<String> = Site::all(&cache)
        .unwrap()
        .iter()
        .map(|site| site.name().to_string())
        .collect();
    assert_eq!(left, ["test-12"]);
}

#[test]
fn clusters_side_by_side_never_share_a_port() {
    let dir = tempfile::tempdir().unwrap();
    let cache = Cache::at(dir.path());
    let mut one = site(&cache, "one").lock().unwrap().build(None).unwrap();
    let mut two = site(&cache, "two").lock().unwrap().build(None).unwrap();
    let first: [u16; 4] = one.reserve_ports().unwrap();
    let second: [u16; 4] = two.reserve_ports().unwrap();
    assert!(
        first.iter().all(|port| !second.contains(port)),
        "{first:?} {second:?}"
    );
}
