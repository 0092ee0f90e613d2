//! One look at a node: which of its devices are those that are wanted.

use std::io;
use std::path::{Path, PathBuf};

use trustplane_hsm_core::usb::{
    Found, Pattern, PatternError, RawDevice, Selection, UsbDevice, is_device_name,
};

use crate::files::{Place, Root};
use crate::glob::{Match, find, named};

/// Where the kernel lists USB devices, below the root of sysfs.
const DEVICES: &str = "bus/usb/devices";
/// The most entries below a device that are looked at for a file that leads to it.
const MOST_CHILDREN: usize = 64;

/// Why a look failed.
#[derive(Debug, thiserror::Error)]
pub enum LookError {
    /// There is no tree.
    #[error("no sysfs at {}", listed(.0))]
    NoTree(Vec<PathBuf>),
    /// It cannot be read.
    #[error("read {}: {source}", .path.display())]
    Read {
        /// What.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
}

fn listed(paths: &[PathBuf]) -> String {
    let paths: Vec<_> = paths.iter().map(|path| path.display().to_string()).collect();
    paths.join(" or ")
}

/// Looks at a node. It holds nothing open between two looks.
#[derive(Debug)]
pub struct Eye {
    sysfs: Vec<PathBuf>,
    dev: Vec<PathBuf>,
    selection: Selection,
    pattern: Option<Pattern>,
}

/// What can be seen without opening a device's files, which may have to wait for its driver. If it is the same as before, so is
/// everything else.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Glimpse {
    /// Devices and interfaces by name, with the device's number on its bus.
    entries: Vec<(String, Option<Vec<u8>>)>,
    files: Vec<Match>,
}

/// What a look has seen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sight {
    /// How it looked from afar.
    pub glimpse: Glimpse,
    /// The devices that are wanted.
    pub found: Vec<Found>,
    /// Devices that are wanted, but that no file leads to yet.
    pub without_node: usize,
    /// Their device files below `/dev`, with what stood there.
    nodes: Vec<(PathBuf, Place)>,
}

impl Eye {
    /// Looks for these devices, below the first of the roots that is there.
    pub fn new(sysfs: Vec<PathBuf>, dev: Vec<PathBuf>, selection: Selection) -> Result<Self, PatternError> {
        let pattern = selection.path.as_ref();
        let pattern = pattern.map(|path| Pattern::parse(&path.glob)).transpose()?;
        Ok(Self {
            sysfs,
            dev,
            selection,
            pattern,
        })
    }

    /// Whether an event of this part of the kernel may matter.
    pub fn cares_about(&self, subsystem: &str) -> bool {
        self.pattern.is_some() || ["usb", "usbmisc", "tty", "hidraw"].contains(&subsystem)
    }

    /// A cheap look: directories, and one number for each device.
    pub fn glimpse(&self) -> Result<Glimpse, LookError> {
        let sysfs = self.sysfs()?;
        self.glimpse_at(sysfs.as_ref())
    }

    fn glimpse_at(&self, sysfs: Option<&Root>) -> Result<Glimpse, LookError> {
        let mut entries = Vec::new();
        if let Some(sysfs) = sysfs {
            for name in names(sysfs, Path::new(DEVICES))? {
                let device = name.split_once(':').map_or(name.as_str(), |(device, _)| device);
                if is_device_name(device) {
                    let number = Path::new(DEVICES).join(&name).join("devnum");
                    let number = (device == name).then(|| sysfs.read(&number)).flatten();
                    entries.push((name, number));
                }
            }
        }
        let files = match (&self.pattern, self.dev()) {
            (Some(pattern), Some(dev)) => find(pattern, &dev).map_err(|source| LookError::Read {
                path: pattern.as_str().into(),
                source,
            })?,
            _ => Vec::new(),
        };
        Ok(Glimpse { entries, files })
    }

    /// Whether all is as it was, as far as a cheap look tells. Who may open a device file is settled by udev a moment after the
    /// kernel has made it, and no event of the kernel tells of that.
    pub fn sees_the_same(&self, before: &Sight) -> Result<bool, LookError> {
        let dev = self.dev();
        let stays =
            |(node, place): &(PathBuf, Place)| dev.as_ref().and_then(|dev| dev.place(node)) == Some(*place);
        Ok(self.glimpse()? == before.glimpse && before.nodes.iter().all(stays))
    }

    /// A whole look.
    pub fn look(&self) -> Result<Sight, LookError> {
        let sysfs = self.sysfs()?;
        let glimpse = self.glimpse_at(sysfs.as_ref())?;
        let (dev, mut found, mut without_node) = (self.dev(), Vec::new(), 0);
        let mut nodes = Vec::new();
        for (name, _) in glimpse.entries.iter().filter(|(name, _)| is_device_name(name)) {
            let Some(sysfs) = &sysfs else { continue };
            let interfaces = interfaces(sysfs, name, &glimpse);
            let Ok(device) = UsbDevice::parse(&raw(sysfs, name, &interfaces)) else {
                continue;
            };
            if !self.selection.matches(&device) {
                continue;
            }
            match dev
                .as_ref()
                .and_then(|dev| node(sysfs, dev, &device, &interfaces))
            {
                Some((path, real, place)) => {
                    found.push(device.at(&named(&path)).with_access(place.mode, place.gid));
                    nodes.push((real, place));
                }
                None => without_node += 1,
            }
        }
        for file in &glimpse.files {
            let place = dev.as_ref().and_then(|dev| dev.place(&file.node));
            found.push(self.file(file, place));
            nodes.extend(place.map(|place| (file.node.clone(), place)));
        }
        Ok(Sight {
            glimpse,
            found,
            without_node,
            nodes,
        })
    }

