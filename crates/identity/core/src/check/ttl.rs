//! Whether the validities of a SpireServer fit together.

use std::time::Duration;

use trustplane_api::duration::{LONGEST, parse_go_duration};
use trustplane_api::identity::SpireServerSpec;
use trustplane_api::identity::conditions::{self, reason};

use super::Defect;
use crate::render::go_duration;

const FAILED: (&str, &str) = (conditions::TTL_CONFIGURATION_VALID, reason::TTL_VALIDATION_FAILED);

/// SPIRE makes no SVID that is surely valid for longer than this, however long its CA is.
const LONGEST_SVID: Duration = Duration::from_hours(7 * 24);
/// A new CA is used when a sixth of the old one is left, so an SVID may be that short.
const PARTS: u32 = 6;

struct Validity<'a> {
    field: &'static str,
    text: &'a str,
}

const CA: &str = "spec.caValidity";

/// The validities of SVIDs.
fn of_svids(spec: &SpireServerSpec) -> [Validity<'_>; 2] {
    [
        Validity {
            field: "spec.defaultX509Validity",
            text: &spec.default_x509_validity,
        },
        Validity {
            field: "spec.defaultJWTValidity",
            text: &spec.default_jwt_validity,
        },
    ]
}

impl Validity<'_> {
    fn read(&self) -> Result<Duration, Defect> {
        let fault = |rule: &str| Err(Defect::new(self.field, rule, FAILED));
        match parse_go_duration(self.text) {
            None => fault("must be a duration such as 24h or 1h30m"),
            Some(Duration::ZERO) => fault("must be longer than 0"),
            Some(long) if long > LONGEST => fault("must be at most 2562047h"),
            Some(duration) => Ok(duration),
        }
    }
}

pub(super) fn defects(spec: &SpireServerSpec) -> Vec<Defect> {
    let ca = Validity {
        field: CA,
        text: &spec.ca_validity,
    };
    let mut defects = Vec::new();
    let ca_validity = ca.read().map_err(|defect| defects.push(defect)).ok();
    for svid in of_svids(spec) {
        match (svid.read(), ca_validity) {
            (Err(defect), _) => defects.push(defect),
            (Ok(validity), Some(ca_validity)) if ca_validity < validity => {
                let rule = format!(
                    "must not be shorter than {} ({}), but is {}",
                    svid.field, svid.text, spec.ca_validity
                );
                defects.push(Defect::new(CA, rule, FAILED));
            }
            _ => {}
        }
    }
    defects
}

/// What the condition `TTLConfigurationValid` warns of: validities that SPIRE cannot promise, one line each. Empty for a spec with a defect.
pub fn warnings(spec: &SpireServerSpec) -> Vec<String> {
    let Some(ca) = parse_go_duration(&spec.ca_validity).filter(|_| defects(spec).is_empty()) else {
        return Vec::new();
    };
    let part = ca / PARTS;
    let limit = part.min(LONGEST_SVID);
    let too_long =
        |svid: &Validity<'_>| parse_go_duration(svid.text).is_some_and(|validity| validity > limit);
    let warning = |svid: Validity<'_>| {
        let why = match part < LONGEST_SVID {
            true => format!("a sixth of {CA} ({})", spec.ca_validity),
            false => "the longest that SPIRE promises".to_owned(),
        };
        let limit = go_duration(&format!("{}s", limit.as_secs_f64()));
        format!(
            "{}: {} is longer than {limit}, {why}: SVIDs may end sooner while the CA is replaced",
            svid.field, svid.text
        )
    };
    of_svids(spec).into_iter().filter(too_long).map(warning).collect()
}
