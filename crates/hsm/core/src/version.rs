//! Versions: what the labels `sync.*` in the metadata of a secret say, which of two copies is the newer one, and what a writer
//! may expect.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::fmt;

use jiff::Timestamp;

/// The label with the version.
pub const VERSION: &str = "sync.version";
/// The label with the time of the write.
pub const TIMESTAMP: &str = "sync.timestamp";
/// The label of what was deleted.
pub const DELETED: &str = "sync.deleted";
/// The label with the token that a copy was made from.
pub const SOURCE: &str = "sync.source";
/// The label with the writer's epoch. The original does not know it, and carries it along.
pub const EPOCH: &str = "sync.epoch";
/// The highest version and epoch: the API has 64 bits with a sign.
pub const HIGHEST: u64 = i64::MAX as u64;

/// The labels `sync.*` of a secret.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Stamp {
    /// Counts the writes. Nought if nobody has counted.
    pub version: u64,
    /// When it was written.
    pub timestamp: Option<Timestamp>,
    /// Whether it was deleted.
    pub deleted: bool,
    /// The token that it was copied from.
    pub source: Option<String>,
    /// The epoch of the one who wrote it.
    pub epoch: Option<u64>,
}

/// What is wrong with a label `sync.*`. The text of the label is not told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum StampError {
    /// The version is not a number that we can count on from.
    #[error("label sync.version is no whole number from 0 to 9223372036854775807")]
    Version,
    /// The time is none.
    #[error("label sync.timestamp is no RFC 3339 time")]
    Timestamp,
    /// The epoch is no number.
    #[error("label sync.epoch is no whole number from 0 to 9223372036854775807")]
    Epoch,
}

impl Stamp {
    /// Takes the labels `sync.*` out of all labels. Those that we do not know stay.
    pub fn take(labels: &mut BTreeMap<String, String>) -> Result<Self, StampError> {
        let version = labels
            .remove(VERSION)
            .map(|text| number(&text).ok_or(StampError::Version));
        let timestamp = labels
            .remove(TIMESTAMP)
            .map(|text| text.parse().map_err(|_| StampError::Timestamp));
        let epoch = labels
            .remove(EPOCH)
            .map(|text| number(&text).ok_or(StampError::Epoch));
        Ok(Self {
            version: version.transpose()?.unwrap_or_default(),
            timestamp: timestamp.transpose()?,
            deleted: labels.remove(DELETED).is_some_and(|text| text == "true"),
            source: labels.remove(SOURCE),
            epoch: epoch.transpose()?,
        })
    }

    /// The labels that say this.
    pub fn labels(&self) -> Vec<(&'static str, String)> {
        let version = (self.version > 0 || self.deleted).then(|| self.version.to_string());
        let all = [
            (VERSION, version),
            (TIMESTAMP, self.timestamp.map(|time| format!("{time:.0}"))),
            (DELETED, self.deleted.then(|| "true".to_owned())),
            (SOURCE, self.source.clone()),
            (EPOCH, self.epoch.map(|epoch| epoch.to_string())),
        ];
        all.into_iter()
            .filter_map(|(label, text)| Some((label, text?)))
            .collect()
    }
}

fn number(text: &str) -> Option<u64> {
    text.parse().ok().filter(|number| *number <= HIGHEST)
}

/// The token with the newest of several copies: the highest version, then the latest time, then the smallest serial number,
/// as in the original.
pub fn newest<'a>(copies: impl IntoIterator<Item = (&'a str, &'a Stamp)>) -> Option<&'a str> {
    let rank = |(serial, stamp): &(&'a str, &'a Stamp)| (stamp.version, stamp.timestamp, Reverse(*serial));
    copies.into_iter().max_by_key(rank).map(|(serial, _)| serial)
}

/// What a writer expects to find.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expected {
    /// Anything, also what cannot be read: the secret is written anew.
    Any,
    /// Nothing, or what was deleted.
    Absent,
    /// A secret, deleted or not, of this version.
    Version(u64),
}

impl Expected {
    /// Whether this is what there is: the stamp of the secret, if there is one.
    pub fn is_met(self, found: Option<&Stamp>) -> bool {
        match self {
            Self::Any => true,
            Self::Absent => found.is_none_or(|stamp| stamp.deleted),
            Self::Version(version) => found.is_some_and(|stamp| stamp.version == version),
        }
    }
}

