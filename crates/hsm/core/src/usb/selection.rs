//! What a node is told to look for.

use serde::{Deserialize, Serialize};

use super::{DeviceType, UsbDevice, UsbId};

/// What to look for. A device that any part names is one; if no part is given, none is.
///
/// ```
/// use trustplane_hsm_core::usb::{AutoMatch, Selection};
///
/// let text = r#"{"usb":[{"vendor":"20A0","product":"4230"}],"maxDevices":10}"#;
/// let selection: Selection = serde_json::from_str(text).unwrap();
/// assert_eq!(selection.limit(), Some(10));
/// assert!(selection.usb[0].serial.is_none() && selection.auto.is_none());
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Selection {
    /// USB devices by their numbers.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub usb: Vec<UsbMatch>,
    /// Device files by their path.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<PathMatch>,
    /// Devices that are known for what they are.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub auto: Option<AutoMatch>,
    /// How many devices of a node are used; none or 0 is no limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_devices: Option<u32>,
}

/// USB devices by their numbers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct UsbMatch {
    /// Who makes it.
    pub vendor: UsbId,
    /// What it is.
    pub product: UsbId,
    /// Which one it is, exactly; any if it is absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub serial: Option<String>,
}

/// Device files by their path.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PathMatch {
    /// A path below `/dev`, in which `*`, `?` and `[…]` stand for other characters.
    pub glob: String,
    /// The mode that people expect. It is told, and nothing else.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub permissions: Option<String>,
}

/// Devices that are known for what they are.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct AutoMatch {
    /// The numbers of a well-known type.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ids: Vec<UsbPair>,
    /// Every device with an interface of the class of smart card readers.
    pub ccid: bool,
}

/// Vendor and product.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct UsbPair {
    /// Who makes it.
    pub vendor: UsbId,
    /// What it is.
    pub product: UsbId,
}

impl AutoMatch {
    /// What auto-discovery means for a type: the numbers that the type is known by, and everything that calls itself a smart
    /// card, unless tokens of the type never do.
    pub fn of_type(device_type: &str) -> Self {
        let known = DeviceType::named(device_type);
        let numbers = known.map(DeviceType::numbers).unwrap_or_default();
        let ids = numbers.iter().map(|(vendor, product)| UsbPair {
            vendor: UsbId(*vendor),
            product: UsbId(*product),
        });
        Self {
            ids: ids.collect(),
            ccid: known.is_none_or(DeviceType::is_smart_card),
        }
    }

    fn matches(&self, device: &UsbDevice) -> bool {
        let known = |pair: &UsbPair| (pair.vendor, pair.product) == (device.vendor, device.product);
        (self.ccid && device.ccid) || self.ids.iter().any(known)
    }
}

impl UsbMatch {
    fn matches(&self, device: &UsbDevice) -> bool {
        let serial = self.serial.as_ref().filter(|serial| !serial.is_empty());
        (self.vendor, self.product) == (device.vendor, device.product)
            && serial.is_none_or(|serial| device.serial.as_ref() == Some(serial))
    }
}

impl Selection {
    /// Whether a USB device is one.
    pub fn matches(&self, device: &UsbDevice) -> bool {
        let auto = self.auto.as_ref();
        self.usb.iter().any(|wanted| wanted.matches(device)) || auto.is_some_and(|auto| auto.matches(device))
    }

    /// Whether it names nothing, so that nothing is ever found.
    pub fn is_empty(&self) -> bool {
        self.path.is_none() && !self.wants_usb()
    }

    /// Whether the bus has to be looked at; device files are elsewhere.
    pub fn wants_usb(&self) -> bool {
        !self.usb.is_empty() || self.auto.is_some()
    }

