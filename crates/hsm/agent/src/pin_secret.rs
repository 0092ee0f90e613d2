//! The PIN, from one key of one Secret, watched. No other Secret is ever asked for.
//!
//! Secrets are often made from files, and files end in a newline: exactly one at the end of the value is left out. Anything
//! else that no PIN holds, such as a second newline, is a fault that is told, and costs no try.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use k8s_openapi::ByteString;
use serde::Deserialize;
use tokio::sync::watch;
use trustplane_kit::watch::{Health, Payload, Project, ProjectError, Store, WatchSpec, Watches};
use trustplane_plan::kinds::SECRET;
use trustplane_plan::{Keep, Meta, ObjectRef};
use trustplane_process::secret::Secret;
use zeroize::Zeroizing;

/// The annotation with which somebody allows one more try of a PIN that was refused: with each text that is new.
pub const TRY_AGAIN: &str = "trustplane.io/try-again";

/// Where the PIN is: `<namespace>/<name>/<key>`.
///
/// ```
/// use trustplane_hsm_agent::pin_secret::PinRef;
///
/// let pin: PinRef = "vault/token-pin/pin".parse().unwrap();
/// assert_eq!((pin.namespace.as_str(), pin.name.as_str(), pin.key.as_str()), ("vault", "token-pin", "pin"));
/// assert!("token-pin/pin".parse::<PinRef>().is_err());
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PinRef {
    /// The namespace of the Secret.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its key.
    pub key: String,
}

/// A text that names no key of a Secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a PIN is named by <namespace>/<name>/<key>")]
pub struct PinRefError;

impl FromStr for PinRef {
    type Err = PinRefError;

    fn from_str(text: &str) -> Result<Self, PinRefError> {
        let parts: Vec<&str> = text.split('/').collect();
        match parts[..] {
            [namespace, name, key] if parts.iter().all(|part| !part.is_empty()) => Ok(Self {
                namespace: namespace.to_owned(),
                name: name.to_owned(),
                key: key.to_owned(),
            }),
            _ => Err(PinRefError),
        }
    }
}

impl fmt::Display for PinRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "key {:?} of Secret {}/{}", self.key, self.namespace, self.name)
    }
}

/// What is known of the PIN.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum PinState {
    /// Nothing yet.
    #[default]
    Unknown,
    /// There is none, for this reason.
    Missing(String),
    /// It is this.
    Given {
        /// The uid of the Secret.
        uid: String,
        /// The PIN.
        pin: Secret<String>,
        /// The text of [`TRY_AGAIN`]; empty if there is none.
        again: String,
    },
}

/// Why a Secret holds no PIN. No text holds the value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
enum PinFault {
    #[error("the key is not there")]
    NoKey,
    #[error("it is empty")]
    Empty,
    #[error("it is not text")]
    NotText,
    #[error("it holds a control character, such as a second newline at its end")]
    Control,
}

/// Follows the Secret. The receiver knows what the task has seen; the task ends with the watches.
pub fn follow(
    watches: &Watches,
    pin: PinRef,
) -> (watch::Receiver<PinState>, impl Future<Output = ()> + Send + use<>) {
    let (told, state) = watch::channel(PinState::default());
    let spec = WatchSpec::new(SECRET, OneKey(pin.key.clone()))
        .namespaces([pin.namespace.clone()])
        .fields(format!("metadata.name={}", pin.name));
    let mut changes = watches.subscribe(spec);
    let task = async move {
        let store = changes.store();
        let mut standing = store.standing();
        loop {
            let now = look(&store, &pin);
            told.send_if_modified(|known| {
                // An outage takes away nothing that was known.
                let news = *known != now && now != PinState::Unknown;
                if news {
                    *known = now;
                }
                news
            });
            tokio::select! {
                change = changes.next() => {
                    if change.is_none() {
                        return;
                    }
                }
                stands = standing.changed() => {
                    if stands.is_err() {
                        return;
                    }
                }
            }
        }
    };
    (state, task)
}

