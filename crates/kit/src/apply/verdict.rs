//! From the answer of the API server to a [`WriteError`].

use std::time::Duration;

use kube::core::Status;
use kube::core::response::StatusCause;

use super::call::{Answer, NoAnswer};
use super::error::{Attempt, HeldField, WriteError};
use super::scrub::scrub;

/// The text of a good answer, or what a bad one means.
pub(crate) fn judge(attempt: &Attempt, answer: Result<Answer, NoAnswer>) -> Result<String, WriteError> {
    match answer {
        Ok(answer) if answer.code.is_success() => Ok(answer.text),
        Ok(answer) => Err(refusal(attempt.clone(), &answer)),
        Err(NoAnswer::Fenced) => Err(WriteError::Fenced(attempt.clone())),
        Err(NoAnswer::TooLarge) => Err(WriteError::WrongAnswer(attempt.clone())),
        Err(NoAnswer::Timeout) => Err(unavailable(attempt.clone(), "no answer in time".into(), None)),
        Err(NoAnswer::Transport(problem)) => Err(unavailable(attempt.clone(), problem, None)),
    }
}

/// Whether a bad answer says that the object itself is not there: its kind is served, and its namespace is none of the
/// matter.
pub(crate) fn is_absent(attempt: &Attempt, answer: &Answer) -> bool {
    let target = attempt.target();
    let is_it = |name: &str, kind: &str| name == target.object.name() && kind == target.kind.plural;
    answer.code == 404
        && status(answer)
            .details
            .is_some_and(|details| is_it(&details.name, &details.kind))
}

fn refusal(attempt: Attempt, answer: &Answer) -> WriteError {
    let status = status(answer);
    let details = status.details.as_ref();
    let causes = details
        .map(|details| details.causes.as_slice())
        .unwrap_or_default();
    let asked = details
        .map(|details| u64::from(details.retry_after_seconds))
        .filter(|seconds| *seconds > 0);
    let retry_after = answer.retry_after.or(asked.map(Duration::from_secs));
    let has = |reason: &str| causes.iter().any(|cause| cause.reason == reason);
    if let Some(by) = rejected_by(&status.message)
        && matches!(answer.code.as_u16(), 400..=499)
    {
        let problem = spoken(&attempt, &status.message);
        return WriteError::Rejected { attempt, by, problem };
    }
    match answer.code.as_u16() {
        409 if has("FieldManagerConflict") => WriteError::FieldConflict {
            fields: held_fields(causes),
            attempt,
        },
        409 => WriteError::Stale(attempt),
        // The uid of a body is a precondition, but its violation is told as a wrong field.
        422 if causes.iter().any(|cause| cause.field == "metadata.uid") => WriteError::Stale(attempt),
        403 if has("NamespaceTerminating") => WriteError::NamespaceEnding(attempt),
        403 => WriteError::Forbidden {
            problem: spoken(&attempt, &status.message),
            attempt,
        },
        404 if is_absent(&attempt, answer) => WriteError::Stale(attempt),
        404 if details.is_some_and(|details| details.kind == "namespaces") => {
            WriteError::NamespaceEnding(attempt)
        }
        404 => WriteError::NotServed(attempt),
        413 => WriteError::TooLarge(attempt),
        422 if has("FieldValueTooLong") && is_whole(causes) => WriteError::TooLarge(attempt),
        429 => WriteError::Throttled { attempt, retry_after },
        401 => unavailable(
            attempt,
            "the API server does not know our token".into(),
            retry_after,
        ),
        500 if is_our_fault(&status.message) => invalid(attempt, &status),
        500..=599 => {
            let problem = spoken(&attempt, &status.message);
            unavailable(
                attempt,
                format!("the API server answered {}: {problem}", answer.code.as_u16()),
                retry_after,
            )
        }
        _ => invalid(attempt, &status),
    }
}

/// What a bad answer says. One that is no Status may be anything, also an object: none of its words are passed on.
fn status(answer: &Answer) -> Status {
    serde_json::from_str(&answer.text)
        .unwrap_or_else(|_| Status::failure("(the answer says no more that can be read)", ""))
}

fn unavailable(attempt: Attempt, problem: String, retry_after: Option<Duration>) -> WriteError {
    WriteError::Unavailable {
        attempt,
        problem,
        retry_after,
    }
}

fn invalid(attempt: Attempt, status: &Status) -> WriteError {
    let causes = status
        .details
        .as_ref()
        .map(|details| details.causes.as_slice())
        .unwrap_or_default();
    let mut problems: Vec<String> = causes
        .iter()
        .map(|cause| {
            let rule = if is_secret(&attempt) {
                cause.reason.clone()
            } else {
                scrub(&cause.message)
            };
            format!("{}: {rule}", cause.field)
        })
        .collect();
    problems.dedup();
    let problem = if problems.is_empty() {
        spoken(&attempt, &status.message)
    } else {
        problems.join("; ")
    };
    WriteError::Invalid { attempt, problem }
}

/// A message in free words. About a Secret none is passed on: a webhook may say anything.
fn spoken(attempt: &Attempt, message: &str) -> String {
    if is_secret(attempt) {
        "(no details about a Secret)".into()
    } else {
        scrub(message)
    }
}

fn is_secret(attempt: &Attempt) -> bool {
    let kind = &attempt.target().kind;
    kind.group.is_empty() && kind.kind == "Secret"
}

