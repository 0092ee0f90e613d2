//! Whether an image is of the SPIRE that configuration files are written for.

use trustplane_api::identity::OperandKind;

use super::{AGENT_CONFIG, Defect, OIDC_CONFIG, SERVER_CONFIG};
use crate::Images;
use crate::render::SPIRE_MINOR;

/// The tag of an image, if it has one.
pub(crate) fn tag(image: &str) -> Option<&str> {
    let name = image.split_once('@').map_or(image, |(name, _)| name);
    // A colon before the last slash is that of a port.
    let last = name.rsplit_once('/').map_or(name, |(_, last)| last);
    last.split_once(':').map(|(_, tag)| tag)
}

/// The defect of an image of SPIRE that is of another minor version, as its tag tells. SPIRE refuses keys that it does not know, and moves its
/// database one minor version at a time. An image without a tag, or with one that is no version, is taken at its word.
pub fn version(operand: OperandKind, images: &Images) -> Option<Defect> {
    let (variable, image, condition) = match operand {
        OperandKind::SpireServer => ("RELATED_IMAGE_SPIRE_SERVER", &images.spire_server, SERVER_CONFIG),
        OperandKind::SpireAgent => ("RELATED_IMAGE_SPIRE_AGENT", &images.spire_agent, AGENT_CONFIG),
        OperandKind::SpireOidcDiscoveryProvider => (
            "RELATED_IMAGE_SPIRE_OIDC_DISCOVERY_PROVIDER",
            &images.oidc_discovery_provider,
            OIDC_CONFIG,
        ),
        OperandKind::SpiffeCsiDriver => return None,
    };
    let found = minor(tag(image)?)?;
    if found == SPIRE_MINOR {
        return None;
    }
    let ((major, minor), (our_major, our_minor)) = (found, SPIRE_MINOR);
    let rule = format!(
        "{image} is SPIRE {major}.{minor}, and this version writes configuration for SPIRE {our_major}.{our_minor}: choose an image of that, \
         in the values of the chart or in this variable"
    );
    Some(Defect::new(variable, rule, condition))
}

/// Major and minor version of a tag such as `1.15.3`, `v1.15` or `1.15.3-debug`.
fn minor(tag: &str) -> Option<(u32, u32)> {
    let mut parts = tag.strip_prefix('v').unwrap_or(tag).splitn(3, '.');
    let major = parts.next()?.parse().ok()?;
    let rest = parts.next()?;
    let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
    let minor = rest[..digits].parse().ok()?;
    Some((major, minor))
}
