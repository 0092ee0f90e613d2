//! A USB device, from what the kernel tells of it.

use std::collections::BTreeMap;

use super::{UsbId, access};

/// The longest text of a device that is kept, in characters. A descriptor of USB holds 126.
const LONGEST_TEXT: usize = 126;
/// The class of interfaces that speak to smart cards.
const CCID: u8 = 0x0b;

/// What the files of a device hold, as they were read. An absent file is `None`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RawDevice {
    /// The name of its directory, such as `1-1.2`.
    pub name: String,
    /// `idVendor`.
    pub id_vendor: Option<Vec<u8>>,
    /// `idProduct`.
    pub id_product: Option<Vec<u8>>,
    /// `serial`.
    pub serial: Option<Vec<u8>>,
    /// `manufacturer`.
    pub manufacturer: Option<Vec<u8>>,
    /// `product`.
    pub product: Option<Vec<u8>>,
    /// `busnum`.
    pub busnum: Option<Vec<u8>>,
    /// `devnum`.
    pub devnum: Option<Vec<u8>>,
    /// `bInterfaceClass` of its interfaces.
    pub interface_classes: Vec<Vec<u8>>,
}

/// A USB device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UsbDevice {
    /// Where it is plugged in, as the kernel names it.
    pub name: String,
    /// Who makes it.
    pub vendor: UsbId,
    /// What it is.
    pub product: UsbId,
    /// Which one it is.
    pub serial: Option<String>,
    /// Who makes it, for people.
    pub manufacturer: Option<String>,
    /// What it is, for people.
    pub product_name: Option<String>,
    /// The number of its bus.
    pub bus: Option<u16>,
    /// Its number on the bus; another one each time it is plugged in.
    pub address: Option<u16>,
    /// Whether it calls itself a reader of smart cards.
    pub ccid: bool,
}

/// Why a directory is no device for us.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Unusable {
    /// A hub of the machine, an interface, or something else.
    #[error("not the name of a device")]
    Name,
    /// Without its numbers nobody knows what it is.
    #[error("no numbers of vendor and product")]
    Numbers,
}

/// Whether the kernel gives such a name to a device: `1-1`, `1-1.2`, `3-1.4.1`. Root hubs (`usb1`) and interfaces (`1-1:1.0`) have
/// others.
pub fn is_device_name(name: &str) -> bool {
    let number = |text: &str| !text.is_empty() && text.len() <= 3 && text.bytes().all(|b| b.is_ascii_digit());
    name.split_once('-')
        .is_some_and(|(bus, ports)| number(bus) && ports.split('.').all(number))
}

impl UsbDevice {
    /// Makes sense of what was read.
    pub fn parse(raw: &RawDevice) -> Result<Self, Unusable> {
        if !is_device_name(&raw.name) {
            return Err(Unusable::Name);
        }
        let id = |file: &Option<Vec<u8>>| file.as_deref().and_then(text)?.parse().ok();
        let number = |file: &Option<Vec<u8>>| file.as_deref().and_then(text)?.parse().ok();
        let smart_card = |class: &Vec<u8>| {
            let class = text(class).and_then(|class| u8::from_str_radix(&class, 16).ok());
            class == Some(CCID)
        };
        Ok(Self {
            name: raw.name.clone(),
            vendor: id(&raw.id_vendor).ok_or(Unusable::Numbers)?,
            product: id(&raw.id_product).ok_or(Unusable::Numbers)?,
            serial: raw.serial.as_deref().and_then(text),
            manufacturer: raw.manufacturer.as_deref().and_then(text),
            product_name: raw.product.as_deref().and_then(text),
            bus: number(&raw.busnum),
            address: number(&raw.devnum),
            ccid: raw.interface_classes.iter().any(smart_card),
        })
    }

    /// The file through which programs speak to it, below `/dev`, as the kernel names it: `bus/usb/001/015`.
    pub fn bus_node(&self) -> Option<String> {
        let (bus, address) = (self.bus?, self.address?);
        Some(format!("bus/usb/{bus:03}/{address:03}"))
    }

    /// It, at its device file.
    pub fn at(&self, device_path: &str) -> Found {
        let told = [
            ("vendor-id", Some(self.vendor.to_string())),
            ("product-id", Some(self.product.to_string())),
            ("manufacturer", self.manufacturer.clone()),
            ("product", self.product_name.clone()),
            ("discovery-type", Some("usb".to_owned())),
            ("discovery-method", Some("native-sysfs".to_owned())),
            ("sysfs-path", Some(format!("/sys/bus/usb/devices/{}", self.name))),
            ("device-address", self.device_address()),
        ];
        let info = told
            .into_iter()
            .filter_map(|(key, value)| Some((key.to_owned(), value?)));
        Found {
            device_path: device_path.to_owned(),
            node: device_path.to_owned(),
            serial: self.serial.clone(),
            info: info.collect(),
        }
    }

    fn device_address(&self) -> Option<String> {
        let (bus, address) = (self.bus?, self.address?);
        Some(format!("{bus:03}:{address:03}"))
    }
}

/// A device that was found, by whichever way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// Its device file, as people and pods know it.
    pub device_path: String,
    /// The device file itself, if that is only a link to it.
    pub node: String,
    /// Its serial number on the bus.
    pub serial: Option<String>,
    /// What else is known of it.
    pub info: BTreeMap<String, String>,
}

