//! Which tokens there are, and how they are used.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::MirroringSpec;

/// The names of objects.
const NAME: &str = r"^[a-z0-9]([-.a-z0-9]*[a-z0-9])?$";
/// The names of namespaces and of what becomes part of another name.
const LABEL: &str = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$";
/// A path from the root, without steps back.
const ABSOLUTE: &str = r"^/[^\x00-\x1f\x7f]*$";

/// Tokens of one kind: where to look for them, and how to open them. It has no status; its HSMPool has.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(
    feature = "crd",
    derive(kube::CustomResource),
    kube(
        group = "hsm.j5t.io",
        version = "v1alpha1",
        kind = "HSMDevice",
        root = "HsmDevice",
        plural = "hsmdevices",
        shortname = "hsmdev",
        category = "trustplane",
        namespaced,
        printcolumn = r#"{"name":"Type","type":"string","jsonPath":".spec.deviceType"}"#,
        printcolumn = r#"{"name":"Discovery","type":"string","jsonPath":".spec.discovery.autoDiscovery"}"#,
        printcolumn = r#"{"name":"Max Devices","type":"integer","jsonPath":".spec.maxDevices"}"#,
        printcolumn = r#"{"name":"Age","type":"date","jsonPath":".metadata.creationTimestamp"}"#
    )
)]
#[serde(rename_all = "camelCase")]
pub struct HsmDeviceSpec {
    /// What kind of token it is, such as PicoHSM, SmartCard-HSM or Generic.
    #[schemars(length(min = 1, max = 63))]
    pub device_type: String,
    /// How tokens are found. Without it: all that look like one of this type.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub discovery: Option<Discovery>,
    /// The nodes to look at.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 32))]
    pub node_selector: BTreeMap<String, String>,
    /// How tokens are opened.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pkcs11: Option<Pkcs11>,
    /// Deprecated: use pkcs11.libraryPath.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 1024), regex(pattern = ABSOLUTE))]
    pub pkcs11_library_path: Option<String>,
    /// How many tokens of a node are used; 0 or less is no limit.
    #[serde(default = "ten")]
    pub max_devices: i32,
    /// How secrets are mirrored between tokens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mirroring: Option<MirroringSpec>,
    /// The namespaces that may have what lies at some locations on the tokens. A location that no HSMDevice lists belongs to the
    /// namespace that claims it first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = 256),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["path"])
    )]
    pub places: Vec<TokenPlace>,
}

/// Namespaces that may have what lies at a location on the tokens.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TokenPlace {
    /// A path on the tokens; with `/**` at its end everything below it.
    #[schemars(
        length(min = 1, max = 256),
        regex(pattern = r"^[A-Za-z0-9/_.-]+(/[*][*])?$"),
        extend("x-kubernetes-validations" = [{
            "rule": "!self.startsWith('/') && !self.endsWith('/') && !self.contains('//')",
            "message": "must not begin or end with '/' or hold '//'",
        }])
    )]
    pub path: String,
    /// The namespaces.
    #[schemars(
        length(min = 1, max = 64),
        inner(length(min = 1, max = 63), regex(pattern = LABEL)),
        extend("x-kubernetes-list-type" = "set")
    )]
    pub namespaces: Vec<String>,
}

fn ten() -> i32 {
    10
}

/// How tokens are found: by what the bus says, or by what is said here.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("x-kubernetes-validations" = [{
    "rule": "!has(self.static) || (!has(self.devicePath) && !(has(self.autoDiscovery) && self.autoDiscovery))",
    "message": "static cannot be combined with devicePath or autoDiscovery",
}]))]
pub struct Discovery {
    /// USB devices by their numbers: one such object, or a list of which any may match. Each has vendorId and productId,
    /// hexadecimal, and perhaps serialNumber.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "anything")]
    pub usb: Option<Value>,
    /// Device files by their path.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub device_path: Option<DevicePath>,
    /// Every device that is known to be of this type, or that calls itself a smart card. An HSMDevice that says nothing at all of
    /// discovery looks for these, too.
    pub auto_discovery: bool,
    /// Tokens that no bus shows, such as those of SoftHSM or of a network HSM.
    #[serde(rename = "static", skip_serializing_if = "Option::is_none")]
    #[schemars(
        length(min = 1, max = 64),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"])
    )]
    pub fixed: Option<Vec<FixedToken>>,
}

/// A schema of Kubernetes cannot say "an object or a list of objects": the policy that comes with the kind does.
fn anything(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    schemars::json_schema!({ "x-kubernetes-preserve-unknown-fields": true })
}

/// USB devices by their numbers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct UsbSelector {
    /// The number of the vendor: four hexadecimal digits.
    pub vendor_id: String,
    /// The number of the product: four hexadecimal digits.
    pub product_id: String,
    /// The serial number, exactly.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub serial_number: Option<String>,
}

