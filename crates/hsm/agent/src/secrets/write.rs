//! Writes a secret without losing an edit of another client: reads it, decides, and writes only if its version is still the same.

use std::collections::BTreeMap;

use trustplane_api::hsm::secrets_tool::{Answer, ErrorKind, WriteMode};
use trustplane_api::hsm::v1::expectation::Found;
use trustplane_api::hsm::v1::{
    Expectation, SecretData, SecretMetadata, WriteSecretRequest, WriteSecretResponse,
};
use trustplane_hsm_core::encoded::Encoded;
use trustplane_hsm_core::path::SecretPath;
use trustplane_hsm_core::secret::Data;
use trustplane_hsm_core::version::Stamp;

use super::failure::Failure;

/// How often a write is tried while other clients change the same secret.
const ATTEMPTS: u32 = 8;

/// A secret as the token has it.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Current {
    pub version: u64,
    pub deleted: bool,
    pub checksum: String,
    pub digest: String,
    pub data: Data,
    pub metadata: SecretMetadata,
}

/// What a request wants to write.
#[derive(Debug, Clone)]
pub(super) struct Wanted {
    pub mode: WriteMode,
    pub data: Data,
    pub description: Option<String>,
}

/// The calls to the agent that a write needs.
pub(super) trait SecretStore {
    /// The secret at a path, deleted or not; `None` if the token has nothing there.
    async fn read(&mut self, path: &SecretPath) -> Result<Option<Current>, Failure>;
    /// Writes, if the token has what the request expects.
    async fn write(&mut self, request: WriteSecretRequest) -> Result<WriteSecretResponse, Failure>;
}

/// Writes a secret. If its version changes between the read and the write, both are done again.
pub(super) async fn write(
    store: &mut impl SecretStore,
    path: &SecretPath,
    wanted: &Wanted,
) -> Result<Answer<Encoded>, Failure> {
    let mut refused: Option<(Option<(u64, bool)>, Failure)> = None;
    for _ in 0..ATTEMPTS {
        let current = store.read(path).await?;
        let met = current.as_ref().map(|current| (current.version, current.deleted));
        match refused {
            // No other client has written: the token refuses the write for another reason.
            Some((before, failure)) if before == met => return Err(failure),
            _ => {}
        }
        let request = match decide(path, wanted, current)? {
            Step::Keep(answer) => return Ok(answer),
            Step::Write(request) => request,
        };
        match store.write(request).await {
            Ok(written) => {
                return Ok(Answer::Changed {
                    version: written.version,
                    checksum: Some(written.checksum),
                    written: true,
                });
            }
            Err(failure) if failure.is_unexpected => refused = Some((met, failure)),
            Err(failure) => return Err(failure),
        }
    }
    Err(Failure::new(
        ErrorKind::Conflict,
        format!("{path}: others changed the secret at each of {ATTEMPTS} attempts to write it; try again"),
    ))
}

/// What a write does next.
#[derive(Debug)]
enum Step {
    /// The token already has the wanted content.
    Keep(Answer<Encoded>),
    /// Send this request.
    Write(WriteSecretRequest),
}

fn decide(path: &SecretPath, wanted: &Wanted, current: Option<Current>) -> Result<Step, Failure> {
    let live = current.filter(|current| !current.deleted);
    let Some(current) = live else {
        return match wanted.mode {
            WriteMode::Create => Ok(Step::Write(request(
                path,
                &wanted.data,
                SecretMetadata {
                    description: wanted.description.clone().unwrap_or_default(),
                    ..SecretMetadata::default()
                },
                Found::Absent(true),
            ))),
            WriteMode::Merge | WriteMode::Replace => {
                let message = format!("{path}: there is no such secret");
                Err(Failure::new(ErrorKind::NotFound, message))
            }
        };
    };
    let data = match wanted.mode {
        WriteMode::Merge => merged(&current.data, &wanted.data),
        WriteMode::Create | WriteMode::Replace => wanted.data.clone(),
    };
    let description = wanted.description.as_ref();
    let described = description.is_none_or(|wanted| *wanted == current.metadata.description);
    if data == current.data && described {
        return Ok(Step::Keep(Answer::Changed {
            version: current.version,
            checksum: Some(current.checksum),
            written: false,
        }));
    }
    if wanted.mode == WriteMode::Create {
        let version = current.version;
        let message = format!("{path}: there is a secret with other content, in version {version}");
        return Err(Failure::new(ErrorKind::Exists, message));
    }
    let mut metadata = current.metadata;
    // The agent sets the labels of the version itself. It would take an old version in them for an order to write that version.
    drop(Stamp::take(&mut metadata.labels));
    if let Some(description) = description {
        metadata.description.clone_from(description);
    }
    let expected = Found::Version(current.version);
    Ok(Step::Write(request(path, &data, metadata, expected)))
}

fn merged(current: &Data, wanted: &Data) -> Data {
    let mut data = current.clone();
    data.extend(wanted.clone());
    data
}

fn request(path: &SecretPath, data: &Data, metadata: SecretMetadata, expected: Found) -> WriteSecretRequest {
    let values = data.iter();
    let values: BTreeMap<String, Vec<u8>> = values
        .map(|(key, value)| (key.to_string(), value.expose().to_vec()))
        .collect();
    WriteSecretRequest {
        path: path.to_string(),
        secret_data: Some(SecretData {
            data: values.into_iter().collect(),
        }),
        metadata: Some(metadata),
        expected: Some(Expectation {
            found: Some(expected),
        }),
        ..WriteSecretRequest::default()
    }
}

#[cfg(test)]
mod tests;
