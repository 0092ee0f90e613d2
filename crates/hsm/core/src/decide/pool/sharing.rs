//! What is wrong between the HSMDevices of a pool and others: a token that has another name, a PIN that is not shared.

use trustplane_api::hsm::names::PIN_FOR_ANNOTATION;

use super::Round;
use crate::consent::{self, Consent};
use crate::pool::{PoolDevice, bounded};

impl Round<'_> {
    /// Tokens that have another name already.
    pub(super) fn doubles(&self) -> Vec<(&PoolDevice, String)> {
        let doubles = self.picture.doubles.iter().filter_map(|double| {
            let text = format!(
                "{:?} is the same token as {:?} of the HSMDevice {}, which comes first and has it",
                bounded(&double.token, 64),
                bounded(&double.same_as, 64),
                double.holder
            );
            Some((self.device(&double.device)?, text))
        });
        doubles.collect()
    }

    /// HSMDevices whose PIN is in a Secret of another namespace that does not consent.
    pub(super) fn unshared(&self) -> Vec<(&PoolDevice, String)> {
        let denied = |device: &PoolDevice| {
            let name = device.device.meta.object.name();
            self.input.consents.get(name) == Some(&Consent::Denied)
        };
        let unshared = self.input.devices.iter().filter_map(|device| {
            let secret = consent::asked(&device.device).filter(|_| denied(device))?;
            let namespace = device.device.meta.object.namespace()?;
            let text = format!(
                "the Secret {secret} is not there, or its annotation {PIN_FOR_ANNOTATION} does not name {namespace}, so its PIN \
                 is not read"
            );
            Some((device, text))
        });
        unshared.collect()
    }
}
