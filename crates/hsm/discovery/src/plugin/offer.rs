//! What is offered: devices as kubelet counts them.

use serde::{Deserialize, Serialize};
use trustplane_api::deviceplugin::{ContainerAllocateResponse, Device, DeviceSpec, HEALTHY, UNHEALTHY};
use trustplane_hsm_core::resource::{device_id, variable_part};
use trustplane_hsm_core::usb::Tracked;

/// One device.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Offer {
    /// Its name for kubelet.
    pub id: String,
    /// Where a container finds it.
    pub path: String,
    /// The device file of the node.
    pub node: String,
    /// Its serial number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub serial: Option<String>,
    /// Whether it can be used now.
    pub healthy: bool,
}

/// Why devices are not given to a container.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum Refusal {
    /// Nobody offers it.
    #[error("there is no device {0}")]
    Unknown(String),
    /// It is not there now.
    #[error("the device {0} is not there now")]
    Unhealthy(String),
}

impl Offer {
    pub(super) fn of(node: &str, tracked: &Tracked) -> Self {
        let found = &tracked.found;
        Self {
            id: device_id(node, &found.device_path, found.serial.as_deref()),
            path: found.device_path.clone(),
            node: found.node.clone(),
            serial: found.serial.clone(),
            healthy: tracked.available,
        }
    }

    /// As kubelet lists it.
    pub(super) fn listed(&self) -> Device {
        let health = if self.healthy { HEALTHY } else { UNHEALTHY };
        Device {
            id: self.id.clone(),
            health: health.to_owned(),
            topology: None,
        }
    }

    /// Whether it is a device file. What other processes say is not taken on trust.
    pub(super) fn is_sound(&self) -> bool {
        let sound = |path: &str| path.starts_with("/dev/") && path.split('/').all(|step| step != "..");
        sound(&self.path) && sound(&self.node) && !self.id.is_empty()
    }
}

/// All devices.
pub(super) fn offers(node: &str, devices: &[Tracked]) -> Vec<Offer> {
    devices.iter().map(|tracked| Offer::of(node, tracked)).collect()
}

/// What a container needs for its devices, on a node that has device files in `dev`.
pub(super) fn allocated(
    offers: &[Offer],
    ids: &[String],
    dev: &str,
) -> Result<ContainerAllocateResponse, Refusal> {
    let mut response = ContainerAllocateResponse::default();
    for id in ids {
        let offer = offers.iter().find(|offer| offer.id == *id);
        let offer = offer.ok_or_else(|| Refusal::Unknown(id.clone()))?;
        if !offer.healthy {
            return Err(Refusal::Unhealthy(id.clone()));
        }
        response.devices.push(DeviceSpec {
            container_path: offer.path.clone(),
            host_path: offer.node.replacen("/dev", dev, 1),
            permissions: "rw".to_owned(),
        });
        let mut part = variable_part(id);
        // Two names that differ only in what no variable may hold.
        while response.envs.contains_key(&format!("HSM_DEVICE_{part}")) {
            part.push('_');
        }
        let serial = offer.serial.clone().unwrap_or_default();
        response
            .envs
            .insert(format!("HSM_DEVICE_{part}"), offer.path.clone());
        response.envs.insert(format!("HSM_SERIAL_{part}"), serial);
    }
    Ok(response)
}

#[cfg(test)]
mod tests {
    use trustplane_hsm_core::examples::tracked;

    use super::*;

    /// The original answers an allocation of a device that it does not know with nothing, and names variables so that no shell
    /// takes them.
    #[test]
    fn w16_an_allocation_gives_the_device_itself_and_names_that_a_shell_takes() {
        let offers = offers(
            "node-1",
            &[tracked(Some("Ab-1"), "/dev/bus/usb/001/015", true, 0)],
        );
        let id = offers[0].id.clone();
        let response = allocated(&offers, std::slice::from_ref(&id), "/dev").unwrap();
        assert_eq!(response.devices.len(), 1);
        let device = &response.devices[0];
        assert_eq!(device.container_path, "/dev/bus/usb/001/015");
        assert_eq!(device.host_path, "/dev/bus/usb/001/015");
        let elsewhere = allocated(&offers, std::slice::from_ref(&id), "/var/lib/usb/dev").unwrap();
        assert_eq!(
            (
                elsewhere.devices[0].host_path.as_str(),
                &elsewhere.devices[0].container_path
            ),
            ("/var/lib/usb/dev/bus/usb/001/015", &device.container_path)
        );
        assert_eq!(device.permissions, "rw");
        assert!(response.mounts.is_empty());
        let part = "NODE_1__DEV_BUS_USB_001_015_AB_1";
        for (name, value) in &response.envs {
            assert!(
                name.bytes()
                    .all(|b| b.is_ascii_uppercase() || b.is_ascii_digit() || b == b'_')
            );
            let wanted = if name.starts_with(&format!("HSM_SERIAL_{part}")) {
                "Ab-1"
            } else {
                "/dev/bus/usb/001/015"
            };
            assert_eq!(value, wanted, "{name}");
        }
        assert_eq!(response.envs.len(), 2);
    }

    #[test]
    fn w16_what_is_unknown_or_gone_is_refused() {
        let offers = offers("n", &[tracked(Some("a"), "/dev/1", false, 0)]);
        let gone = offers[0].id.clone();
        assert_eq!(
            allocated(&offers, std::slice::from_ref(&gone), "/dev"),
            Err(Refusal::Unhealthy(gone))
        );
        let unknown = "n-_dev_2-a".to_owned();
        assert_eq!(
            allocated(&offers, std::slice::from_ref(&unknown), "/dev"),
            Err(Refusal::Unknown(unknown))
        );
    }

    #[test]
    fn two_devices_of_one_container_do_not_share_variables() {
        let devices = [
            tracked(None, "/dev/a.b", true, 0),
            tracked(None, "/dev/a/b", true, 0),
        ];
        let offers = offers("n", &devices);
        let ids: Vec<_> = offers.iter().map(|offer| offer.id.clone()).collect();
        let envs = allocated(&offers, &ids, "/dev").unwrap().envs;
        assert_eq!(envs.len(), 4, "{envs:?}");
    }

    #[test]
    fn only_device_files_are_sound() {
        let offer = |path: &str| Offer {
            id: "x".to_owned(),
            path: path.to_owned(),
            node: "/dev/x".to_owned(),
            serial: None,
            healthy: true,
        };
        assert!(offer("/dev/bus/usb/001/002").is_sound());
        for path in ["/etc/shadow", "/dev/../etc/shadow", "", "dev/x"] {
            assert!(!offer(path).is_sound(), "{path}");
        }
    }
}
