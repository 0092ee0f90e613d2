//! The USB bus of a node, as files.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use trustplane_e2e::say;

use crate::devices::SERIAL;

/// The USB bus of a node.
pub struct Bus(PathBuf);

impl Bus {
    pub fn new(state: &Path) -> Self {
        let bus = Self(state.join("usb"));
        for directory in ["sys/bus/usb/devices", "sys/devices", "dev/bus/usb/001"] {
            fs::create_dir_all(bus.0.join(directory)).unwrap();
        }
        bus
    }

    pub fn plug(&self, number: u8) {
        // Kubelet hands out device files only: this one takes everything and gives nothing. Everybody may use it, so its agent
        // is not root.
        let file = self.0.join(format!("dev/bus/usb/001/{number:03}"));
        say(Command::new("mknod")
            .arg("--mode=0666")
            .arg(&file)
            .args(["c", "1", "3"]))
        .unwrap();
        let device = self.0.join("sys/devices/1-1");
        fs::create_dir_all(&device).unwrap();
        for (name, content) in [
            ("idVendor", "20a0"),
            ("idProduct", "4230"),
            ("serial", SERIAL),
            ("manufacturer", "Pol Henarejos"),
            ("product", "Pico HSM"),
            ("busnum", "1"),
            ("devnum", &number.to_string()),
        ] {
            fs::write(device.join(name), format!("{content}\n")).unwrap();
        }
        symlink("../../../devices/1-1", self.0.join("sys/bus/usb/devices/1-1")).unwrap();
    }

    pub fn unplug(&self) {
        fs::remove_file(self.0.join("sys/bus/usb/devices/1-1")).unwrap();
        fs::remove_dir_all(self.0.join("sys/devices/1-1")).unwrap();
        for file in fs::read_dir(self.0.join("dev/bus/usb/001")).unwrap() {
            fs::remove_file(file.unwrap().path()).unwrap();
        }
    }
}
