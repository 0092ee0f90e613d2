//! The USB bus of a node, as files.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use trustplane_e2e::say;

/// The USB bus of a node.
pub struct Bus(PathBuf);

/// What is plugged in.
pub struct Key {
    /// Where: the name that the kernel gives it.
    pub port: &'static str,
    pub product: &'static str,
    pub serial: &'static str,
}

impl Bus {
    pub fn new(state: &Path) -> Self {
        let bus = Self(state.join("usb"));
        for directory in ["sys/bus/usb/devices", "sys/devices", "dev/bus/usb/001"] {
            fs::create_dir_all(bus.0.join(directory)).unwrap();
        }
        bus
    }

    pub fn plug(&self, key: &Key, number: u8) {
        // Kubelet hands out device files only: this one takes everything and gives nothing. Everybody may use it, so its agent
        // is not root.
        let file = self.0.join(format!("dev/bus/usb/001/{number:03}"));
        say(Command::new("mknod")
            .arg("--mode=0666")
            .arg(&file)
            .args(["c", "1", "3"]))
        .unwrap();
        let device = self.0.join("sys/devices").join(key.port);
        fs::create_dir_all(&device).unwrap();
        for (name, content) in [
            ("idVendor", "20a0"),
            ("idProduct", key.product),
            ("serial", key.serial),
            ("manufacturer", "Pol Henarejos"),
            ("product", "Pico HSM"),
            ("busnum", "1"),
            ("devnum", &number.to_string()),
        ] {
            fs::write(device.join(name), format!("{content}\n")).unwrap();
        }
        let target = Path::new("../../../devices").join(key.port);
        symlink(target, self.0.join("sys/bus/usb/devices").join(key.port)).unwrap();
    }

    /// It is the only one.
    pub fn unplug(&self, key: &Key) {
        fs::remove_file(self.0.join("sys/bus/usb/devices").join(key.port)).unwrap();
        fs::remove_dir_all(self.0.join("sys/devices").join(key.port)).unwrap();
        for file in fs::read_dir(self.0.join("dev/bus/usb/001")).unwrap() {
            fs::remove_file(file.unwrap().path()).unwrap();
        }
    }
}
