//! What an operand needs before its children can be made: values that hold, a spec that makes sense, and a trust domain that the data of the
//! server belongs to.

use serde::de::DeserializeOwned;
use serde_json::Value;
use trustplane_api::identity::conditions::{self, reason};
use trustplane_api::identity::{
    CommonConfig, OperandKind, SpiffeCsiDriverSpec, SpireAgentSpec, SpireOidcDiscoveryProviderSpec,
    SpireServerSpec, ZtwimSpec, names,
};
use trustplane_plan::kinds::{DAEMON_SET, DEPLOYMENT, SECRET, STATEFUL_SET};
use trustplane_plan::{Manifest, ObjectRef, Target};

use super::facts::Facts;
use super::operand::running_trust_domain;
use super::{OperandInput, Seen};
use crate::check::{self, Defect};
use crate::inherit::{
    Field, OperandView, Resolution, Unresolved, World, ZtwimView, common, mismatches, resolve,
};
use crate::{Settings, Shared, children};

/// The annotation of the server's StatefulSet with the trust domain that its data belongs to.
pub(super) const TRUST_DOMAIN: &str = "trustplane.io/trust-domain";

/// What the children of an operand are to be.
pub(super) struct Setup {
    pub operand: OperandKind,
    pub shared: Shared,
    /// All children but the two below.
    pub children: Vec<Manifest>,
    /// The ConfigMap for the bundle, which the server needs before it starts.
    pub bundle: Option<Manifest>,
    /// The Secret with the certificate, without its values, and the names that the certificate is for.
    pub certificate: Option<(Manifest, Vec<String>)>,
}

impl Setup {
    /// The setup, or `None` if nothing may be made or changed; `facts` gets the reasons.
    pub fn of(input: &OperandInput, settings: &Settings, facts: &mut Facts) -> Option<Self> {
        let seen = input.operand()?;
        let Some(manager) = &input.manager else {
            let message =
                "waiting for the ZeroTrustWorkloadIdentityManager cluster: kubectl get ztwim".to_owned();
            facts.bad(conditions::CONFIGURATION_VALID, reason::PROGRESSING, message);
            return None;
        };
        let world = world(input.manager.as_ref(), input.operands.iter());
        let resolution = resolve(&world, settings);
        let shared = match resolution.shared() {
            Ok(shared) => Some(shared),
            Err(reasons) => {
                reasons.iter().for_each(|why| unresolved(why, facts));
                None
            }
        };
        for mismatch in mismatches(&world) {
            if mismatch.pair.follower.0 == input.operand {
                facts.bad(
                    conditions::CONFIGURATION_VALID,
                    reason::CONFIGURATION_CONFLICT,
                    mismatch.to_string(),
                );
            }
        }
        let parsed: Result<ZtwimSpec, _> = read(&manager.spec);
        let ztwim = parsed.map_err(|_| unreadable(facts)).ok();
        let shared = shared.filter(|shared| holds_trust_domain(input, shared, facts));
        let spec = Spec::read(input.operand, seen)
            .map_err(|_| unreadable(facts))
            .ok()?;
        let common = common(&ztwim.unwrap_or_default().common, spec.common());
        spec.check(&common, settings, facts);
        let setup = spec.setup(input.operand, &common, &shared?, settings, &resolution, facts);
        setup.filter(|_| facts.are_good())
    }

    /// The workload among the children.
    pub fn workload(&self) -> Target {
        let (kind, name) = match self.operand {
            OperandKind::SpireServer => (STATEFUL_SET, names::SERVER),
            OperandKind::SpireAgent => (DAEMON_SET, names::AGENT),
            OperandKind::SpiffeCsiDriver => (DAEMON_SET, names::CSI_DRIVER),
            OperandKind::SpireOidcDiscoveryProvider => (DEPLOYMENT, names::OIDC),
        };
        Target {
            kind,
            object: ObjectRef::new(Some(&self.shared.namespace), name),
        }
    }
}

/// ZTWIM and the operands, as far as their values are concerned.
pub(super) fn world<'a>(
    manager: Option<&Seen>,
    operands: impl Iterator<Item = (&'a OperandKind, &'a Seen)>,
) -> World {
    let ztwim = manager.map(|seen| ZtwimView {
        deleting: seen.meta.is_terminating(),
        ..ZtwimView::new(&seen.meta.uid, &seen.spec)
    });
    let operands = operands.map(|(kind, seen)| OperandView {
        deleting: seen.meta.is_terminating(),
        ..OperandView::new(*kind, &seen.spec, &seen.meta.annotations)
    });
    World {
        ztwim,
        operands: operands.collect(),
    }
}

/// Tells that a shared value does not hold, and why.
pub(super) fn unresolved(why: &Unresolved, facts: &mut Facts) {
    let reason = match why {
        Unresolved::NotServed { .. } => reason::NAMESPACE_NOT_SERVED,
        Unresolved::Missing(_) => reason::VALUE_REQUIRED,
        Unresolved::Invalid { .. } => reason::VALUE_INVALID,
        Unresolved::Conflict { .. } | Unresolved::Disagreement { .. } => reason::CONFIGURATION_CONFLICT,
    };
    facts.bad(
        conditions::CONFIGURATION_VALID,
        reason,
        format!("{}: {why}", why.path()),
    );
}

