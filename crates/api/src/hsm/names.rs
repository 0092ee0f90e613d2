//! Labels and annotations that the parts of the capability know each other by.

/// What a discovery pod has found.
pub const REPORT_ANNOTATION: &str = "hsm.j5t.io/device-report";
/// The HSMDevice that an object is for.
pub const DEVICE_LABEL: &str = "hsm.j5t.io/device";
/// The serial number of the token that an object is for, as far as it can be a label.
pub const SERIAL_LABEL: &str = "hsm.j5t.io/serial-number";
/// The device file of the token that an object is for, as far as it can be a label.
pub const PATH_LABEL: &str = "hsm.j5t.io/device-path";
/// Asks for a DaemonSet that needs nothing of the node.
pub const TEST_MODE_ANNOTATION: &str = "hsm.j5t.io/test-mode";
/// The namespaces whose HSMDevices may have a PIN out of the Secret that bears it, separated by commas.
pub const PIN_FOR_ANNOTATION: &str = "trustplane.io/pin-for";
/// What the original calls itself in labels.
pub const OPERATOR: &str = "hsm-secrets-operator";
/// What the original calls its Secrets by, with [`OPERATOR`] as the value.
pub const DELIVERED_LABEL: &str = "managed-by";
/// The path on the tokens that a Secret is from, as far as it can be a label.
pub const LOCATION_LABEL: &str = "hsm-path";
/// When a Secret was last written.
pub const SYNCED_AT_ANNOTATION: &str = "hsm.j5t.io/synced-at";
/// Keeps an HSMSecret until its Secret is deleted.
pub const SECRET_FINALIZER: &str = "hsmsecret.hsm.j5t.io/finalizer";
/// The ConfigMap of the installation that says which namespace has which locations on the tokens.
pub const LOCATIONS: &str = "trustplane-hsm-locations";