fn look(store: &Store<Result<Secret<String>, PinFault>>, pin: &PinRef) -> PinState {
    let object = ObjectRef::new(Some(&pin.namespace), &pin.name);
    if let Some(secret) = store.get(&object) {
        return match &secret.value {
            Ok(value) => PinState::Given {
                uid: secret.meta.uid.to_string(),
                pin: value.clone(),
                again: secret
                    .meta
                    .annotations
                    .get(TRY_AGAIN)
                    .cloned()
                    .unwrap_or_default(),
            },
            Err(fault) => PinState::Missing(format!("no PIN in {pin}: {fault}")),
        };
    }
    if store.is_ready() {
        return PinState::Missing(format!("no PIN in {pin}: the Secret does not exist"));
    }
    match store.health() {
        Health::Ready | Health::Starting => PinState::Unknown,
        Health::Forbidden => PinState::Missing(format!("no PIN in {pin}: it may not be read")),
        health => PinState::Missing(format!(
            "no PIN in {pin}: it cannot be read now ({})",
            health.as_str()
        )),
    }
}

/// Keeps the value of one key.
struct OneKey(String);

impl Project for OneKey {
    type Out = Result<Secret<String>, PinFault>;

    fn payload(&self) -> Payload {
        Payload::Full
    }

    fn keep(&self) -> Keep {
        Keep {
            annotations: true,
            ..Keep::default()
        }
    }

    fn project(&self, _meta: &Meta, json: &str) -> Result<Self::Out, ProjectError> {
        #[derive(Deserialize)]
        struct Slim {
            data: Option<BTreeMap<String, ByteString>>,
        }
        let secret: Slim = serde_json::from_str(json)?;
        let mut data = secret.data.unwrap_or_default();
        Ok(match data.remove(&self.0) {
            Some(value) => pin_of(Zeroizing::new(value.0)),
            None => Err(PinFault::NoKey),
        })
    }

    fn identity(&self) -> String {
        self.0.clone()
    }
}

/// The PIN that a value is.
fn pin_of(value: Zeroizing<Vec<u8>>) -> Result<Secret<String>, PinFault> {
    let text = std::str::from_utf8(&value).map_err(|_| PinFault::NotText)?;
    let pin = text.strip_suffix('\n').unwrap_or(text);
    let pin = pin
        .strip_suffix('\r')
        .filter(|_| pin.len() < text.len())
        .unwrap_or(pin);
    match pin {
        "" => Err(PinFault::Empty),
        pin if pin.contains(char::is_control) => Err(PinFault::Control),
        pin => Ok(Secret::new(pin.to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(value: &str) -> Result<String, PinFault> {
        let pin = pin_of(Zeroizing::new(value.as_bytes().to_vec()))?;
        Ok(pin.expose().clone())
    }

    #[test]
    fn one_newline_at_the_end_is_left_out_and_anything_else_is_told() {
        for value in ["648219", "648219\n", "648219\r\n"] {
            assert_eq!(read(value).unwrap(), "648219", "{value:?}");
        }
        assert_eq!(read(" 648219 ").unwrap(), " 648219 ");
        for value in ["648219\n\n", "648219\r", "64\n8219", "648219\0", "\n648219"] {
            assert_eq!(read(value), Err(PinFault::Control), "{value:?}");
        }
        for value in ["", "\n", "\r\n"] {
            assert_eq!(read(value), Err(PinFault::Empty), "{value:?}");
        }
        assert_eq!(pin_of(Zeroizing::new(vec![0xff])).unwrap_err(), PinFault::NotText);
    }

    #[test]
    fn one_key_is_kept_and_nothing_is_printed() {
        let json = r#"{"metadata":{"name":"n"},"data":{"pin":"NjQ4MjE5","other":"aHVudGVyMg=="}}"#;
        let meta = Meta::decode(json, &trustplane_plan::Keep::default()).unwrap();
        let kept = OneKey("pin".to_owned()).project(&meta, json).unwrap();
        assert_eq!(kept.as_ref().unwrap().expose(), "648219");
        assert!(!format!("{kept:?}").contains("648219"));
        let missing = OneKey("puk".to_owned()).project(&meta, json).unwrap();
        assert_eq!(missing, Err(PinFault::NoKey));
    }

    #[test]
    fn a_reference_has_three_parts() {
        for text in ["", "a/b", "a/b/c/d", "a//c", "/b/c"] {
            assert_eq!(text.parse::<PinRef>(), Err(PinRefError), "{text:?}");
        }
    }
}
