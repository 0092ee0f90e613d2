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
