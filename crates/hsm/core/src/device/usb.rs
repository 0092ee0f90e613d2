//! USB devices by their numbers, as an object or as a list of them.

use serde_json::{Map, Value};

use super::{Reader, shown};
use crate::usb::{UsbId, UsbMatch};

/// The most selectors of an HSMDevice.
const MOST: usize = 64;

impl Reader<'_> {
    /// Both shapes, a list with at least so many selectors. The schema cannot say them, so nothing of it can be trusted.
    pub(super) fn usb(&mut self, usb: &Value, least: usize) -> Vec<UsbMatch> {
        let field = "spec.discovery.usb";
        let selectors: Vec<(String, &Value)> = match usb {
            Value::Object(_) => {
                self.warnings
                    .push("spec.discovery.usb as an object is deprecated: use a list".to_owned());
                vec![(field.to_owned(), usb)]
            }
            Value::Array(list) if (least..=MOST).contains(&list.len()) => {
                let named = |(n, item)| (format!("{field}[{n}]"), item);
                list.iter().enumerate().map(named).collect()
            }
            _ => {
                let rule = "must be an object with vendorId and productId, or a list of 1 to 64 of them";
                self.faults.add(field, rule);
                Vec::new()
            }
        };
        selectors
            .into_iter()
            .filter_map(|(field, selector)| self.selector(&field, selector))
            .collect()
    }

    fn selector(&mut self, field: &str, selector: &Value) -> Option<UsbMatch> {
        let Value::Object(selector) = selector else {
            self.faults
                .add(field, "must be an object with vendorId and productId");
            return None;
        };
        for key in selector.keys() {
            if !["vendorId", "productId", "serialNumber"].contains(&key.as_str()) {
                self.faults
                    .add(&format!("{field}.{}", shown(key)), "no such field");
            }
        }
        let vendor = self.number(field, "vendorId", selector);
        let product = self.number(field, "productId", selector);
        let serial = match selector.get("serialNumber") {
            None => None,
            Some(Value::String(serial)) if serial.is_empty() => None,
            Some(Value::String(serial)) if serial.chars().count() <= 128 => Some(serial.clone()),
            Some(_) => {
                let rule = "must be a text of at most 128 characters";
                self.faults.add(&format!("{field}.serialNumber"), rule);
                None
            }
        };
        Some(UsbMatch {
            vendor: vendor?,
            product: product?,
            serial,
        })
    }

    fn number(&mut self, field: &str, name: &str, selector: &Map<String, Value>) -> Option<UsbId> {
        let text = selector.get(name).and_then(Value::as_str);
        // Without `0x`, which the policy does not take either.
        let digits = text
            .filter(|text| text.len() == 4)
            .and_then(|text| text.parse().ok());
        if digits.is_none() {
            self.faults
                .add(&format!("{field}.{name}"), "must be four hexadecimal digits");
        }
        digits
    }
}
