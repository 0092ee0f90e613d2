//! What is wrong with a spec that its schema takes.
//!
//! The schema cannot say everything: whether one duration is longer than another, what SPIRE's discovery provider can serve, what Kubernetes
//! takes in a pod. A [`Defect`] names the field, the rule, and the condition that tells of it. Admission denies a defect in a value that
//! changes; the controller changes nothing that runs while there is one.
//!
//! What works, but hardly as its author means it, is an advice: a line for the user, without a condition. Only [`warnings`] has one.
//!
//! ```
//! use trustplane_api::identity::SpireServerSpec;
//! use trustplane_identity_core::check;
//!
//! let spec = SpireServerSpec { ca_validity: "30m".into(), ..SpireServerSpec::default() };
//! let defects = check::server_spec(&spec);
//! assert_eq!(defects[0].to_string(), "spec.caValidity: must not be shorter than spec.defaultX509Validity (1h), but is 30m");
//! ```

mod affinity;
mod agent;
mod database;
mod federation;
mod image;
mod names;
mod pods;
mod quantity;
mod resources;
mod taint;
#[cfg(test)]
mod tests;
mod ttl;

use std::fmt;

use trustplane_api::identity::conditions::{self, reason};
use trustplane_api::identity::{
    OperandKind, PersistenceType, SpiffeCsiDriverSpec, SpireAgentSpec, SpireOidcDiscoveryProviderSpec,
    SpireServerSpec,
};

pub use federation::self_federation;
pub(crate) use image::tag as image_tag;
pub use image::version;
pub(crate) use names::is_label_value;
pub use pods::common;
pub use ttl::warnings;

use crate::Settings;
use crate::render::Issuer;

/// A value that cannot be carried out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Defect {
    /// The field, such as `spec.caValidity`.
    pub field: String,
    /// The rule that it breaks: what it must be, and what the reader can do.
    pub rule: String,
    /// The type of the condition that becomes False.
    pub condition: &'static str,
    /// The reason in that condition.
    pub reason: &'static str,
}

impl Defect {
    fn new(
        field: impl Into<String>,
        rule: impl Into<String>,
        (condition, reason): (&'static str, &'static str),
    ) -> Self {
        Self {
            field: field.into(),
            rule: rule.into(),
            condition,
            reason,
        }
    }
}

impl fmt::Display for Defect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.field, self.rule)
    }
}

/// The defect of a file that cannot be rendered for a server.
const SERVER_CONFIG: (&str, &str) = (
    conditions::SERVER_CONFIG_MAP_AVAILABLE,
    reason::SPIRE_SERVER_CONFIG_MAP_GENERATION_FAILED,
);
/// The same for an agent.
const AGENT_CONFIG: (&str, &str) = (
    conditions::CONFIG_MAP_AVAILABLE,
    reason::SPIRE_AGENT_CONFIG_MAP_GENERATION_FAILED,
);
/// The same for the OIDC discovery provider.
const OIDC_CONFIG: (&str, &str) = (
    conditions::CONFIG_MAP_AVAILABLE,
    reason::SPIRE_OIDC_CONFIG_MAP_CREATION_FAILED,
);
const ISSUER: (&str, &str) = (conditions::CONFIGURATION_VALID, reason::INVALID_JWT_ISSUER_URL);
const OTHER: (&str, &str) = (conditions::CONFIGURATION_VALID, reason::FAILED);

/// The defects of a SpireServer and of its image. [`common`] is apart, since what it looks at is inherited.
pub fn server(spec: &SpireServerSpec, settings: &Settings) -> Vec<Defect> {
    let mut defects = server_spec(spec);
    defects.extend(version(OperandKind::SpireServer, &settings.images));
    defects
}

/// The defects of a SpireServer.
pub fn server_spec(spec: &SpireServerSpec) -> Vec<Defect> {
    let mut defects = ttl::defects(spec);
    defects.extend(issuer(spec.jwt_issuer.as_deref()));
    defects.extend(spec.datastore.iter().flat_map(database::defects));
    defects.extend(federation::defects(spec));
    if let Some(resources) = &spec.controller_manager_resources {
        defects.extend(resources::defects("spec.controllerManagerResources", resources));
    }
    defects
}