/// The webhook or policy that refused, if one did.
fn rejected_by(message: &str) -> Option<String> {
    let between = |start: &str, end: char| {
        let (_, rest) = message.split_once(start)?;
        rest.split_once(end).map(|(name, _)| name.to_owned())
    };
    if message.contains(" denied the request") {
        return between("admission webhook \"", '"').map(|name| format!("webhook {name}"));
    }
    if message.contains(" denied request") {
        return between("ValidatingAdmissionPolicy '", '\'').map(|name| format!("policy {name}"));
    }
    None
}

fn held_fields(causes: &[StatusCause]) -> Vec<HeldField> {
    let mut fields: Vec<HeldField> = causes
        .iter()
        .filter(|cause| cause.reason == "FieldManagerConflict")
        .map(|cause| HeldField {
            field: cause.field.clone(),
            manager: cause
                .message
                .split('"')
                .nth(1)
                .unwrap_or("another manager")
                .to_owned(),
        })
        .collect();
    fields.sort();
    fields
}

/// The size of a ConfigMap or Secret as a whole, not of one field.
fn is_whole(causes: &[StatusCause]) -> bool {
    causes
        .iter()
        .any(|cause| matches!(cause.field.as_str(), "[]" | "data" | ""))
}

/// An apply that does not fit the schema of the kind is answered with 500.
fn is_our_fault(message: &str) -> bool {
    message.starts_with("failed to create typed patch object")
        || message.starts_with("failed to convert new object")
}

#[cfg(test)]
mod tests {
    use http::StatusCode;
    use serde_json::{Value, json};
    use trustplane_plan::kinds::{CONFIG_MAP, SECRET};
    use trustplane_plan::{Classified as _, Kind, ObjectRef, Target};

    use super::*;

    /// The error after an answer that a real API server has given.
    fn error(kind: Kind, code: u16, body: Value) -> WriteError {
        let target = Target {
            kind,
            object: ObjectRef::new(Some("ns"), "n"),
        };
        let answer = Answer {
            code: StatusCode::from_u16(code).unwrap(),
            retry_after: None,
            text: body.to_string(),
        };
        judge(&Attempt::new("create", &target), Ok(answer)).unwrap_err()
    }

    #[test]
    fn a_webhook_or_policy_that_refuses_is_named() {
        let denied =
            json!({ "message": "admission webhook \"names.example.io\" denied the request: no such team" });
        let error_of = |kind| error(kind, 403, denied.clone()).to_string();
        assert_eq!(
            error_of(CONFIG_MAP),
            "failed to create ConfigMap ns/n: refused by webhook names.example.io: admission webhook \
             \"names.example.io\" denied the request: no such team"
        );
        assert_eq!(
            error_of(SECRET),
            "failed to create Secret ns/n: refused by webhook names.example.io: (no details about a Secret)"
        );
        let policy = json!({
            "message": "configmaps \"n\" is forbidden: ValidatingAdmissionPolicy 'vap' with binding 'b' denied request: no",
            "reason": "Invalid",
            "details": { "name": "n", "kind": "configmaps", "causes": [{ "message": "… denied request: no" }] },
        });
        let error = error(CONFIG_MAP, 422, policy);
        assert!(
            matches!(&error, WriteError::Rejected { by, .. } if by == "policy vap"),
            "{error:?}"
        );
    }

    #[test]
    fn a_webhook_that_cannot_be_reached_is_an_outage() {
        let dead = json!({
            "message": "Internal error occurred: failed calling webhook \"dead.example.io\": connection refused",
            "reason": "InternalError",
        });
        let error = error(CONFIG_MAP, 500, dead);
        assert_eq!(error.reason(), "Unavailable");
        assert!(error.to_string().contains("dead.example.io"), "{error}");
    }

    #[test]
    fn an_apply_that_does_not_fit_the_schema_is_our_fault_and_not_an_outage() {
        let body = json!({
            "message": "failed to create typed patch object (ns/n; /v1, Kind=ConfigMap): .data.k: expected string, \
                        got &value.valueUnstructured{Value:424242}",
            "code": 500,
        });
        let error = error(CONFIG_MAP, 500, body);
        assert_eq!(error.reason(), "Invalid");
        assert!(
            error.to_string().ends_with(".data.k: expected string, got …"),
            "{error}"
        );
    }

    #[test]
    fn about_a_secret_only_fields_and_rules_are_told() {
        let body = json!({
            "message": "Secret \"n\" is invalid: data[k]: Invalid value: \"hunter2\": bad",
            "reason": "Invalid",
            "details": { "causes": [
                { "reason": "FieldValueInvalid", "message": "Invalid value: \"hunter2\": hunter2 is bad", "field": "data[k]" },
            ] },
        });
        let told = error(SECRET, 422, body.clone()).to_string();
        assert_eq!(
            told,
            "failed to create Secret ns/n: invalid: data[k]: FieldValueInvalid"
        );
        let told = error(CONFIG_MAP, 422, body).to_string();
        assert_eq!(
            told,
            "failed to create ConfigMap ns/n: invalid: data[k]: Invalid value: …: hunter2 is bad"
        );
    }

    #[test]
    fn what_is_not_found_is_told_apart() {
        let missing = |kind: &str, name: &str| {
            let details = json!({ "kind": kind, "name": name });
            error(
                CONFIG_MAP,
                404,
                json!({ "reason": "NotFound", "details": details }),
            )
            .reason()
        };
        assert_eq!(missing("configmaps", "n"), "Stale");
        assert_eq!(missing("namespaces", "ns"), "NamespaceEnding");
        assert_eq!(missing("", ""), "NotServed");
        assert_eq!(
            error(CONFIG_MAP, 404, json!("404 page not found")).reason(),
            "NotServed"
        );
    }
}
