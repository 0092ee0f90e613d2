//! An HSMDevice as it is meant: all generations of manifests in one form, checked.

mod fixed;
mod usb;

use std::collections::BTreeMap;
use std::fmt;

use strum::IntoEnumIterator;
use trustplane_api::hsm::{Discovery, HostDirectory, HsmDeviceSpec, MirroringSpec, PinSecret, Pkcs11};

use crate::limits::Profile;
use crate::objects::label_value;
use crate::rules::{Rules, parts};
use crate::usb::{AutoMatch, PathMatch, Pattern, Selection};

pub use fixed::Fixed;

/// What is said of an HSMDevice that finds no token. The API server warns in the same words.
const NOTHING: &str = "spec.discovery names nothing to look for, so no token is found: set usb, devicePath, static or autoDiscovery";

/// An HSMDevice that can be served.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Device {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// What kind of token it is, as people have written it: the resource of the type is named after it.
    pub device_type: String,
    /// How its tokens are found.
    pub search: Search,
    /// The nodes to look at.
    pub node_selector: BTreeMap<String, String>,
    /// How its tokens are opened, if that is said.
    pub opening: Option<Opening>,
    /// How many tokens of a node are used.
    pub max_devices: Option<usize>,
    /// What is said in a way that is no longer wanted, or is not enough.
    pub warnings: Vec<String>,
}

/// How tokens are found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Search {
    /// On the nodes, by discovery pods.
    Nodes(Selection),
    /// They are named.
    Fixed(Vec<Fixed>),
}

/// How tokens are opened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Opening {
    /// The PKCS#11 module; static tokens may have their own.
    pub library: Option<String>,
    /// The slot that the token has to be in.
    pub slot: Option<i32>,
    /// The label of the token.
    pub token_label: Option<String>,
    /// Where the PIN is.
    pub pin: PinRef,
    /// Whether a blank token is set up.
    pub auto_provision: bool,
    /// Whether nobody else writes to the tokens.
    pub exclusive: bool,
    /// What the tokens can take, if that is said.
    pub limits: Option<Profile>,
    /// How often the tokens are read through, in seconds, if that is said.
    pub pass_interval: Option<i32>,
    /// What the module finds in its environment; static tokens may add to it.
    pub environment: BTreeMap<String, String>,
    /// Directories of the node that the module needs; static tokens may add to them.
    pub host_directories: Vec<HostDirectory>,
}

/// A key of a Secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PinRef {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// The key.
    pub key: String,
}

/// What is wrong with an HSMDevice: each fault names the field and the rule.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Faults {
    texts: Vec<String>,
}

impl Faults {
    /// Of one that says what this version does not understand: the whole of it is one fault.
    pub fn unreadable() -> Self {
        let mut faults = Self::default();
        faults.add("spec", "cannot be read by this version");
        faults
    }

    /// The faults, one line each.
    pub fn texts(&self) -> &[String] {
        &self.texts
    }

    fn add(&mut self, field: &str, rule: impl fmt::Display) {
        self.texts.push(format!("{field}: {rule}"));
    }
}

impl fmt::Display for Faults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.texts.join("; "))
    }
}

impl std::error::Error for Faults {}

/// Reads an HSMDevice of any generation. The API server has checked most of it; but policies can be removed, and objects may be
/// older than rules. Nobody sees one of a namespace that is not served.
pub fn read(namespace: &str, name: &str, spec: &HsmDeviceSpec, rules: &Rules) -> Result<Device, Faults> {
    let mut reader = Reader {
        namespace,
        rules,
        faults: Faults::default(),
        warnings: Vec::new(),
    };
    let device_type = reader.device_type(&spec.device_type);
    let library = reader.library(spec);
    let search = reader.search(spec, &device_type, library.as_deref());
    reader.node_selector(&spec.node_selector);
    reader.mirroring(spec.mirroring.as_ref());
    let opening = reader.opening(spec, library, &search);
    if !reader.faults.texts.is_empty() {
        return Err(reader.faults);
    }
    Ok(Device {
        namespace: namespace.to_owned(),
        name: name.to_owned(),
        device_type,
        search,
        node_selector: spec.node_selector.clone(),
        opening,
        max_devices: usize::try_from(spec.max_devices).ok().filter(|max| *max > 0),
        warnings: reader.warnings,
    })
}

