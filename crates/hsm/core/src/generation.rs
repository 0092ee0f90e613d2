//! The generation of a token: one small object that is new after each change of ours. Who has seen it knows without reading
//! anything else whether we have changed something since. It also keeps the highest epoch of a writer, which must outlive
//! every secret.
//!
//! | bytes | |
//! |---|---|
//! | 3 | `TPG` |
//! | 1 | format: 1 |
//! | 8 | counter, big-endian |
//! | 8 | highest epoch, big-endian |
//! | 4 | the first bytes of a SHA-256 over all before |

use crate::checksum::Framed;
use crate::label::Label;
use crate::object::{Found, NewObject};
use crate::secret::Value;
use crate::version::HIGHEST;

const MAGIC: [u8; 4] = *b"TPG\x01";
const LENGTH: usize = 24;

/// How often we have changed a token, and the highest epoch of those who did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Generation {
    /// Counts the changes.
    pub counter: u64,
    /// The highest epoch.
    pub epoch: u64,
}

impl Generation {
    /// The object that says so.
    pub fn object(self) -> NewObject {
        let mut bytes = MAGIC.to_vec();
        bytes.extend(self.counter.to_be_bytes());
        bytes.extend(self.epoch.to_be_bytes());
        bytes.extend(seal(&bytes));
        NewObject {
            label: Label::of_generation(),
            value: Value::new(bytes),
        }
    }

    /// Reads an object with that label; nothing if it is damaged, or not ours.
    pub fn of<H>(object: &Found<H>) -> Option<Self> {
        let bytes: &[u8; LENGTH] = object.value.as_ref()?.expose().try_into().ok()?;
        let (body, sealed) = bytes.split_at(LENGTH - 4);
        let numbers = body.strip_prefix(&MAGIC)?;
        let (counter, epoch) = numbers.split_at_checked(8)?;
        let number = |bytes: &[u8]| bytes.try_into().ok().map(u64::from_be_bytes);
        let generation = Self {
            counter: number(counter)?,
            epoch: number(epoch)?,
        };
        // A counter that has reached the end could not count on.
        let sound = seal(body) == sealed && generation.counter < HIGHEST && generation.epoch <= HIGHEST;
        sound.then_some(generation)
    }
}

/// Tells what is whole from what is cut or mixed up.
pub(crate) fn seal(body: &[u8]) -> [u8; 4] {
    let mut digest = Framed::new("seal");
    digest.add(body);
    digest.short()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(bytes: &[u8]) -> Option<Generation> {
        Generation::of(&Found {
            handle: (),
            label: Label::of_generation(),
            value: Some(Value::new(bytes)),
        })
    }

    #[test]
    fn the_bytes_are_as_documented() {
        let object = Generation {
            counter: 258,
            epoch: 3,
        }
        .object();
        let bytes = object.value.expose();
        assert_eq!(bytes[..20], *b"TPG\x01\0\0\0\0\0\0\x01\x02\0\0\0\0\0\0\0\x03");
        assert_eq!(bytes.len(), 24);
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_again_and_nothing_else(
            counter in 0..HIGHEST, epoch in 0..=HIGHEST, at in 0_usize..24, flip in 1..=255_u8,
        ) {
            let generation = Generation { counter, epoch };
            let object = generation.object();
            let bytes = object.value.expose();
            prop_assert_eq!(read(bytes), Some(generation));
            let mut damaged = bytes.to_vec();
            damaged[at] ^= flip;
            prop_assert_eq!(read(&damaged), None);
            prop_assert_eq!(read(&bytes[..at]), None);
            prop_assert_eq!(read(&[bytes, &[flip]].concat()), None);
        }
    }
}