fn unreadable(facts: &mut Facts) {
    // Without the words of the parser: they quote values, and a connection string may hold a password.
    let message = "this version cannot read the spec: kubectl explain shows its fields".to_owned();
    facts.bad(conditions::CONFIGURATION_VALID, reason::VALUE_INVALID, message);
}

/// Whether the data of the running server belongs to the trust domain. SPIRE refuses to start with the data of another one.
fn holds_trust_domain(input: &OperandInput, shared: &Shared, facts: &mut Facts) -> bool {
    let running = match input.operand {
        OperandKind::SpiffeCsiDriver => None,
        _ => running_trust_domain(input),
    };
    let Some(running) = running.filter(|running| *running != shared.trust_domain) else {
        return true;
    };
    let message = format!(
        "spec.trustDomain: the data of the running server belongs to the trust domain {running:?}, and ZTWIM says {:?}: what runs is left as \
         it is. Put the old value back, or delete the SpireServer and its PersistentVolumeClaim {}/spire-data-spire-server-0 and create the \
         SpireServer again: then all identities are made anew",
        shared.trust_domain, shared.namespace
    );
    facts.bad(
        conditions::CONFIGURATION_VALID,
        reason::TRUST_DOMAIN_CHANGE_PENDING,
        message,
    );
    false
}

fn read<T: DeserializeOwned + Default>(spec: &Value) -> Result<T, serde_json::Error> {
    match spec {
        Value::Null => Ok(T::default()),
        spec => serde_json::from_value(spec.clone()),
    }
}

/// The spec of an operand.
enum Spec {
    Server(Box<SpireServerSpec>),
    Agent(Box<SpireAgentSpec>),
    Csi(Box<SpiffeCsiDriverSpec>),
    Oidc(Box<SpireOidcDiscoveryProviderSpec>),
}

impl Spec {
    fn read(operand: OperandKind, seen: &Seen) -> Result<Self, serde_json::Error> {
        Ok(match operand {
            OperandKind::SpireServer => Self::Server(read(&seen.spec)?),
            OperandKind::SpireAgent => Self::Agent(read(&seen.spec)?),
            OperandKind::SpiffeCsiDriver => Self::Csi(read(&seen.spec)?),
            OperandKind::SpireOidcDiscoveryProvider => Self::Oidc(read(&seen.spec)?),
        })
    }

    fn common(&self) -> &CommonConfig {
        match self {
            Self::Server(spec) => &spec.common,
            Self::Agent(spec) => &spec.common,
            Self::Csi(spec) => &spec.common,
            Self::Oidc(spec) => &spec.common,
        }
    }

    /// What is wrong with the spec itself.
    fn check(&self, common: &CommonConfig, settings: &Settings, facts: &mut Facts) {
        let defects = match self {
            Self::Server(spec) => check::server(spec, settings),
            Self::Agent(spec) => check::agent(spec, settings),
            Self::Csi(spec) => check::csi(spec),
            Self::Oidc(spec) => check::oidc(spec, settings),
        };
        for Defect {
            field,
            rule,
            condition,
            reason,
        } in defects.into_iter().chain(check::common(common))
        {
            facts.bad(condition, reason, format!("{field}: {rule}"));
        }
        facts.good(conditions::CONFIGURATION_VALID, reason::CONFIGURATION_VALID);
        if let Self::Server(spec) = self {
            let warnings = check::warnings(spec);
            match warnings.is_empty() {
                true => facts.good(
                    conditions::TTL_CONFIGURATION_VALID,
                    reason::TTL_VALIDATION_SUCCEEDED,
                ),
                false => facts.note(
                    conditions::TTL_CONFIGURATION_VALID,
                    reason::TTL_VALIDATION_WARNING,
                    warnings.join("; "),
                ),
            }
        }
    }

    fn setup(
        &self,
        operand: OperandKind,
        common: &CommonConfig,
        shared: &Shared,
        settings: &Settings,
        resolution: &Resolution,
        facts: &mut Facts,
    ) -> Option<Setup> {
        let (mut bundle, mut certificate) = (None, None);
        let children = match self {
            Self::Server(spec) => {
                if let Some(Defect {
                    field,
                    rule,
                    condition,
                    reason,
                }) = check::self_federation(spec, &shared.trust_domain)
                {
                    facts.bad(condition, reason, format!("{field}: {rule}"));
                }
                bundle = Some(children::bundle(common, shared));
                children::server(spec, common, shared, settings)
            }
            Self::Agent(spec) => children::agent(spec, common, shared, settings),
            Self::Csi(spec) => children::csi(spec, common, shared, settings),
            Self::Oidc(spec) => {
                let issuer = resolution
                    .value(Field::JwtIssuer)
                    .map_err(|why| unresolved(&why, facts))
                    .ok()?;
                let (bare, names) = children::certificate(common, shared, issuer);
                debug_assert_eq!(*bare.kind(), SECRET);
                certificate = Some((bare, names));
                children::oidc(spec, common, shared, settings, issuer)
            }
        };
        let children = children
            .into_iter()
            .map(|child| match *child.kind() == STATEFUL_SET {
                true => child.annotation(TRUST_DOMAIN, &shared.trust_domain),
                false => child,
            });
        Some(Setup {
            operand,
            shared: shared.clone(),
            children: children.collect(),
            bundle,
            certificate,
        })
    }
}
