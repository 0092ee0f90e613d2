//! What a node says, checked. Whoever controls a node controls its reports, so a report can do no more than say untrue things of
//! its own node.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use serde_json::Value;
use trustplane_api::hsm::{DeviceReport, DiscoveryStatus, ReportedDevice};

use super::info;
use crate::usb::access::is_nonsense;
use crate::usb::report::LARGEST;

/// The most tokens of a node, whatever its HSMDevice allows.
pub(crate) const MOST_TOKENS: usize = 64;
/// The most bytes of a serial number. USB has 126 characters.
const LONGEST_SERIAL: usize = 512;
/// The most bytes of a path.
const LONGEST_PATH: usize = 256;
/// The most things that are said of a token besides.
const MOST_INFO: usize = 24;
/// The most bytes of a name among them.
const LONGEST_KEY: usize = 63;
/// The most bytes of any other text.
const LONGEST_TEXT: usize = 256;

/// A report that can be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Checked {
    /// When it was written, as its node says.
    pub time: Option<Timestamp>,
    /// How the search went.
    pub status: DiscoveryStatus,
    /// What went wrong, on the node or with the report.
    pub error: Option<String>,
    /// The tokens, each once, in a fixed order.
    pub tokens: Vec<Reported>,
}

/// A token as its node tells it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Reported {
    pub path: String,
    pub serial: Option<String>,
    pub info: BTreeMap<String, String>,
    pub available: bool,
    pub seen: Option<Timestamp>,
}

/// Checks the report of a pod that runs on `node` for `device`; at most `most` tokens are taken.
pub(crate) fn check(text: &str, device: &str, node: &str, most: usize) -> Result<Checked, String> {
    if text.len() > LARGEST {
        return Err(format!("the report has more than {LARGEST} bytes"));
    }
    let unreadable = |_| "the report cannot be read".to_owned();
    let mut json: Value = serde_json::from_str(text).map_err(unreadable)?;
    strip(&mut json);
    let listed = json
        .as_object_mut()
        .and_then(|json| json.remove("discoveredDevices"));
    let listed = match listed {
        None => Vec::new(),
        Some(Value::Array(listed)) => listed,
        Some(_) => return Err("the report cannot be read".to_owned()),
    };
    let report: DeviceReport = serde_json::from_value(json).map_err(unreadable)?;
    if report.hsm_device_name != device {
        return Err("the report is for another HSMDevice".to_owned());
    }
    if report.reporting_node.as_ref().is_some_and(|named| named != node) {
        return Err("the report is for another node".to_owned());
    }
    let all = listed.len();
    let mut tokens: Vec<Reported> = listed.into_iter().filter_map(|one| token(one, node)).collect();
    let wrong = all - tokens.len();
    // In an order of their own, so that it does not matter how the node sorts them.
    tokens.sort_by(|one, other| order(one).cmp(&order(other)));
    let mut places = BTreeSet::new();
    tokens.retain(|token| places.insert((token.serial.clone(), token.path.clone())));
    let there = tokens.iter().filter(|token| token.available).count();
    let too_many = there.saturating_sub(most);
    tokens.truncate(most);
    let error = report
        .error
        .filter(|error| !error.is_empty())
        .map(|error| bounded(&error, LONGEST_TEXT));
    let error = error
        .or((wrong > 0).then(|| format!("{wrong} of the tokens in the report make no sense")))
        .or((too_many > 0).then(|| format!("{too_many} tokens are too many")));
    Ok(Checked {
        time: report.last_report_time,
        status: report.discovery_status,
        error,
        tokens,
    })
}

/// Those that are there first, so that they are kept.
fn order(token: &Reported) -> (bool, Option<&str>, &str, Option<Timestamp>) {
    (!token.available, token.serial.as_deref(), &token.path, token.seen)
}

fn token(json: Value, node: &str) -> Option<Reported> {
    let reported: ReportedDevice = serde_json::from_value(json).ok()?;
    let ReportedDevice {
        device_path,
        serial_number,
        ..
    } = reported;
    let serial = serial_number.filter(|serial| !serial.is_empty());
    let clean = |text: &str, most: usize| text.len() <= most && !text.chars().any(char::is_control);
    let path_ok = device_path.starts_with('/') && clean(&device_path, LONGEST_PATH);
    let serial_ok = serial.as_ref().is_none_or(|serial| clean(serial, LONGEST_SERIAL));
    let node_ok = reported.node_name.is_none_or(|named| named == node);
    (path_ok && serial_ok && node_ok).then(|| Reported {
        path: device_path,
        serial,
        info: details(reported.device_info),
        available: reported.available.unwrap_or(true),
        seen: reported.last_seen,
    })
}

/// What else a node says of a token. It cannot say what we say.
fn details(given: BTreeMap<String, String>) -> BTreeMap<String, String> {
    let is_ours = |key: &str, value: &str| {
        info::OURS.contains(&key) || (key == info::DISCOVERY_TYPE && value == info::STATIC)
    };
    let is_out = |key: &str, value: &str| is_ours(key, value) || is_nonsense(key, value);
    given
        .into_iter()
        .filter(|(key, value)| !key.is_empty() && key.len() <= LONGEST_KEY && !is_out(key, value))
        .take(MOST_INFO)
        .map(|(key, value)| (bounded(&key, LONGEST_KEY), bounded(&value, LONGEST_TEXT)))
        .collect()
}

/// Something that is null was not said. The original writes an empty list so.
fn strip(json: &mut Value) {
    if let Value::Object(map) = json {
        map.retain(|_, value| !value.is_null());
        if let Some(Value::Array(list)) = map.get_mut("discoveredDevices") {
            list.iter_mut().for_each(strip);
        }
    }
}

/// The beginning of a text, in one line: at most so many bytes, for bytes are what an object has room for.
pub(crate) fn bounded(text: &str, most: usize) -> String {
    let line = |c: char| if c.is_control() { ' ' } else { c };
    let kept = &text[..text.floor_char_boundary(most)];
    kept.chars().map(line).collect()
}
