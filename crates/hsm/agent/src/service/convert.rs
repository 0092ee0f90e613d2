//! Messages as the core has them, and back. What passes here has one place on a token.

use jiff::{SignedDuration, Timestamp};
use tokio::time::Instant;
use trustplane_api::hsm::v1::{
    Capacity as CapacityMessage, Expectation, Generation as GenerationMessage, HsmInfo, ReadSecretResponse,
    SecretData, SecretEntry, SecretMetadata, expectation::Found,
};
use trustplane_hsm_core::checksum::{DataDigest, checksum};
use trustplane_hsm_core::generation::Generation;
use trustplane_hsm_core::limits::check_secret;
use trustplane_hsm_core::metadata::Metadata;
use trustplane_hsm_core::path::{KeyName, SecretPath};
use trustplane_hsm_core::secret::{Data, Secret, Value};
use trustplane_hsm_core::version::{Expected, HIGHEST, Stamp, VERSION};
use trustplane_hsm_token::{Capacity, TokenInfo};

use crate::error::AgentError;
use crate::meters::free_bytes;
use crate::wire::Entry;

/// The most bytes of all texts in the metadata of a secret. They are one object on the token.
const MOST_METADATA: usize = 64 * 1024;

fn invalid(error: impl ToString) -> AgentError {
    AgentError::InvalidArgument(error.to_string())
}

pub(super) fn path(text: &str) -> Result<SecretPath, AgentError> {
    SecretPath::parse(text).map_err(invalid)
}

pub(super) fn key(text: &str) -> Result<KeyName, AgentError> {
    KeyName::parse(text).map_err(invalid)
}

/// Keys and values. Values are moved, so that they are wiped where they go to.
pub(super) fn data(message: Option<SecretData>) -> Result<Data, AgentError> {
    let pairs = message.unwrap_or_default().data.into_iter();
    let pairs: Vec<_> = pairs.map(|(name, value)| (name, Value::new(value))).collect();
    let data = pairs
        .into_iter()
        .map(|(name, value)| Ok((key(&name)?, value)))
        .collect::<Result<Data, AgentError>>()?;
    check_secret(&data).map_err(invalid)?;
    Ok(data)
}

/// What is known about a secret, and whether it says which version it is.
pub(super) fn metadata(message: Option<SecretMetadata>) -> Result<(Metadata, bool), AgentError> {
    let message = message.unwrap_or_default();
    let texts = [
        &message.description,
        &message.format,
        &message.data_type,
        &message.created_at,
        &message.source,
    ];
    let labels = message.labels.iter().flat_map(|(label, text)| [label, text]);
    let bytes: usize = texts.into_iter().chain(labels).map(String::len).sum();
    if bytes > MOST_METADATA {
        return Err(invalid(format!(
            "the metadata has {bytes} bytes; it may have {MOST_METADATA}"
        )));
    }
    let mut labels = message.labels;
    let versioned = labels.contains_key(VERSION);
    let metadata = Metadata {
        stamp: Stamp::take(&mut labels).map_err(invalid)?,
        labels,
        description: message.description,
        format: message.format,
        data_type: message.data_type,
        created_at: message.created_at,
        source: message.source,
    };
    Ok((metadata, versioned))
}

/// The message that says so, with the labels `sync.*` among the others as the original has them.
pub(super) fn metadata_message(metadata: &Metadata) -> SecretMetadata {
    let own = metadata.labels.clone().into_iter();
    let stamp = metadata.stamp.labels().into_iter();
    SecretMetadata {
        description: metadata.description.clone(),
        labels: own
            .chain(stamp.map(|(label, text)| (label.to_owned(), text)))
            .collect(),
        format: metadata.format.clone(),
        data_type: metadata.data_type.clone(),
        created_at: metadata.created_at.clone(),
        source: metadata.source.clone(),
    }
}

/// All of a secret.
pub(crate) fn secret(secret: &Secret) -> ReadSecretResponse {
    let stamp = &secret.metadata.stamp;
    let values = secret.data.iter();
    ReadSecretResponse {
        metadata: Some(metadata_message(&secret.metadata)),
        version: stamp.version,
        checksum: checksum(&secret.data),
        digest: DataDigest::of(&secret.data).to_hex(),
        epoch: stamp.epoch,
        deleted: stamp.deleted,
        secret_data: Some(SecretData {
            data: values
                .map(|(key, value)| (key.as_str().to_owned(), value.expose().to_vec()))
                .collect(),
        }),
    }
}