impl Found {
    /// A device file that matches a pattern.
    pub fn file(device_path: &str, node: &str, pattern: &str, permissions: Option<&str>) -> Self {
        let told = [
            ("discovery-type", Some("path")),
            ("path-pattern", Some(pattern)),
            ("permissions", permissions),
            ("resolved-path", Some(node).filter(|node| *node != device_path)),
        ];
        let info = told
            .into_iter()
            .filter_map(|(key, value)| Some((key.to_owned(), value?.to_owned())));
        Self {
            device_path: device_path.to_owned(),
            node: node.to_owned(),
            serial: None,
            info: info.collect(),
        }
    }

    /// It, with who may open its device file: the permission bits and the number of the group, as the node has them.
    #[must_use]
    pub fn with_access(mut self, mode: u32, gid: u32) -> Self {
        self.info.extend(access::told(mode, gid));
        self
    }
}

/// The first line, without blanks around it and without what cannot be shown.
fn text(bytes: &[u8]) -> Option<String> {
    let line = bytes.split(|b| *b == b'\n').next().unwrap_or_default();
    let text = String::from_utf8_lossy(line);
    let shown = text.trim().chars().filter(|c| !c.is_control());
    let shown: String = shown.take(LONGEST_TEXT).collect();
    let shown = shown.trim();
    (!shown.is_empty()).then(|| shown.to_owned())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn raw() -> RawDevice {
        let file = |text: &str| Some(text.as_bytes().to_vec());
        RawDevice {
            name: "1-1.2".to_owned(),
            id_vendor: file("20a0\n"),
            id_product: file("4230\n"),
            serial: file("DENK0104068\n"),
            manufacturer: file("Nitrokey\n"),
            product: file("Nitrokey HSM\n"),
            busnum: file("1\n"),
            devnum: file("15\n"),
            interface_classes: vec![b"0b\n".to_vec()],
        }
    }

    #[test]
    fn a_device_is_what_its_files_say() {
        let device = UsbDevice::parse(&raw()).unwrap();
        assert_eq!(device.vendor, UsbId(0x20a0));
        assert_eq!(device.serial.as_deref(), Some("DENK0104068"));
        assert!(device.ccid);
        assert_eq!(device.bus_node().as_deref(), Some("bus/usb/001/015"));
        let found = device.at("/dev/bus/usb/001/015");
        let told: Vec<_> = found.info.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect();
        let wanted = [
            ("device-address", "001:015"),
            ("discovery-method", "native-sysfs"),
            ("discovery-type", "usb"),
            ("manufacturer", "Nitrokey"),
            ("product", "Nitrokey HSM"),
            ("product-id", "4230"),
            ("sysfs-path", "/sys/bus/usb/devices/1-1.2"),
            ("vendor-id", "20a0"),
        ];
        assert_eq!(told, wanted);
        let found = found.with_access(0o664, 46);
        assert_eq!(
            (found.info["mode"].as_str(), found.info["gid"].as_str()),
            ("0664", "46")
        );
    }

    #[test]
    fn hubs_and_interfaces_are_no_devices() {
        for name in ["1-1", "1-1.2", "12-1.2.3.4", "3-14"] {
            assert!(is_device_name(name), "{name}");
        }
        let others = [
            "", "usb1", "1-1:1.0", "1-", "-1", "1-1.", "1-.1", "1-a", "1-1..2", "1-1/2", "..", "1-0:1.0",
            "1-1.2\n",
        ];
        for name in others {
            assert!(!is_device_name(name), "{name:?}");
        }
    }

    #[test]
    fn a_device_without_numbers_is_none() {
        for broken in [
            None,
            Some(b"".to_vec()),
            Some(b"20a".to_vec()),
            Some(vec![0xff; 4096]),
        ] {
            let device = RawDevice {
                id_vendor: broken,
                ..raw()
            };
            assert_eq!(UsbDevice::parse(&device), Err(Unusable::Numbers));
        }
    }

    #[test]
    fn what_cannot_be_shown_is_left_out() {
        let device = RawDevice {
            serial: Some(b"  A\x00B\x1b[31m \r\nsecond line".to_vec()),
            manufacturer: Some(b"\x00\x01\n".to_vec()),
            product: Some(vec![b'x'; 4096]),
            ..raw()
        };
        let device = UsbDevice::parse(&device).unwrap();
        assert_eq!(device.serial.as_deref(), Some("AB[31m"));
        assert_eq!(device.manufacturer, None);
        assert_eq!(device.product_name.map(|name| name.len()), Some(LONGEST_TEXT));
    }

    #[test]
    fn without_its_numbers_on_the_bus_no_file_is_guessed() {
        for broken in [
            None,
            Some(b"x".to_vec()),
            Some(b"-1".to_vec()),
            Some(b"99999".to_vec()),
        ] {
            let device = RawDevice {
                devnum: broken,
                ..raw()
            };
            assert_eq!(UsbDevice::parse(&device).unwrap().bus_node(), None);
        }
    }

    proptest! {
        #[test]
        fn no_content_of_files_does_harm(bytes in proptest::collection::vec(any::<u8>(), 0..200), name in any::<String>()) {
            let file = Some(bytes.clone());
            let device = RawDevice {
                name: if name.is_empty() { "1-1".to_owned() } else { name },
                id_vendor: Some(b"20a0".to_vec()), id_product: Some(b"4230".to_vec()),
                serial: file.clone(), manufacturer: file.clone(), product: file.clone(), busnum: file.clone(), devnum: file,
                interface_classes: vec![bytes],
            };
            if let Ok(device) = UsbDevice::parse(&device) {
                let texts = [device.serial, device.manufacturer, device.product_name];
                for text in texts.into_iter().flatten() {
                    prop_assert!(!text.is_empty() && text.chars().count() <= LONGEST_TEXT);
                    prop_assert!(text.chars().all(|c| !c.is_control()) && text.trim() == text);
                }
            }
        }
    }
}
