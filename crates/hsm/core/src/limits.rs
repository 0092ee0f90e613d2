//! What a token can take, checked before anything is written. A token that is asked for more may cut, drop or refuse, and some
//! do so without a word.

use strum::{EnumIter, EnumString, IntoStaticStr};

use crate::code::Code;
use crate::label::Label;
use crate::layout::Usage;
use crate::object::NewObject;
use crate::secret::{Data, Value};

/// The most keys of a secret.
pub const MOST_KEYS: usize = 1_000;
/// The most bytes of all values of a secret: what a Kubernetes Secret takes.
pub const MOST_BYTES: usize = 1_048_576;
/// How many objects of a token the original looks at. Beyond that a token still serves us, but no longer the original.
pub const ORIGINAL_SEES: usize = 100;

/// What a token can take. What is not said has no limit that we know of.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of a label.
    pub label: Option<usize>,
    /// Bytes of a value.
    pub value: Option<usize>,
    /// Objects of all classes: no more are made, and where more are found, still others may be hidden.
    pub objects: Option<usize>,
    /// Bytes of all labels and values.
    pub bytes: Option<usize>,
    /// Whether every value has to have a byte.
    pub never_empty: bool,
    /// Whether the module says of a full token only that something is wrong: `CKR_GENERAL_ERROR`.
    pub vague_when_full: bool,
}

/// Tokens whose limits are known. An admin declares which one it is, and may change each limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, EnumString, IntoStaticStr, EnumIter)]
#[strum(serialize_all = "kebab-case")]
pub enum Profile {
    /// A token in software, such as SoftHSM.
    Software,
    /// Any card or stick behind OpenSC.
    Opensc,
    /// The same behind a version of OpenSC that shows 64 objects.
    #[strum(serialize = "opensc-64")]
    Opensc64,
    /// A Pico HSM behind OpenSC.
    PicoHsm,
    /// A SmartCard-HSM or Nitrokey HSM behind OpenSC.
    SmartcardHsm,
    /// A YubiHSM 2.
    #[strum(serialize = "yubihsm2")]
    YubiHsm2,
}

impl Profile {
    /// The limits.
    pub fn limits(self) -> Limits {
        // OpenSC cuts longer labels, and shows 128 objects when it meets a card. Of those that are made
        // afterwards it shows one fewer, and makes the one beyond all the same. Empty values it takes for a mistake.
        let opensc = Limits {
            label: Some(254),
            objects: Some(127),
            never_empty: true,
            vague_when_full: true,
            ..Limits::default()
        };
        match self {
            Self::Software => Limits::default(),
            Self::Opensc => opensc,
            Self::Opensc64 => Limits {
                objects: Some(63),
                ..opensc
            },
            Self::PicoHsm => Limits {
                value: Some(4096),
                ..opensc
            },
            Self::SmartcardHsm => Limits {
                value: Some(1024),
                ..opensc
            },
            Self::YubiHsm2 => Limits {
                objects: Some(256),
                bytes: Some(126 * 1024),
                ..Limits::default()
            },
        }
    }
}

/// Which limit a write would break.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LimitError {
    /// A label is too long.
    #[error("the label {label} has {bytes} bytes; this token takes {limit}")]
    Label {
        /// The label.
        label: Label,
        /// How long it is.
        bytes: usize,
        /// How long it may be.
        limit: usize,
    },
    /// A value is too long.
    #[error("the value of {label} has {bytes} bytes; this token takes {limit}")]
    Value {
        /// The label.
        label: Label,
        /// How long the value is.
        bytes: usize,
        /// How long it may be.
        limit: usize,
    },
    /// A value is empty.
    #[error("the value of {label} is empty; this token takes no empty values")]
    Empty {
        /// The label.
        label: Label,
    },
    /// There are too many objects.
    #[error("the write needs {needed} objects on the token while it lasts; the token holds {limit}")]
    Objects {
        /// How many there would be.
        needed: usize,
        /// How many there may be.
        limit: usize,
    },
    /// There are too many bytes.
    #[error("the write needs {needed} bytes on the token while it lasts; the token holds {limit}")]
    Bytes {
        /// How many there would be.
        needed: usize,
        /// How many there may be.
        limit: usize,
    },
    /// Nothing on the token could be changed any more.
    #[error(
        "after the write the token has no room to change what it holds: that needs {needed} {what}, and the token holds {limit}"
    )]
    Room {
        /// Of what there would be too many.
        what: &'static str,
        /// How many there would be.
        needed: usize,
        /// How many there may be.
        limit: usize,
    },
    /// The secret has too many keys.
    #[error("the secret has {keys} keys; it may have {MOST_KEYS}")]
    Keys {
        /// How many there are.
        keys: usize,
    },
    /// The secret is too large.
    #[error("the secret has {bytes} bytes; it may have {MOST_BYTES}")]
    Size {
        /// How many there are.
        bytes: usize,
    },
}