/// What the writer expects, if it does.
pub(super) fn expected(message: Option<Expectation>) -> Result<Option<Expected>, AgentError> {
    match message.map(|message| message.found) {
        None => Ok(None),
        Some(Some(Found::Version(version))) => Ok(Some(Expected::Version(version))),
        Some(Some(Found::Absent(true))) => Ok(Some(Expected::Absent)),
        Some(_) => Err(invalid("an expectation has to say what is expected")),
    }
}

/// A version or an epoch that can be counted on from.
pub(super) fn number(what: &str, number: u64) -> Result<u64, AgentError> {
    match number <= HIGHEST {
        true => Ok(number),
        false => Err(invalid(format!("{what} has to be at most {HIGHEST}"))),
    }
}

pub(super) fn generation(generation: Generation) -> GenerationMessage {
    GenerationMessage {
        counter: generation.counter,
        epoch: generation.epoch,
    }
}

/// A time of the clock that never jumps, as an RFC 3339 time.
pub(super) fn time(at: Instant) -> String {
    let elapsed = SignedDuration::try_from(at.elapsed()).unwrap_or_default();
    (Timestamp::now() - elapsed).to_string()
}

pub(crate) fn capacity(capacity: &Capacity) -> CapacityMessage {
    let wide = |number: usize| u64::try_from(number).unwrap_or(u64::MAX);
    CapacityMessage {
        slots_used: wide(capacity.usage.objects),
        slots_free: capacity.room.objects.map(wide),
        bytes_used: wide(capacity.usage.bytes),
        bytes_free: free_bytes(capacity).map(wide),
        slots_foreign: wide(capacity.usage.foreign),
    }
}

pub(super) fn info(token: TokenInfo) -> HsmInfo {
    HsmInfo {
        label: token.label,
        manufacturer: token.manufacturer,
        model: token.model,
        serial_number: token.serial,
        firmware_version: token.firmware,
        reader: token.reader,
    }
}

pub(crate) fn entry(path: &SecretPath, entry: Result<Entry, AgentError>) -> SecretEntry {
    let path = path.as_str().to_owned();
    match entry {
        Ok(entry) => {
            let metadata = metadata_message(&entry.metadata);
            let stamp = entry.metadata.stamp;
            let timestamp = stamp.timestamp.map(|time| format!("{time:.0}"));
            SecretEntry {
                path,
                version: stamp.version,
                checksum: entry.checksum,
                deleted: stamp.deleted,
                epoch: stamp.epoch,
                timestamp: timestamp.unwrap_or_default(),
                source: stamp.source.unwrap_or_default(),
                keys: u32::try_from(entry.keys).unwrap_or(u32::MAX),
                digest: entry.digest,
                fault: String::new(),
                metadata: Some(metadata),
            }
        }
        Err(error) => SecretEntry {
            path,
            fault: error.to_string(),
            ..SecretEntry::default()
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_that_would_be_another_object_are_refused_and_their_values_not_told() {
        for bad in ["_metadata", "a/b", "", "..", "a b"] {
            let message = SecretData {
                data: [(bad.to_owned(), b"hunter2".to_vec())].into(),
            };
            let error = data(Some(message)).unwrap_err();
            assert_eq!(error.status(), "INVALID_ARGUMENT", "{bad}");
            assert!(!error.to_string().contains("hunter2"));
        }
    }

    #[test]
    fn metadata_has_a_bound_and_labels_that_can_be_read() {
        let with = |label: &str, text: String| SecretMetadata {
            labels: [(label.to_owned(), text)].into(),
            ..SecretMetadata::default()
        };
        assert!(metadata(Some(with("a", "x".repeat(MOST_METADATA)))).is_err());
        assert!(metadata(Some(with("sync.version", "hunter2".to_owned()))).is_err());
        let (read, versioned) = metadata(Some(with("sync.version", "7".to_owned()))).unwrap();
        assert_eq!((read.stamp.version, versioned), (7, true));
        assert_eq!(metadata_message(&read), with("sync.version", "7".to_owned()));
        let (_, versioned) = metadata(None).unwrap();
        assert!(!versioned);
    }

    #[test]
    fn an_expectation_says_something() {
        let of = |found| expected(Some(Expectation { found }));
        assert_eq!(expected(None), Ok(None));
        assert_eq!(of(Some(Found::Version(0))), Ok(Some(Expected::Version(0))));
        assert_eq!(of(Some(Found::Absent(true))), Ok(Some(Expected::Absent)));
        assert!(of(Some(Found::Absent(false))).is_err());
        assert!(of(None).is_err());
    }
}
