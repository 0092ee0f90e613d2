//! What strings of the kinds have to look like.

/// Labels of DNS, joined by dots.
pub(super) const TRUST_DOMAIN: &str =
    r"^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?(\.[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?)*$";
/// Parts of lower-case letters, digits and hyphens, joined by dots.
pub(super) const CLUSTER_NAME: &str = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$";
/// The name of a ConfigMap.
pub(super) const CONFIG_MAP: &str = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$";
/// The name of a CSI driver.
pub(super) const NAME: &str = r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$";
/// The name of an object, or nothing.
pub(super) const OPTIONAL_NAME: &str = r"^([a-z0-9]([-a-z0-9.]*[a-z0-9])?)?$";
/// The name of a namespace.
pub(super) const LABEL: &str = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$";
/// A URL without query and fragment.
pub(super) const URL: &str = r"^(?i)https?://[^\s?#]+$";
/// A duration as Go writes it.
pub(super) const DURATION: &str = r"^([0-9]+([.][0-9]+)?(ns|us|µs|ms|s|m|h))+$";
/// A duration as Go reads it, except for negative ones.
pub(super) const ANY_DURATION: &str = r"^(0|([0-9]+([.][0-9]*)?(ns|us|µs|μs|ms|s|m|h))+)$";
/// A path from the root.
pub(super) const PATH: &str = r"^/[a-zA-Z0-9._/-]*$";
/// A path from the root, or nothing.
pub(super) const OPTIONAL_PATH: &str = r"^(/[^\x00-\x1f\x7f]*)?$";
/// The rule of CEL that [`NO_STEP_BACK_MESSAGE`] tells.
pub(super) const NO_STEP_BACK: &str = "!self.matches('(^|/)[.][.]?(/|$)')";
/// A path that steps back leads elsewhere than it seems.
pub(super) const NO_STEP_BACK_MESSAGE: &str = "must not hold '.' or '..' as a part";