    /// A device file that was asked for by its path.
    fn file(&self, file: &Match, place: Option<Place>) -> Found {
        let pattern = self.pattern.as_ref().map(Pattern::as_str).unwrap_or_default();
        let expected = self
            .selection
            .path
            .as_ref()
            .and_then(|path| path.permissions.clone());
        let permissions = expected.or_else(|| place.map(|place| format!("{:04o}", place.mode)));
        let found = Found::file(
            &named(&file.path),
            &named(&file.node),
            pattern,
            permissions.as_deref(),
        );
        match place {
            Some(place) => found.with_access(place.mode, place.gid),
            None => found,
        }
    }

    /// The tree of the kernel, if the bus matters at all.
    fn sysfs(&self) -> Result<Option<Root>, LookError> {
        if !self.selection.wants_usb() {
            return Ok(None);
        }
        let roots = || self.sysfs.iter().filter_map(|path| Root::open(path).ok());
        let with_bus = roots().find(|root| root.is_dir(Path::new(DEVICES)));
        // A machine without USB has a tree without that bus, and no devices. So has an empty directory, which stands for a
        // machine in tests; what is neither is not the tree of a kernel.
        let is_empty = |root: &Root| root.names(Path::new("")).is_ok_and(|names| names.is_empty());
        let without = || roots().find(|root| root.is_dir(Path::new("bus")) || is_empty(root));
        let root = with_bus.or_else(without);
        root.map(Some)
            .ok_or_else(|| LookError::NoTree(self.sysfs.clone()))
    }

    fn dev(&self) -> Option<Root> {
        self.dev.iter().find_map(|path| Root::open(path).ok())
    }
}

fn names(root: &Root, path: &Path) -> Result<Vec<String>, LookError> {
    root.names(path).map_err(|source| LookError::Read {
        path: path.to_owned(),
        source,
    })
}

/// The directories of a device's interfaces: the kernel lists them below the device and beside it.
fn interfaces(sysfs: &Root, name: &str, glimpse: &Glimpse) -> Vec<PathBuf> {
    let prefix = format!("{name}:");
    let device = Path::new(DEVICES).join(name);
    let below = sysfs.names(&device).unwrap_or_default();
    let below = below.into_iter().filter(|child| child.starts_with(&prefix));
    let mut all: Vec<_> = below.map(|child| device.join(child)).collect();
    let beside = glimpse.entries.iter().map(|(entry, _)| entry);
    let beside = beside.filter(|entry| entry.starts_with(&prefix));
    all.extend(beside.map(|entry| Path::new(DEVICES).join(entry)));
    all.truncate(MOST_CHILDREN);
    all
}

fn raw(sysfs: &Root, name: &str, interfaces: &[PathBuf]) -> RawDevice {
    let device = Path::new(DEVICES).join(name);
    let file = |name: &str| sysfs.read(&device.join(name));
    let class = |interface: &PathBuf| sysfs.read(&interface.join("bInterfaceClass"));
    RawDevice {
        name: name.to_owned(),
        id_vendor: file("idVendor"),
        id_product: file("idProduct"),
        serial: file("serial"),
        manufacturer: file("manufacturer"),
        product: file("product"),
        busnum: file("busnum"),
        devnum: file("devnum"),
        interface_classes: interfaces.iter().filter_map(class).collect(),
    }
}

/// The file that leads to a device: that of the bus, or else that of a serial line, or else that of a raw HID device. It exists, or
/// there is none. Told are its name below `/dev`, where that leads to, and what stands there.
fn node(
    sysfs: &Root,
    dev: &Root,
    device: &UsbDevice,
    interfaces: &[PathBuf],
) -> Option<(PathBuf, PathBuf, Place)> {
    let existing = |path: PathBuf| {
        let real = dev.real(&path)?;
        let place = dev.place(&real).filter(|place| place.is_node)?;
        Some((path, real, place))
    };
    let of_kind = |kind: &str| {
        let mut names = interfaces
            .iter()
            .flat_map(|interface| below(sysfs, interface, kind));
        names.find_map(|name| existing(name.into()))
    };
    let bus = device.bus_node().and_then(|path| existing(path.into()));
    bus.or_else(|| of_kind("tty")).or_else(|| of_kind("hidraw"))
}

/// The names of device files of a kind that belong to an interface: in `<interface>/<kind>` or one step deeper.
fn below(sysfs: &Root, interface: &Path, kind: &str) -> Vec<String> {
    let children = sysfs.names(interface).unwrap_or_default();
    let deeper = children
        .into_iter()
        .take(MOST_CHILDREN)
        .map(|child| interface.join(child));
    let places = std::iter::once(interface.to_owned()).chain(deeper);
    let names = places.flat_map(|place| sysfs.names(&place.join(kind)).unwrap_or_default());
    names.filter(|name| name.starts_with(kind)).collect()
}

#[cfg(test)]
mod tests;
