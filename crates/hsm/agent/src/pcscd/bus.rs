//! The USB bus, as far as it tells that pcscd has missed something.
//!
//! pcscd knows the readers that were there when it started. Of those that come later it learns by events of udev, which do not
//! reach the network of a pod. So it is started again when the token is missed and the bus is not what it was.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Where the kernel lists what is on the bus.
pub(super) const DEVICES: &str = "/sys/bus/usb/devices";

/// What is on the bus: the names, each with the number of its folder. A device that was plugged in again has another folder,
/// even if all its own numbers are the same.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Bus(BTreeMap<OsString, u64>);

impl Bus {
    /// Looks at it. Where there is no bus, nothing is on it.
    pub fn look(devices: &Path) -> Self {
        let entries = fs::read_dir(devices).into_iter().flatten().flatten();
        let folders = entries.filter_map(|entry| {
            // What has left meanwhile is not there.
            let folder = fs::metadata(entry.path()).ok()?;
            Some((entry.file_name(), folder.ino()))
        });
        Self(folders.collect())
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn a_device_that_comes_goes_or_is_another_one_is_seen() {
        let folder = tempfile::tempdir().unwrap();
        let [bus, devices] = ["bus", "devices"].map(|name| folder.path().join(name));
        assert_eq!(Bus::look(&bus), Bus::default());
        fs::create_dir(&bus).unwrap();
        // The first is in the way of the second's folder number.
        for name in ["1-1", "1-2", "later"] {
            fs::create_dir_all(devices.join(name)).unwrap();
        }
        symlink(devices.join("1-1"), bus.join("1-1")).unwrap();
        let one = Bus::look(&bus);
        assert_eq!(Bus::look(&bus), one);
        symlink(devices.join("1-2"), bus.join("1-2")).unwrap();
        let two = Bus::look(&bus);
        assert_ne!(two, one);
        // Plugged in again, between two looks.
        fs::rename(devices.join("1-2"), devices.join("gone")).unwrap();
        fs::rename(devices.join("later"), devices.join("1-2")).unwrap();
        assert_ne!(Bus::look(&bus), two);
        fs::remove_dir(devices.join("1-2")).unwrap();
        assert_eq!(Bus::look(&bus), one);
    }
}