impl LimitError {
    /// What it means to the one who called.
    pub fn code(&self) -> Code {
        match self {
            Self::Objects { .. } | Self::Bytes { .. } | Self::Room { .. } => Code::ResourceExhausted,
            _ => Code::InvalidArgument,
        }
    }
}

/// What is free, as far as there is a limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Room {
    /// Objects.
    pub objects: Option<usize>,
    /// Bytes.
    pub bytes: Option<usize>,
}

/// Checks what no secret may be, on any token.
pub fn check_secret(data: &Data) -> Result<(), LimitError> {
    if data.len() > MOST_KEYS {
        return Err(LimitError::Keys { keys: data.len() });
    }
    let bytes = data.values().map(Value::len).sum();
    match bytes > MOST_BYTES {
        true => Err(LimitError::Size { bytes }),
        false => Ok(()),
    }
}

impl Limits {
    /// Checks one object that is to be made.
    pub fn check_object(&self, object: &NewObject) -> Result<(), LimitError> {
        let broken = |bytes: usize, limit: Option<usize>| limit.filter(|limit| bytes > *limit);
        let (label, value) = (object.label.as_bytes().len(), object.value.len());
        if let Some(limit) = broken(label, self.label) {
            return Err(LimitError::Label {
                label: object.label.clone(),
                bytes: label,
                limit,
            });
        }
        if self.never_empty && object.value.is_empty() {
            return Err(LimitError::Empty {
                label: object.label.clone(),
            });
        }
        if let Some(limit) = broken(value, self.value) {
            return Err(LimitError::Value {
                label: object.label.clone(),
                bytes: value,
                limit,
            });
        }
        Ok(())
    }

    /// Checks that a token can hold so much at once.
    pub fn check_usage(&self, needed: &Usage) -> Result<(), LimitError> {
        if let Some(limit) = self.objects.filter(|limit| needed.objects > *limit) {
            return Err(LimitError::Objects {
                needed: needed.objects,
                limit,
            });
        }
        if let Some(limit) = self.bytes.filter(|limit| needed.bytes > *limit) {
            return Err(LimitError::Bytes {
                needed: needed.bytes,
                limit,
            });
        }
        Ok(())
    }

    /// Checks that a token can hold so much when it is changed once more.
    pub(crate) fn check_room(&self, needed: &Usage) -> Result<(), LimitError> {
        self.check_usage(needed).map_err(|error| match error {
            LimitError::Objects { needed, limit } => LimitError::Room {
                what: "objects",
                needed,
                limit,
            },
            LimitError::Bytes { needed, limit } => LimitError::Room {
                what: "bytes",
                needed,
                limit,
            },
            error => error,
        })
    }

    /// Whether a token that shows so many objects may hide others. Modules that show so many objects and no more do not say so; those
    /// that take so many and no more never have one beyond.
    pub fn may_hide(&self, shown: usize) -> bool {
        self.objects.is_some_and(|limit| shown > limit)
    }

