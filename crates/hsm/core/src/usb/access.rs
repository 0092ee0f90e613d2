//! Who may open a device file, and so as whom its agent has to run.

use std::collections::BTreeMap;

use crate::rules::USER;

/// The permission bits of the device file, as four octal digits.
pub(crate) const MODE: &str = "mode";
/// The number of the group that the device file belongs to.
pub(crate) const GID: &str = "gid";
/// The largest number of a group that Kubernetes takes.
const LARGEST: i64 = 0x7fff_ffff;
/// To read and to write.
const BOTH: u32 = 0o6;

/// As whom a process can open a device file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Access {
    /// As anybody.
    Anybody,
    /// As a member of this group.
    Group(i64),
    /// Only as root, as far as is known.
    Root,
}

/// What a node tells of its device file.
pub(super) fn told(mode: u32, gid: u32) -> [(String, String); 2] {
    [
        (MODE.to_owned(), format!("{mode:04o}")),
        (GID.to_owned(), gid.to_string()),
    ]
}

impl Access {
    /// From what a node tells of a device. What makes no sense was not said.
    pub fn of(info: &BTreeMap<String, String>) -> Self {
        let Some(mode) = info.get(MODE).and_then(|text| mode(text)) else {
            return Self::Root;
        };
        let may = |bits: u32| bits & BOTH == BOTH;
        let gid = info.get(GID).and_then(|text| gid(text));
        let (group, others) = (may(mode >> 3), may(mode));
        match gid {
            // Whoever is in the group is none of the others.
            Some(USER) if others && !group => Self::Root,
            _ if others => Self::Anybody,
            Some(gid) if gid != 0 && group => Self::Group(gid),
            _ => Self::Root,
        }
    }

    /// The user and the groups of a process that can.
    pub fn identity(self) -> (i64, Vec<i64>) {
        match self {
            Self::Anybody => (USER, Vec::new()),
            Self::Group(gid) => (USER, vec![gid]),
            Self::Root => (0, Vec::new()),
        }
    }
}

/// Whether something that a node tells of a device makes no sense. It is left out, so that nobody is misled by it.
pub(crate) fn is_nonsense(key: &str, value: &str) -> bool {
    match key {
        MODE => mode(value).is_none(),
        GID => gid(value).is_none(),
        _ => false,
    }
}

fn mode(text: &str) -> Option<u32> {
    let plain = text.len() == 4 && text.bytes().all(|digit| (b'0'..=b'7').contains(&digit));
    plain.then(|| u32::from_str_radix(text, 8).ok())?
}

fn gid(text: &str) -> Option<i64> {
    let number: i64 = text.parse().ok().filter(|gid| (0..=LARGEST).contains(gid))?;
    // One way to write it, so that equal ones are equal.
    (number.to_string() == text).then_some(number)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn access(mode: &str, gid: &str) -> Access {
        let told = [(MODE, mode), (GID, gid)].into_iter();
        let told = told.filter(|(_, value)| !value.is_empty());
        Access::of(
            &told
                .map(|(key, value)| (key.to_owned(), value.to_owned()))
                .collect(),
        )
    }

    #[test]
    fn root_is_needed_only_where_nobody_else_may() {
        for (mode, gid, wanted) in [
            ("0666", "0", Access::Anybody),
            ("0666", "", Access::Anybody),
            ("0606", "46", Access::Anybody),
            ("0666", "65532", Access::Anybody),
            ("0606", "65532", Access::Root),
            ("0660", "46", Access::Group(46)),
            ("0660", "65532", Access::Group(65532)),
            ("0664", "46", Access::Group(46)),
            ("1660", "46", Access::Group(46)),
            // Everybody in group 0 has what root has.
            ("0660", "0", Access::Root),
            ("0660", "", Access::Root),
            ("0640", "46", Access::Root),
            ("0620", "46", Access::Root),
            ("0644", "46", Access::Root),
            ("0604", "0", Access::Root),
            ("0602", "0", Access::Root),
            ("0600", "46", Access::Root),
            ("", "46", Access::Root),
        ] {
            assert_eq!(access(mode, gid), wanted, "{mode} {gid}");
        }
    }

    #[test]
    fn what_makes_no_sense_was_not_said() {
        for mode in [
            "666",
            "00666",
            "+666",
            "0668",
            "rw-rw-rw-",
            " 0666",
            "0o66",
            "0666\n",
        ] {
            assert_eq!(access(mode, "46"), Access::Root, "{mode:?}");
            assert!(is_nonsense(MODE, mode), "{mode:?}");
        }
        for gid in [
            "-1",
            "+46",
            "046",
            "2147483648",
            "4294967295",
            "plugdev",
            "46 ",
            "",
            "1e3",
        ] {
            assert_eq!(access("0660", gid), Access::Root, "{gid:?}");
            assert!(is_nonsense(GID, gid), "{gid:?}");
        }
        assert_eq!(access("0660", "2147483647"), Access::Group(LARGEST));
        assert!(!is_nonsense("product", "rw"));
    }

    proptest! {
        #[test]
        fn what_a_node_tells_is_understood(mode in 0..=0o7777u32, gid in 0..=0x7fff_ffffu32) {
            let told = BTreeMap::from(told(mode, gid));
            prop_assert!(told.iter().all(|(key, value)| !is_nonsense(key, value)));
            let (user, groups) = Access::of(&told).identity();
            prop_assert_eq!(user == 0, mode & 0o6 != 0o6 && (gid == 0 || mode & 0o60 != 0o60) || i64::from(gid) == USER && mode & 0o66 == 0o6);
            prop_assert!(groups.iter().all(|group| *group == i64::from(gid) && *group != 0));
        }
    }
}
