//! Which requests are allowed. Default deny: the controller can read far more than any one pod should.

use crate::path::CanonicalPath;
use crate::reason::{Problem, Reason};
use crate::request::Request;

/// What decides about requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Policy {
    /// Without policies of the admin: a namespace may have what lies in the folder of its name.
    #[default]
    OwnFolder,
    /// Everything that the provider gives, as JASM does.
    Off,
}

impl Policy {
    /// Judges a request of a namespace. There is one answer to everything that is not allowed: it must not tell what exists.
    pub fn judge(self, namespace: &str, request: &Request) -> Result<(), Problem> {
        if self == Self::Off {
            return Ok(());
        }
        let path = CanonicalPath::parse(&request.source.path)
            .map_err(|rule| Problem::lasting(Reason::AnnotationInvalid, format!("path: {rule}")))?;
        if path.belongs_to(namespace) {
            return Ok(());
        }
        Err(Problem::lasting(
            Reason::PolicyDenied,
            "no policy allows this request",
        ))
    }
}
