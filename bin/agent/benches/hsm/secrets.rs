//! The secrets on the token: each of two keys and metadata, which is three objects.

use trustplane_hsm_core::layout::objects;
use trustplane_hsm_core::metadata::Metadata;
use trustplane_hsm_core::object::NewObject;
use trustplane_hsm_core::path::{KeyName, SecretPath};
use trustplane_hsm_core::secret::{Secret, Value};
use trustplane_hsm_core::version::Stamp;

/// With the object of the generation these are 1,000 objects.
pub const SECRETS: usize = 333;
/// The version that all have at first.
pub const FIRST: u64 = 1;
/// What each is for.
pub const DESCRIPTION: &str = "credentials of a database";

/// Where a secret is.
pub fn path(number: usize) -> SecretPath {
    SecretPath::parse(&format!("team-{:02}/database-{number:04}", number % 20)).unwrap()
}

/// Its keys and values in a version. All values are others in another version.
pub fn pairs(number: usize, version: u64) -> [(&'static str, String); 2] {
    [
        ("password", format!("{version:08}-{number:08}-f7Kq2mXw9sLd4Rzt")),
        ("username", format!("user-{number:08}-{version:08}")),
    ]
}

/// Its objects in a version.
pub fn objects_of(number: usize, version: u64) -> Vec<NewObject> {
    let pairs = pairs(number, version).into_iter();
    let secret = Secret {
        data: pairs
            .map(|(key, value)| (KeyName::parse(key).unwrap(), Value::new(value)))
            .collect(),
        metadata: Metadata {
            description: DESCRIPTION.to_owned(),
            stamp: Stamp {
                version,
                timestamp: Some("2026-07-07T08:00:00Z".parse().unwrap()),
                ..Stamp::default()
            },
            ..Metadata::default()
        },
    };
    objects(&path(number), &secret)
}
