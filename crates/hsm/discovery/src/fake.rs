//! A tree of files that looks as sysfs and `/dev` do, for tests.

use std::fs::{self, File};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

/// A node without hardware.
#[derive(Debug)]
pub struct Tree(TempDir);

/// A device to plug in.
#[derive(Debug, Clone, Copy)]
pub struct Plug<'a> {
    /// Where, such as `1-1.2`.
    pub port: &'a str,
    /// Vendor and product.
    pub numbers: (&'a str, &'a str),
    /// Its serial number.
    pub serial: &'a str,
    /// Its number on the bus.
    pub number: u16,
    /// The class of its interface.
    pub class: &'a str,
}

/// A Pico HSM.
pub const PICO: Plug<'_> = Plug {
    port: "1-1.2",
    numbers: ("20a0", "4230"),
    serial: "e6614c311b7e6f35",
    number: 15,
    class: "0b",
};

const PLACE: &str = "sys/devices/pci0000:00/0000:00:14.0/usb1";

impl Tree {
    /// With a bus, and a root hub on it.
    pub fn new() -> Self {
        let tree = Self(tempfile::tempdir().unwrap());
        for dir in ["sys/bus/usb/devices", PLACE, "dev/bus/usb/001"] {
            fs::create_dir_all(tree.path(dir)).unwrap();
        }
        tree.list("usb1", "");
        let hub = tree.path(PLACE);
        // It calls itself what is looked for, and yet it is a root hub.
        for (file, text) in [
            ("idVendor", "20a0"),
            ("idProduct", "4230"),
            ("busnum", "1"),
            ("devnum", "1"),
        ] {
            fs::write(hub.join(file), text).unwrap();
        }
        tree
    }

    fn path(&self, path: &str) -> PathBuf {
        self.0.path().join(path)
    }

    pub fn sysfs(&self) -> PathBuf {
        self.path("sys")
    }

    pub fn dev(&self) -> PathBuf {
        self.path("dev")
    }

    /// The directory of a device.
    pub fn device(&self, port: &str) -> PathBuf {
        self.path(PLACE).join(port)
    }

    /// Lists an entry of the bus, as the kernel does: by a link into the tree of devices.
    fn list(&self, name: &str, below: &str) {
        let link = self.path("sys/bus/usb/devices").join(name);
        let place = Path::new("../../../../").join(PLACE).join(below);
        symlink(place, link).unwrap();
    }

    /// Plugs a device in.
    pub fn plug(&self, plug: Plug<'_>) {
        let (device, interface) = (self.device(plug.port), format!("{}:1.0", plug.port));
        fs::create_dir_all(device.join(&interface)).unwrap();
        let number = plug.number.to_string();
        for (file, text) in [
            ("idVendor", plug.numbers.0),
            ("idProduct", plug.numbers.1),
            ("serial", plug.serial),
            ("manufacturer", "Pol Henarejos"),
            ("product", "Pico HSM"),
            ("busnum", "1"),
            ("devnum", &number),
        ] {
            fs::write(device.join(file), format!("{text}\n")).unwrap();
        }
        let class = format!("{}\n", plug.class);
        fs::write(device.join(&interface).join("bInterfaceClass"), class).unwrap();
        fs::write(self.path(&node(plug.number)), "").unwrap();
        self.list(&interface, &format!("{}/{interface}", plug.port));
        self.list(plug.port, plug.port);
    }

    /// Pulls a device out.
    pub fn unplug(&self, plug: Plug<'_>) {
        let entries = self.path("sys/bus/usb/devices");
        fs::remove_file(entries.join(plug.port)).unwrap();
        fs::remove_file(entries.join(format!("{}:1.0", plug.port))).unwrap();
        fs::remove_dir_all(self.device(plug.port)).unwrap();
        let _ = fs::remove_file(self.path(&node(plug.number)));
    }

    /// Entries that are no tokens, or broken, or traps.
    pub fn decoys(&self) {
        let entries = self.path("sys/bus/usb/devices");
        let of_pico = |port: &str, number: u16| {
            self.plug(Plug { port, number, ..PICO });
            self.device(port)
        };
        // Files that are none, and one that never ends.
        for (port, number, make) in [
            ("1-2", 21, pipe as fn(&Path)),
            ("1-3", 22, directory),
            ("1-4", 23, garbage),
            ("1-5", 24, endless),
            ("1-6", 25, nowhere),
        ] {
            let file = of_pico(port, number).join("idVendor");
            fs::remove_file(&file).unwrap();
            make(&file);
        }
        // A device that lies outside of the tree.
        let outside = self.path("outside");
        fs::create_dir(&outside).unwrap();
        for (file, text) in [
            ("idVendor", "20a0"),
            ("idProduct", "4230"),
            ("busnum", "1"),
            ("devnum", "15"),
        ] {
            fs::write(outside.join(file), text).unwrap();
        }
        symlink("../../../../outside", entries.join("1-7")).unwrap();
        symlink(&outside, entries.join("1-8")).unwrap();
        symlink("1-9", entries.join("1-9")).unwrap();
        symlink("absent", entries.join("1-10")).unwrap();
        fs::write(entries.join("1-11"), "a file in the place of a device").unwrap();
        for number in 0..3000 {
            fs::create_dir(entries.join(format!("ep_{number}"))).unwrap();
        }
    }
}

/// The device file of a number on the bus.
fn node(number: u16) -> String {
    format!("dev/bus/usb/001/{number:03}")
}

fn pipe(path: &Path) {
    use rustix::fs::{CWD, FileType, Mode, mknodat};
    mknodat(CWD, path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
}

fn directory(path: &Path) {
    fs::create_dir(path).unwrap();
}

fn garbage(path: &Path) {
    fs::write(path, [0xff, 0x00, 0xfe, b'\n', 0x80]).unwrap();
}

fn endless(path: &Path) {
    File::create(path).unwrap().set_len(1 << 40).unwrap();
}

fn nowhere(path: &Path) {
    symlink("../../../../../../outside/idVendor", path).unwrap();
}