/// Device files by their path.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DevicePath {
    /// A path below /dev, in which `*` and `?` stand for other characters.
    #[schemars(
        length(min = 1, max = 256),
        regex(pattern = r"^/dev/[^\x00-\x1f\x7f]+$"),
        extend("x-kubernetes-validations" = [{
            "rule": "!self.matches('(^|/)[.][.]?(/|$)')",
            "message": "must not hold '.' or '..' as a part",
        }])
    )]
    pub path: String,
    /// The mode that the files have, for people to read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 16), regex(pattern = r"^0?[0-7]{3}$"))]
    pub permissions: Option<String>,
}

/// A token that no bus shows.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [{
    "rule": "has(self.tokenLabel) || has(self.tokenSerial)",
    "message": "must have tokenLabel or tokenSerial: a token is never chosen by its slot",
}]))]
pub struct FixedToken {
    /// What we call it; its agent is named after it.
    #[schemars(length(min = 1, max = 32), regex(pattern = LABEL))]
    pub name: String,
    /// The node that its agent runs on; any that nodeSelector allows if it is absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253), regex(pattern = NAME))]
    pub node_name: Option<String>,
    /// Its label.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 32))]
    pub token_label: Option<String>,
    /// Its serial number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 64))]
    pub token_serial: Option<String>,
    /// The PKCS#11 module, if it is another one than pkcs11.libraryPath.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 1024), regex(pattern = ABSOLUTE))]
    pub library_path: Option<String>,
    /// What the module finds in its environment.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = 32),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"])
    )]
    pub environment: Vec<Variable>,
    /// Directories of the node that the module needs. The admin has to allow them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = 8),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["path"])
    )]
    pub host_directories: Vec<HostDirectory>,
}

/// A variable of the module's environment.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Variable {
    /// Its name.
    #[schemars(
        length(min = 1, max = 128),
        regex(pattern = r"^[A-Za-z_][A-Za-z0-9_]*$"),
        extend("x-kubernetes-validations" = [{
            "rule": "!self.startsWith('LD_') && !self.startsWith('GLIBC_') && self != 'PATH'",
            "message": "must not change how programs are loaded",
        }])
    )]
    pub name: String,
    /// Its value. It is no place for a PIN: everybody who sees the pod sees it.
    #[schemars(length(max = 4096))]
    pub value: String,
}

/// A directory of the node.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HostDirectory {
    /// Its path, on the node and in the agent.
    #[schemars(
        length(min = 2, max = 1024),
        regex(pattern = ABSOLUTE),
        extend("x-kubernetes-validations" = [{
            "rule": "!self.matches('(^|/)[.][.]?(/|$)')",
            "message": "must not hold '.' or '..' as a part",
        }])
    )]
    pub path: String,
    /// Whether it is only read.
    #[serde(default)]
    pub read_only: bool,
}

/// How tokens are opened.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Pkcs11 {
    /// The PKCS#11 module, as a path in the image of the agent.
    #[schemars(length(max = 1024), regex(pattern = ABSOLUTE))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub library_path: Option<String>,
    /// Taken and not used: a slot is a position, and positions change. A token is chosen by what it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub slot_id: Option<i32>,
    /// Where the PIN is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pin_secret: Option<PinSecret>,
    /// The label of the token.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 32))]
    pub token_label: Option<String>,
    /// Whether a token that has no PIN yet is set up with the one of pinSecret.
    pub auto_provision: bool,
    /// Whether nobody else writes to the tokens: then they are not read anew in each interval.
    pub exclusive: bool,
    /// What the tokens can take: software, opensc, opensc-64, pico-hsm, smartcard-hsm or yubihsm2. Without it deviceType and the
    /// name of the module tell.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(
        length(max = 32),
        extend("x-kubernetes-validations" = [{
            "rule": "self in ['software', 'opensc', 'opensc-64', 'pico-hsm', 'smartcard-hsm', 'yubihsm2']",
            "message": "must be software, opensc, opensc-64, pico-hsm, smartcard-hsm or yubihsm2",
        }])
    )]
    pub limits: Option<String>,
    /// How often the tokens are read through for what other tools have written, in seconds; at least 5, and 30 without it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 5, max = 31536000))]
    pub pass_interval: Option<i32>,
    /// What the module finds in its environment, whichever token it is for.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = 32),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"])
    )]
    pub environment: Vec<Variable>,
    /// Directories of the node that the module needs, whichever token it is for. The admin has to allow them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = 8),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["path"])
    )]
    pub host_directories: Vec<HostDirectory>,
}

/// A PIN in a Secret.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PinSecret {
    /// The Secret.
    #[schemars(length(min = 1, max = 253), regex(pattern = NAME))]
    pub name: String,
    /// The key in it.
    #[schemars(length(min = 1, max = 253), regex(pattern = r"^[-._a-zA-Z0-9]+$"))]
    pub key: String,
    /// Its namespace, if it is another one; it has to be one that we serve.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 63), regex(pattern = LABEL))]
    pub namespace: Option<String>,
}
