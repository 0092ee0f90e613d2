//! Serial numbers, and tokens that share one.

use std::collections::BTreeMap;

use jiff::Timestamp;

use super::{Tracked, token_resource};

/// What serial numbers are compared by. Names of agents and of resources have one case, so two serial numbers that differ in
/// nothing else are one.
pub fn serial_key(serial: &str) -> String {
    serial.to_ascii_lowercase()
}

/// Which of several tokens with one serial number on one node counts: the smallest. Of those that are there it is the one that
/// was there first, so a clone that is plugged in beside a token never takes its place; of those that are lost the last one.
///
/// The agent of a serial number is made for the one that counts, and the kubelet hands out the one that counts. Both see whole
/// seconds, because a status has no more. Where both came in one second the path tells, and on one bus a later device has a
/// higher number.
pub fn standing(available: bool, since: Timestamp, path: &str) -> (bool, i64, &str) {
    let second = since.as_second();
    (!available, if available { second } else { -second }, path)
}

/// The token that stands behind each resource, of all that a node has.
pub fn by_token(devices: &[Tracked]) -> BTreeMap<String, &Tracked> {
    let rank = |tracked: &'_ Tracked| -> (bool, i64, String) {
        let (gone, second, path) = standing(tracked.available, tracked.since, &tracked.found.device_path);
        (gone, second, path.to_owned())
    };
    let mut tokens: BTreeMap<String, &Tracked> = BTreeMap::new();
    for tracked in devices {
        let Some(serial) = &tracked.found.serial else {
            continue;
        };
        let first = tokens.entry(token_resource(serial)).or_insert(tracked);
        if rank(tracked) < rank(first) {
            *first = tracked;
        }
    }
    tokens
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::examples::tracked;

    fn paths(devices: &[Tracked]) -> Vec<(String, &str)> {
        let tokens = by_token(devices).into_iter();
        tokens
            .map(|(resource, tracked)| (resource, tracked.found.device_path.as_str()))
            .collect()
    }

    #[test]
    fn each_token_is_a_resource_of_its_own() {
        let devices = [
            tracked(Some("a1"), "/dev/1", true, 0),
            tracked(Some("b2"), "/dev/2", false, 0),
            tracked(None, "/dev/3", true, 0),
        ];
        let wanted = [
            ("hsm.j5t.io/token-a1".to_owned(), "/dev/1"),
            ("hsm.j5t.io/token-b2".to_owned(), "/dev/2"),
        ];
        assert_eq!(paths(&devices), wanted);
    }

    #[test]
    fn of_tokens_with_one_serial_number_the_one_that_was_there_first_counts() {
        let devices = [
            tracked(Some("a"), "/dev/1", true, 9_000),
            tracked(Some("A"), "/dev/2", true, 5_000),
            tracked(Some("a"), "/dev/3", false, 1_000),
        ];
        assert_eq!(paths(&devices), [("hsm.j5t.io/token-a".to_owned(), "/dev/2")]);
        let lost = [
            tracked(Some("a"), "/dev/1", false, 5_000),
            tracked(Some("a"), "/dev/2", false, 9_000),
        ];
        assert_eq!(paths(&lost), [("hsm.j5t.io/token-a".to_owned(), "/dev/2")]);
    }

    #[test]
    fn what_a_status_does_not_show_does_not_count() {
        let devices = [
            tracked(Some("a"), "/dev/2", true, 5_100),
            tracked(Some("a"), "/dev/1", true, 5_900),
        ];
        assert_eq!(paths(&devices), [("hsm.j5t.io/token-a".to_owned(), "/dev/1")]);
    }
}