/// Lines for whoever writes a SpireServer.
pub fn server_advice(spec: &SpireServerSpec) -> Vec<String> {
    let mut advice = warnings(spec);
    advice.extend(issuer_advice(spec.jwt_issuer.as_deref()));
    advice.extend(spec.datastore.iter().flat_map(database::advice));
    advice.extend(federation::advice(spec));
    let persistence = spec.persistence.as_ref();
    if let Some(kind) = persistence.and_then(|persistence| persistence.r#type)
        && kind != PersistenceType::Pvc
    {
        advice.push(format!(
            "spec.persistence.type: {} is ignored: the server always has a PersistentVolumeClaim",
            kind.as_str()
        ));
    }
    advice
}

/// The defects of a SpireAgent and of its image.
pub fn agent(spec: &SpireAgentSpec, settings: &Settings) -> Vec<Defect> {
    let mut defects = agent_spec(spec);
    defects.extend(version(OperandKind::SpireAgent, &settings.images));
    defects
}

/// The defects of a SpireAgent.
pub fn agent_spec(spec: &SpireAgentSpec) -> Vec<Defect> {
    let mut defects = agent::attestors(spec);
    defects.extend(agent::socket_path("spec.socketPath", &spec.socket_path));
    defects
}

/// The defects of a SpiffeCSIDriver.
pub fn csi(spec: &SpiffeCsiDriverSpec) -> Vec<Defect> {
    let mut defects = Vec::new();
    defects.extend(agent::socket_path(
        "spec.agentSocketPath",
        &spec.agent_socket_path,
    ));
    let condition = (conditions::CSI_DRIVER_AVAILABLE, reason::FAILED);
    defects.extend(agent::driver_name(
        "spec.pluginName",
        &spec.plugin_name,
        condition,
    ));
    if let Some(resources) = &spec.registrar_resources {
        defects.extend(resources::defects("spec.registrarResources", resources));
    }
    defects
}

/// Lines for whoever writes a SpiffeCSIDriver.
pub fn csi_advice(spec: &SpiffeCsiDriverSpec) -> Vec<String> {
    let path = spec.agent_socket_path.trim_end_matches('/');
    let directory = crate::children::socket_directory(path);
    let is_file = path.ends_with(".sock");
    let line = format!(
        "spec.agentSocketPath: {path} names a socket, and the directory is what counts: {directory} is used; write that"
    );
    is_file.then_some(line).into_iter().collect()
}

/// The defects of a SpireOIDCDiscoveryProvider and of its image.
pub fn oidc(spec: &SpireOidcDiscoveryProviderSpec, settings: &Settings) -> Vec<Defect> {
    let mut defects = oidc_spec(spec);
    defects.extend(version(OperandKind::SpireOidcDiscoveryProvider, &settings.images));
    defects
}

/// The defects of a SpireOIDCDiscoveryProvider.
pub fn oidc_spec(spec: &SpireOidcDiscoveryProviderSpec) -> Vec<Defect> {
    let mut defects = Vec::new();
    defects.extend(issuer(spec.jwt_issuer.as_deref()));
    defects.extend(agent::driver_name(
        "spec.csiDriverName",
        &spec.csi_driver_name,
        OTHER,
    ));
    defects
}

/// Lines for whoever writes a SpireOIDCDiscoveryProvider.
pub fn oidc_advice(spec: &SpireOidcDiscoveryProviderSpec) -> Vec<String> {
    issuer_advice(spec.jwt_issuer.as_deref()).into_iter().collect()
}

/// The defect of an issuer, if there is an issuer. An empty one is none.
pub fn issuer(issuer: Option<&str>) -> Option<Defect> {
    let error = Issuer::parse(issuer.filter(|issuer| !issuer.is_empty())?).err()?;
    Some(Defect::new("spec.jwtIssuer", error.to_string(), ISSUER))
}

/// The provider serves HTTPS alone, so somebody else has to serve an http issuer; the documents name it all the same.
fn issuer_advice(issuer: Option<&str>) -> Option<String> {
    let issuer = Issuer::parse(issuer?).ok()?;
    issuer.is_insecure.then(|| {
        "spec.jwtIssuer: http lets anyone on the way replace the keys by which tokens are verified: use https. The discovery provider itself \
         serves https alone, so something in front of it has to serve http"
            .to_owned()
    })
}
