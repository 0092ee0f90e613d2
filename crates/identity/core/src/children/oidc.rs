//! The objects of SpireOIDCDiscoveryProvider.

use serde_json::{Value, json};
use trustplane_api::identity::{CommonConfig, SpireOidcDiscoveryProviderSpec, names};
use trustplane_plan::Manifest;
use trustplane_plan::kinds::DEPLOYMENT;

use super::container::{
    config_map_volume, container, file, ordinary_user, port, probe, read_only, secret_volume, size,
};
use super::maker::{ObjectMaker, hash};
use super::pod::{Reach, pod};
use super::{CONFIG_HASH, Part, config_map, identity};
use crate::render::{self, paths};
use crate::{Settings, Shared};

const PROVIDER: &str = "spiffe-oidc-discovery-provider";

pub(super) fn objects(
    spec: &SpireOidcDiscoveryProviderSpec,
    common: &CommonConfig,
    shared: &Shared,
    settings: &Settings,
    issuer: &str,
) -> Vec<Manifest> {
    let maker =
        ObjectMaker::new(Part::Oidc, common, shared).version(&settings.images.oidc_discovery_provider);
    let conf = render::oidc_conf(spec, shared, issuer);
    let https = json!([{ "name": "https", "port": 443, "protocol": "TCP", "targetPort": "https" }]);
    vec![
        maker.account(names::OIDC),
        maker.service(names::OIDC, Part::Oidc, https),
        config_map(&maker, names::OIDC, names::OIDC_CONF, &conf),
        deployment(spec, &maker, &pod_spec(spec, common, settings), &conf),
        maker.disruption_budget(names::OIDC, spec.replica_count),
        identity::oidc(&maker),
    ]
}

fn deployment(
    spec: &SpireOidcDiscoveryProviderSpec,
    maker: &ObjectMaker<'_>,
    pod: &Value,
    conf: &str,
) -> Manifest {
    let hash = hash(&[conf]);
    let annotations = json!({
        "kubectl.kubernetes.io/default-container": PROVIDER,
        names::OIDC_HASH: hash,
    });
    let (selector, template) = maker.template(&annotations, pod);
    maker
        .object(DEPLOYMENT, names::OIDC)
        .annotation(CONFIG_HASH, &hash)
        .with(
            "spec",
            json!({
                "replicas": spec.replica_count,
                "selector": selector,
                "strategy": {
                    "type": "RollingUpdate",
                    "rollingUpdate": { "maxSurge": 1, "maxUnavailable": 0 },
                },
                "template": template,
            }),
        )
}

fn pod_spec(spec: &SpireOidcDiscoveryProviderSpec, common: &CommonConfig, settings: &Settings) -> Value {
    let args = ["-config", paths::OIDC_CONFIG];
    let image = &settings.images.oidc_discovery_provider;
    let mut provider = container(PROVIDER, image, &args, settings);
    provider["ports"] = json!([port("healthz", 8008), port("https", 8443)]);
    provider["livenessProbe"] = probe("/live", "healthz", [15, 60, 3]);
    provider["readinessProbe"] = probe("/ready", "healthz", [2, 5, 3]);
    provider["volumeMounts"] = json!([
        read_only("spiffe-workload-api", paths::WORKLOAD_API),
        read_only("tls-certs", paths::OIDC_CERTS),
        file("spire-oidc-config", paths::OIDC_CONFIG, names::OIDC_CONF),
    ]);
    size(&mut provider, None, common.resources.as_ref());
    let volumes = json!([
        { "name": "spiffe-workload-api", "csi": { "driver": spec.csi_driver_name, "readOnly": true } },
        secret_volume("tls-certs", names::OIDC_CERT),
        config_map_volume("spire-oidc-config", names::OIDC),
    ]);
    let mut pod = pod(names::OIDC, common, Reach::Some, json!([provider]), volumes);
    // It asks nobody but the agent.
    pod["automountServiceAccountToken"] = false.into();
    pod["securityContext"] = ordinary_user();
    pod
}