    /// What is free.
    pub fn room(&self, usage: &Usage) -> Room {
        let left = |limit: Option<usize>, used: usize| limit.map(|limit| limit.saturating_sub(used));
        Room {
            objects: left(self.objects, usage.objects),
            bytes: left(self.bytes, usage.bytes),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(label: usize, value: usize) -> NewObject {
        NewObject {
            label: Label::new("l".repeat(label)),
            value: Value::new(vec![b'v'; value]),
        }
    }

    #[test]
    fn profiles_are_declared_by_name() {
        let names = [
            "software",
            "opensc",
            "opensc-64",
            "pico-hsm",
            "smartcard-hsm",
            "yubihsm2",
        ];
        for (profile, name) in <Profile as strum::IntoEnumIterator>::iter().zip(names) {
            assert_eq!(name.parse(), Ok(profile));
            assert_eq!(<&str>::from(profile), name);
        }
    }

    #[test]
    fn a_label_that_opensc_would_cut_is_refused() {
        let limits = Profile::Opensc.limits();
        assert_eq!(limits.check_object(&object(254, 9000)), Ok(()));
        let error = limits.check_object(&object(255, 1)).unwrap_err();
        assert_eq!(error.code(), Code::InvalidArgument);
        assert!(
            error.to_string().ends_with("has 255 bytes; this token takes 254"),
            "{error}"
        );
        assert_eq!(Profile::Software.limits().check_object(&object(600, 1)), Ok(()));
    }

    #[test]
    fn a_value_that_the_token_cannot_hold_is_refused() {
        for (profile, most) in [(Profile::PicoHsm, 4096), (Profile::SmartcardHsm, 1024)] {
            assert_eq!(profile.limits().check_object(&object(1, most)), Ok(()));
            let error = profile.limits().check_object(&object(1, most + 1)).unwrap_err();
            assert_eq!(error.code(), Code::InvalidArgument);
            assert!(!error.to_string().contains("vvv"), "{error}");
        }
    }

    #[test]
    fn an_empty_value_is_refused_where_opensc_would() {
        for profile in [Profile::Opensc, Profile::PicoHsm, Profile::SmartcardHsm] {
            let error = profile.limits().check_object(&object(3, 0)).unwrap_err();
            assert_eq!(error.code(), Code::InvalidArgument);
            assert_eq!(
                error.to_string(),
                "the value of lll is empty; this token takes no empty values"
            );
        }
        for profile in [Profile::Software, Profile::YubiHsm2] {
            assert_eq!(profile.limits().check_object(&object(3, 0)), Ok(()));
        }
    }

    #[test]
    fn a_token_is_not_filled_beyond_what_can_be_seen() {
        let usage = |objects, bytes| Usage {
            objects,
            bytes,
            foreign: 0,
        };
        let opensc = Profile::Opensc.limits();
        assert_eq!(opensc.check_usage(&usage(127, 1 << 30)), Ok(()));
        let error = opensc.check_usage(&usage(128, 0)).unwrap_err();
        assert_eq!(
            error,
            LimitError::Objects {
                needed: 128,
                limit: 127
            }
        );
        assert_eq!(error.code(), Code::ResourceExhausted);
        let older = Profile::Opensc64.limits();
        assert_eq!(older.check_usage(&usage(63, 0)), Ok(()));
        let error = older.check_usage(&usage(64, 0)).unwrap_err();
        assert_eq!(error.code(), Code::ResourceExhausted);
        let yubi = Profile::YubiHsm2.limits();
        let error = yubi.check_usage(&usage(256, 129_025)).unwrap_err();
        assert_eq!(error.code(), Code::ResourceExhausted);
        let room = yubi.room(&usage(250, 200_000));
        assert_eq!((room.objects, room.bytes), (Some(6), Some(0)));
        assert_eq!(Limits::default().room(&usage(9, 9)).objects, None);
    }

    #[test]
    fn a_secret_is_no_larger_than_kubernetes_takes() {
        let one = |bytes| crate::model::data(&[("a", &"x".repeat(bytes)), ("b", "")]);
        assert_eq!(check_secret(&one(MOST_BYTES)), Ok(()));
        assert_eq!(
            check_secret(&one(MOST_BYTES + 1)),
            Err(LimitError::Size {
                bytes: MOST_BYTES + 1
            })
        );
        let names: Vec<String> = (0..=MOST_KEYS).map(|n| format!("k{n}")).collect();
        let pairs: Vec<_> = names.iter().map(|name| (name.as_str(), "")).collect();
        assert_eq!(
            check_secret(&crate::model::data(&pairs)),
            Err(LimitError::Keys { keys: MOST_KEYS + 1 })
        );
    }
}