    /// How many devices at most.
    pub fn limit(&self) -> Option<usize> {
        let limit = self.max_devices.filter(|limit| *limit > 0);
        limit.map(|limit| usize::try_from(limit).unwrap_or(usize::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn device(vendor: u16, product: u16, serial: Option<&str>, ccid: bool) -> UsbDevice {
        UsbDevice {
            name: "1-1".to_owned(),
            vendor: UsbId(vendor),
            product: UsbId(product),
            serial: serial.map(str::to_owned),
            manufacturer: None,
            product_name: None,
            bus: Some(1),
            address: Some(2),
            ccid,
        }
    }

    fn selection(text: &str) -> Selection {
        serde_json::from_str(text).unwrap()
    }

    #[test]
    fn a_device_matches_as_the_table_says() {
        let pico = device(0x20a0, 0x4230, Some("E6"), true);
        let yubi = device(0x1050, 0x0030, Some("7"), false);
        let reader = device(0x0bda, 0x0165, None, true);
        let stick = device(0x0781, 0x5581, Some("E6"), false);
        let by_numbers = r#"{"usb":[{"vendor":"20A0","product":"4230"}]}"#;
        let by_serial = r#"{"usb":[{"vendor":"20a0","product":"4230","serial":"E6"}]}"#;
        let other_serial = r#"{"usb":[{"vendor":"20a0","product":"4230","serial":"e6"}]}"#;
        let empty_serial = r#"{"usb":[{"vendor":"20a0","product":"4230","serial":""}]}"#;
        let two = r#"{"usb":[{"vendor":"20a0","product":"4230"},{"vendor":"1050","product":"0030"}]}"#;
        let and_auto = r#"{"usb":[{"vendor":"1050","product":"0030"}],"auto":{"ccid":true}}"#;
        let ids = r#"{"auto":{"ids":[{"vendor":"1050","product":"0030"}]}}"#;
        let path = r#"{"path":{"glob":"/dev/ttyACM*"}}"#;
        for (text, matched) in [
            (by_numbers, [true, false, false, false]),
            (by_serial, [true, false, false, false]),
            (other_serial, [false, false, false, false]),
            (empty_serial, [true, false, false, false]),
            (two, [true, true, false, false]),
            (and_auto, [true, true, true, false]),
            (ids, [false, true, false, false]),
            (path, [false, false, false, false]),
            (r#"{"auto":{"ccid":true}}"#, [true, false, true, false]),
            // Nothing given is nothing.
            ("{}", [false; 4]),
            (r#"{"maxDevices":3}"#, [false; 4]),
        ] {
            let selection = selection(text);
            let found = [&pico, &yubi, &reader, &stick].map(|device| selection.matches(device));
            assert_eq!(found, matched, "{text}");
            let names_none = !found.contains(&true) && text != path && text != other_serial;
            assert_eq!(selection.is_empty(), names_none, "{text}");
        }
    }

    #[test]
    fn a_type_stands_for_its_numbers_and_for_smart_cards() {
        let pico = AutoMatch::of_type("PicoHSM");
        for (vendor, product) in [(0x20a0, 0x4230), (0x2e8a, 0x10fd), (0xfeff, 0xfcfd)] {
            assert!(pico.matches(&device(vendor, product, None, false)));
        }
        assert!(pico.matches(&device(1, 2, None, true)));
        assert!(AutoMatch::of_type("SmartCardHSM").matches(&device(0x04e6, 0x5816, None, false)));
        assert!(AutoMatch::of_type("Generic").matches(&device(1, 2, None, true)));
        assert!(!AutoMatch::of_type("Generic").matches(&device(0x20a0, 0x4230, None, false)));
    }

    #[test]
    fn a_type_that_is_no_smart_card_does_not_take_smart_cards() {
        let yubi = AutoMatch::of_type("YubiHSM");
        assert!(yubi.matches(&device(0x1050, 0x0030, None, false)));
        assert!(!yubi.matches(&device(0x20a0, 0x4230, None, true)));
    }

    #[test]
    fn zero_is_no_limit() {
        assert_eq!(selection(r#"{"maxDevices":0}"#).limit(), None);
        assert_eq!(selection("{}").limit(), None);
        assert_eq!(selection(r#"{"maxDevices":2}"#).limit(), Some(2));
    }

    #[test]
    fn what_is_written_is_read_again() {
        let text = r#"{"usb":[{"vendor":"20a0","product":"4230","serial":"x"}],"path":{"glob":"/dev/a*","permissions":"0600"},"auto":{"ids":[{"vendor":"1050","product":"0030"}],"ccid":true},"maxDevices":4}"#;
        let selection = selection(text);
        assert_eq!(serde_json::to_string(&selection).unwrap(), text);
    }
}