struct Reader<'a> {
    namespace: &'a str,
    rules: &'a Rules,
    faults: Faults,
    warnings: Vec<String>,
}

impl Reader<'_> {
    fn device_type(&mut self, text: &str) -> String {
        let text = text.trim();
        if text.is_empty() || text.len() > 63 || text.chars().any(char::is_control) {
            self.faults.add("spec.deviceType", "must have 1 to 63 characters");
        }
        text.to_owned()
    }

    fn library(&mut self, spec: &HsmDeviceSpec) -> Option<String> {
        if spec.pkcs11_library_path.is_some() {
            self.warnings
                .push("spec.pkcs11LibraryPath is deprecated: use spec.pkcs11.libraryPath".to_owned());
        }
        let new = spec
            .pkcs11
            .as_ref()
            .and_then(|pkcs11| pkcs11.library_path.as_deref());
        let old = spec.pkcs11_library_path.as_deref();
        let (field, path) = match (
            new.filter(|path| !path.is_empty()),
            old.filter(|path| !path.is_empty()),
        ) {
            (Some(path), _) => ("spec.pkcs11.libraryPath", path),
            (None, Some(path)) => ("spec.pkcs11LibraryPath", path),
            (None, None) => return self.rules.library.clone(),
        };
        self.path(field, path);
        Some(path.to_owned())
    }

    fn path(&mut self, field: &str, path: &str) {
        if path.len() > 1024 || parts(path).is_none_or(|parts| parts.is_empty()) {
            self.faults
                .add(field, "must be a path from the root without '.' and '..'");
        }
    }

    fn search(&mut self, spec: &HsmDeviceSpec, device_type: &str, library: Option<&str>) -> Search {
        // Only one that says nothing at all of discovery looks for its type: whoever says `autoDiscovery: false` means it.
        let Some(discovery) = &spec.discovery else {
            let auto = Discovery {
                auto_discovery: true,
                ..Discovery::default()
            };
            return Search::Nodes(self.selection(&auto, spec, device_type));
        };
        let Some(tokens) = &discovery.fixed else {
            return Search::Nodes(self.selection(discovery, spec, device_type));
        };
        for (given, other) in [
            (discovery.usb.is_some(), "usb"),
            (discovery.device_path.is_some(), "devicePath"),
            (discovery.auto_discovery, "autoDiscovery"),
        ] {
            if given {
                let rule = format!("static cannot be combined with {other}");
                self.faults.add("spec.discovery", rule);
            }
        }
        Search::Fixed(self.fixed(tokens, library))
    }

    fn selection(&mut self, discovery: &Discovery, spec: &HsmDeviceSpec, device_type: &str) -> Selection {
        // Beside another way to find tokens a list may be empty, as it may in the original.
        let least = usize::from(!discovery.auto_discovery && discovery.device_path.is_none());
        let usb = discovery.usb.as_ref().map(|usb| self.usb(usb, least));
        let usb = usb.unwrap_or_default();
        let path = discovery.device_path.as_ref().map(|path| {
            if let Err(rule) = Pattern::parse(&path.path) {
                self.faults.add("spec.discovery.devicePath.path", rule);
            }
            PathMatch {
                glob: path.path.clone(),
                permissions: path.permissions.clone(),
            }
        });
        let auto = discovery.auto_discovery;
        let selection = Selection {
            usb,
            path,
            auto: auto.then(|| AutoMatch::of_type(device_type)),
            max_devices: u32::try_from(spec.max_devices).ok().filter(|max| *max > 0),
        };
        if selection.is_empty() && discovery.usb.is_none() {
            self.warnings.push(NOTHING.to_owned());
        }
        selection
    }

    fn node_selector(&mut self, selector: &BTreeMap<String, String>) {
        for (key, value) in selector {
            let (prefix, name) = match key.split_once('/') {
                Some((prefix, name)) => (Some(prefix), name),
                None => (None, key.as_str()),
            };
            let key_ok = prefix.is_none_or(is_name) && !name.is_empty() && is_label(name);
            if !key_ok || !is_label(value) {
                let rule = format!("{:?} must be the key and the value of a label", shown(key));
                self.faults.add("spec.nodeSelector", rule);
            }
        }
    }

    fn mirroring(&mut self, mirroring: Option<&MirroringSpec>) {
        if mirroring.is_some_and(|m| m.enabled.is_some() || m.primary_role.is_some()) {
            let text = "spec.mirroring.enabled and primaryRole are deprecated: use policy and primaryNode";
            self.warnings.push(text.to_owned());
        }
    }

    fn opening(&mut self, spec: &HsmDeviceSpec, library: Option<String>, search: &Search) -> Option<Opening> {
        let none = Pkcs11::default();
        let pkcs11 = spec.pkcs11.as_ref().unwrap_or(&none);
        let pin = pkcs11.pin_secret.as_ref().map(|pin| self.pin(pin));
        let environment = self.environment("spec.pkcs11", &pkcs11.environment);
        let host_directories = self.directories("spec.pkcs11", &pkcs11.host_directories);
        if library.is_none() && matches!(search, Search::Nodes(_)) {
            self.warnings
                .push("spec.pkcs11.libraryPath is absent, so no agent is made".to_owned());
            return None;
        }
        let Some(pin) = pin else {
            self.warnings
                .push("spec.pkcs11.pinSecret is absent, so no agent is made".to_owned());
            return None;
        };
        Some(Opening {
            library,
            slot: pkcs11.slot_id,
            token_label: pkcs11.token_label.clone().filter(|label| !label.is_empty()),
            pin,
            auto_provision: pkcs11.auto_provision,
            exclusive: pkcs11.exclusive,
            limits: self.limits(pkcs11.limits.as_deref()),
            pass_interval: self.pass_interval(pkcs11.pass_interval),
            environment,
            host_directories,
        })
    }

    fn limits(&mut self, name: Option<&str>) -> Option<Profile> {
        let limits = name?.parse().ok();
        if limits.is_none() {
            let all: Vec<&str> = Profile::iter().map(Into::into).collect();
            let rule = format!("must be one of {}", all.join(", "));
            self.faults.add("spec.pkcs11.limits", rule);
        }
        limits
    }

    fn pass_interval(&mut self, seconds: Option<i32>) -> Option<i32> {
        if seconds.is_some_and(|seconds| seconds < 5) {
            self.faults
                .add("spec.pkcs11.passInterval", "must be at least 5 seconds");
        }
        seconds
    }

    fn pin(&mut self, pin: &PinSecret) -> PinRef {
        let namespace = pin.namespace.as_deref().unwrap_or(self.namespace);
        if !self.rules.serves(namespace) {
            let rule = format!("{namespace:?} is no namespace that is served");
            self.faults.add("spec.pkcs11.pinSecret.namespace", rule);
        }
        if !is_name(&pin.name) {
            let rule = "must be the name of a Secret";
            self.faults.add("spec.pkcs11.pinSecret.name", rule);
        }
        let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
        if pin.key.is_empty() || pin.key.len() > 253 || !pin.key.chars().all(allowed) {
            let rule = "must be a key of a Secret";
            self.faults.add("spec.pkcs11.pinSecret.key", rule);
        }
        PinRef {
            namespace: namespace.to_owned(),
            name: pin.name.clone(),
            key: pin.key.clone(),
        }
    }
}

/// What the API server takes as the name of an object.
fn is_name(text: &str) -> bool {
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    let part = |part: &str| {
        part.starts_with(plain) && part.ends_with(plain) && part.chars().all(|c| plain(c) || c == '-')
    };
    text.len() <= 253 && text.split('.').all(part)
}

/// What the API server takes as the value of a label.
fn is_label(text: &str) -> bool {
    text.len() <= 63 && label_value(text) == text
}

/// The beginning of a text that somebody else has written.
fn shown(text: &str) -> String {
    text.chars().take(64).collect()
}

#[cfg(test)]
mod tests;