impl fmt::Display for Expected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Any => f.write_str("anything"),
            Self::Absent => f.write_str("nothing"),
            Self::Version(version) => write!(f, "version {version}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn labels(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs
            .iter()
            .map(|(label, text)| ((*label).to_owned(), (*text).to_owned()))
            .collect()
    }

    fn at(text: &str) -> Option<Timestamp> {
        Some(text.parse().unwrap())
    }

    #[test]
    fn the_labels_of_the_original_are_read() {
        let mut given = labels(&[
            ("sync.version", "7"),
            ("sync.timestamp", "2026-07-07T10:00:00+02:00"),
            ("sync.deleted", "true"),
            ("sync.source", "DENK0100"),
            ("sync.later", "kept"),
            ("team", "a"),
        ]);
        let stamp = Stamp::take(&mut given).unwrap();
        let expected = Stamp {
            version: 7,
            timestamp: at("2026-07-07T08:00:00Z"),
            deleted: true,
            source: Some("DENK0100".into()),
            epoch: None,
        };
        assert_eq!(stamp, expected);
        assert_eq!(given, labels(&[("sync.later", "kept"), ("team", "a")]));
        // The original's tombstones have version 0, and say so.
        let tombstone = Stamp {
            deleted: true,
            ..Stamp::default()
        };
        assert_eq!(
            tombstone.labels(),
            [(VERSION, "0".to_owned()), (DELETED, "true".to_owned())]
        );
        assert_eq!(
            Stamp::take(&mut labels(&[("sync.deleted", "yes")])),
            Ok(Stamp::default())
        );
    }

    #[test]
    fn a_label_that_is_no_number_is_an_error_and_not_version_nought() {
        for bad in [
            "",
            "x",
            "-1",
            "1.0",
            " 1",
            "9223372036854775808",
            "99999999999999999999",
        ] {
            let version = Stamp::take(&mut labels(&[("sync.version", bad)]));
            assert_eq!(version, Err(StampError::Version), "{bad}");
            let epoch = Stamp::take(&mut labels(&[("sync.epoch", bad)]));
            assert_eq!(epoch, Err(StampError::Epoch), "{bad}");
        }
        let time = Stamp::take(&mut labels(&[("sync.timestamp", "yesterday")]));
        assert_eq!(time, Err(StampError::Timestamp));
    }

    #[test]
    fn the_newest_copy_is_known_by_version_then_time_then_serial() {
        let stamp = |version, time: &str| Stamp {
            version,
            timestamp: time.parse().ok(),
            ..Stamp::default()
        };
        let (early, late) = ("2026-07-07T08:00:00Z", "2026-07-07T08:00:01Z");
        let cases = [
            ([stamp(2, early), stamp(1, late)], "a"),
            ([stamp(1, early), stamp(1, late)], "b"),
            ([stamp(1, ""), stamp(1, early)], "b"),
            ([stamp(1, early), stamp(1, early)], "a"),
        ];
        for ([a, b], expected) in &cases {
            assert_eq!(newest([("a", a), ("b", b)]), Some(*expected), "{a:?} {b:?}");
            assert_eq!(newest([("b", b), ("a", a)]), Some(*expected), "{a:?} {b:?}");
        }
        assert_eq!(newest([]), None);
    }

    #[test]
    fn a_writer_may_expect_a_version() {
        let live = Stamp {
            version: 3,
            ..Stamp::default()
        };
        let dead = Stamp {
            deleted: true,
            ..live.clone()
        };
        let unversioned = Stamp::default();
        let cases = [
            (Expected::Any, [true, true, true, true]),
            (Expected::Absent, [true, false, true, false]),
            (Expected::Version(3), [false, true, true, false]),
            (Expected::Version(0), [false, false, false, true]),
        ];
        for (expected, met) in cases {
            let found = [None, Some(&live), Some(&dead), Some(&unversioned)];
            assert_eq!(found.map(|found| expected.is_met(found)), met, "{expected}");
        }
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_again(
            version in 1..=HIGHEST, second in 0_i64..4_000_000_000, deleted: bool,
            source in prop::option::of("[a-z]{1,5}"), epoch in prop::option::of(0..=HIGHEST),
        ) {
            let timestamp = Timestamp::from_second(second).ok();
            let stamp = Stamp { version, timestamp, deleted, source, epoch };
            let mut written = stamp.labels().into_iter().map(|(label, text)| (label.to_owned(), text)).collect();
            prop_assert_eq!(Stamp::take(&mut written), Ok(stamp));
            prop_assert!(written.is_empty());
        }
    }
}
