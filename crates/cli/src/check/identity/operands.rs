//! ZTWIM and its operands: whether each exists, belongs to ZTWIM, and is ready.

use trustplane_api::identity::conditions::{CONFIGURATION_VALID, READY};
use trustplane_api::identity::names::SINGLETON;
use trustplane_api::identity::{OperandKind, ZTWIM};
use trustplane_plan::ConditionStatus;

use super::super::report::Finding;
use super::{Identity, MANAGER, Manager, Operand, RunBy};
use crate::cluster::Seen;

/// Judges ZTWIM and its operands.
pub fn judge(seen: &Identity) -> Vec<Finding> {
    let manager = match &seen.manager {
        Err(obstacle) => {
            let advice = "ask for the right to get zerotrustworkloadidentitymanagers, spireservers, spireagents, \
                          spiffecsidrivers and spireoidcdiscoveryproviders";
            return vec![Finding::unseen(MANAGER, obstacle, advice)];
        }
        Ok(manager) => manager.as_ref(),
    };
    let mut findings = vec![match manager {
        Some(manager) => configured(seen, manager),
        None => unconfigured(&seen.operands),
    }];
    let expected = manager.map_or(&[] as &[OperandKind], |manager| {
        manager
            .spec
            .expected_operands
            .as_deref()
            .unwrap_or(&OperandKind::ALL)
    });
    for (kind, operand) in &seen.operands {
        match operand {
            Err(obstacle) => {
                let advice = format!("ask for the right to get {}", kind.kind().plural);
                findings.push(Finding::unseen(subject(*kind), obstacle, advice));
            }
            Ok(Some(operand)) => {
                findings.push(readiness(*kind, operand, &seen.run_by));
                findings.extend(manager.and_then(|manager| ownership(*kind, operand, manager, &seen.run_by)));
            }
            Ok(None) if expected.contains(kind) => findings.push(Finding::bad(
                subject(*kind),
                "does not exist",
                format!(
                    "apply a {kind} named {SINGLETON}, or leave it out of spec.expectedOperands of {MANAGER}"
                ),
            )),
            Ok(None) => {}
        }
    }
    findings
}

/// How findings, and kubectl, name an operand.
pub fn subject(kind: OperandKind) -> String {
    format!("{}/{SINGLETON}", kind.as_str().to_lowercase())
}

/// There is no ZTWIM.
fn unconfigured(operands: &[(OperandKind, Seen<Option<Operand>>)]) -> Finding {
    let advice =
        "apply a ZeroTrustWorkloadIdentityManager named cluster with spec.trustDomain and spec.clusterName";
    if operands.iter().any(|(_, operand)| matches!(operand, Ok(Some(_)))) {
        return Finding::bad(MANAGER, "does not exist, so nothing keeps its operands", advice);
    }
    Finding::warning(MANAGER, "does not exist, so SPIRE does not run", advice)
}

/// Whether what ZTWIM says can be done. Its Ready repeats what its operands say.
fn configured(seen: &Identity, manager: &Manager) -> Finding {
    let Manager {
        metadata,
        spec,
        status,
    } = manager;
    let describe = format!("kubectl describe {MANAGER}");
    match status.conditions.get(CONFIGURATION_VALID) {
        None => Finding::bad(
            MANAGER,
            "has no status: no process has looked at it",
            seen.run_by.logs(),
        ),
        Some(condition) if Some(condition.observed_generation) != metadata.generation => {
            Finding::bad(MANAGER, "its last change has no effect yet", seen.run_by.logs())
        }
        Some(condition) if condition.status != ConditionStatus::True => {
            Finding::bad(MANAGER, format!("is not valid: {}", condition.message), describe)
        }
        Some(_) => {
            let domain = spec
                .trust_domain
                .as_ref()
                .map(|domain| format!("trust domain {domain}"));
            let namespace = seen
                .spire
                .as_ref()
                .map(|spire| format!("namespace {}", spire.namespace));
            let told: Vec<String> = domain.into_iter().chain(namespace).collect();
            Finding::good(MANAGER, told.join(", "))
        }
    }
}

fn readiness(kind: OperandKind, operand: &Operand, run_by: &RunBy) -> Finding {
    let subject = subject(kind);
    let describe = format!("kubectl describe {subject}");
    match operand.status.conditions.get(READY) {
        None => Finding::bad(
            subject,
            "has no status: no process has looked at it",
            run_by.logs(),
        ),
        Some(ready) if Some(ready.observed_generation) != operand.metadata.generation => {
            Finding::bad(subject, "its last change has no effect yet", run_by.logs())
        }
        Some(ready) if ready.status == ConditionStatus::True => Finding::good(subject, "is ready"),
        Some(ready) => {
            let told = [ready.reason.as_str(), ready.message.as_str()];
            let told: Vec<_> = told.into_iter().filter(|text| !text.is_empty()).collect();
            Finding::bad(subject, format!("is not ready: {}", told.join(": ")), describe)
        }
    }
}

/// An operand without an owner reference stays when ZTWIM is deleted.
fn ownership(kind: OperandKind, operand: &Operand, manager: &Manager, run_by: &RunBy) -> Option<Finding> {
    let uid = manager.metadata.uid.as_deref().unwrap_or_default();
    let mut owners = operand.metadata.owner_references.iter().flatten();
    let is_owned = owners.any(|owner| {
        owner.kind == ZTWIM.kind
            && owner.uid == uid
            && owner.controller == Some(true)
            && owner.block_owner_deletion == Some(true)
    });
    (!is_owned).then(|| {
        let told = format!("has no owner reference to {MANAGER} with controller and blockOwnerDeletion");
        Finding::warning(subject(kind), told, run_by.logs())
    })
}
