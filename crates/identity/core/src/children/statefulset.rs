//! The pod of SpireServer: the server, and the controller-manager beside it.

use serde_json::{Value, json};
use trustplane_api::identity::{CommonConfig, SpireServerSpec, names};
use trustplane_plan::Manifest;
use trustplane_plan::kinds::STATEFUL_SET;

use super::container::{
    config_map_volume, container, empty_dir, file, mount, ordinary_user, port, probe, read_only,
    secret_volume, size,
};
use super::maker::{ObjectMaker, hash};
use super::pod::{Reach, pod};
use super::{CONFIG_HASH, Part};
use crate::render::{self, paths};
use crate::{Settings, Shared};

const SERVER: &str = "spire-server";
const CONTROLLER_MANAGER: &str = "spire-controller-manager";

/// The name of the volume claim template: the claim is `spire-data-spire-server-0`.
const DATA: &str = "spire-data";
const SOCKET: &str = "spire-server-socket";

pub(super) fn manifest(
    spec: &SpireServerSpec,
    common: &CommonConfig,
    shared: &Shared,
    settings: &Settings,
) -> Manifest {
    let maker = ObjectMaker::new(Part::Server, common, shared).version(&settings.images.spire_server);
    let containers = json!([
        server(spec, common, settings),
        controller_manager(spec, common, settings)
    ]);
    let mut pod = pod(names::SERVER, common, Reach::Some, containers, volumes(spec));
    pod["securityContext"] = ordinary_user();
    let files = [
        render::server_conf(spec, shared),
        render::controller_manager_conf(shared),
    ];
    let annotations = json!({
        "kubectl.kubernetes.io/default-container": SERVER,
        names::SERVER_HASH: hash(&[&files[0]]),
        names::CONTROLLER_MANAGER_HASH: hash(&[&files[1]]),
    });
    let (selector, template) = maker.template(&annotations, &pod);
    maker
        .object(STATEFUL_SET, names::SERVER)
        .annotation(CONFIG_HASH, &hash(&[&files[0], &files[1]]))
        .with(
            "spec",
            json!({
                // Two servers would need a database that both reach.
                "replicas": 1,
                "serviceName": names::SERVER,
                "selector": selector,
                "updateStrategy": { "type": "RollingUpdate" },
                // The volume holds the keys and the entries of the trust domain: it outlives everything.
                "persistentVolumeClaimRetentionPolicy": { "whenDeleted": "Retain", "whenScaled": "Retain" },
                "template": template,
                "volumeClaimTemplates": [claim(spec)],
            }),
        )
}

/// The claim of the volume. Kubernetes does not let it change, so it has no label of the spec.
fn claim(spec: &SpireServerSpec) -> Value {
    let persistence = spec.persistence.clone().unwrap_or_default();
    let mut claim = json!({
        "accessModes": [persistence.access_mode.as_str()],
        "resources": { "requests": { "storage": persistence.size } },
        "volumeMode": "Filesystem",
    });
    if !persistence.storage_class.is_empty() {
        claim["storageClassName"] = persistence.storage_class.into();
    }
    json!({ "metadata": { "name": DATA }, "spec": claim })
}

fn server(spec: &SpireServerSpec, common: &CommonConfig, settings: &Settings) -> Value {
    let config = format!("{}/{}", paths::SERVER_CONFIG, names::SERVER_CONF);
    let args = ["-expandEnv", "-config", &config];
    let mut server = container(SERVER, &settings.images.spire_server, &args, settings);
    server["ports"] = json!([
        port("grpc", 8081),
        port("server-healthz", 8080),
        port("federation", 8443),
    ]);
    server["livenessProbe"] = probe("/live", "server-healthz", [15, 60, 3]);
    server["readinessProbe"] = probe("/ready", "server-healthz", [2, 5, 3]);
    let mut mounts = vec![
        mount("server-tmp", "/tmp"),
        read_only("spire-config", paths::SERVER_CONFIG),
        mount(SOCKET, paths::SERVER_SOCKET_DIRECTORY),
        mount(DATA, paths::SERVER_DATA),
    ];
    let certificates = certificates(spec).into_iter();
    mounts.extend(certificates.map(|(volume, _, path)| read_only(volume, path)));
    server["volumeMounts"] = mounts.into();
    size(&mut server, None, common.resources.as_ref());
    server
}

fn controller_manager(spec: &SpireServerSpec, common: &CommonConfig, settings: &Settings) -> Value {
    let config = format!("--config={}", paths::CONTROLLER_MANAGER_CONFIG);
    let image = &settings.images.spire_controller_manager;
    let mut manager = container(CONTROLLER_MANAGER, image, &[&config], settings);
    manager["env"] = json!([{ "name": "ENABLE_WEBHOOKS", "value": "true" }]);
    manager["ports"] = json!([port("https", 9443), port("ctrlmgr-healthz", 8083)]);
    manager["livenessProbe"] = probe("/healthz", "ctrlmgr-healthz", [15, 60, 3]);
    manager["readinessProbe"] = probe("/readyz", "ctrlmgr-healthz", [2, 5, 3]);
    manager["volumeMounts"] = json!([
        read_only(SOCKET, paths::SERVER_SOCKET_DIRECTORY),
        file(
            "controller-manager-config",
            paths::CONTROLLER_MANAGER_CONFIG,
            names::CONTROLLER_MANAGER_CONF
        ),
        mount("spire-controller-manager-tmp", "/tmp"),
    ]);
    size(
        &mut manager,
        spec.controller_manager_resources.as_ref(),
        common.resources.as_ref(),
    );
    manager
}

fn volumes(spec: &SpireServerSpec) -> Value {
    let mut volumes = vec![
        empty_dir("server-tmp"),
        config_map_volume("spire-config", names::SERVER),
        empty_dir(SOCKET),
        config_map_volume("controller-manager-config", names::CONTROLLER_MANAGER),
        empty_dir("spire-controller-manager-tmp"),
    ];
    let certificates = certificates(spec).into_iter();
    volumes.extend(certificates.map(|(volume, secret, _)| secret_volume(volume, secret)));
    volumes.into()
}

/// The Secrets with certificates that the server uses: volume, Secret and where it is mounted. Kubelet holds the pod until they are there.
fn certificates(spec: &SpireServerSpec) -> Vec<(&'static str, &str, &'static str)> {
    let database = spec.datastore.as_ref().and_then(render::tls_secret);
    let database = database.map(|secret| ("db-certs", secret, paths::DATABASE_CERTS));
    let federation = render::federation_certificate(spec).map(|cert| {
        // Without a Route in front of it, the endpoint itself shows the certificate of the Web PKI.
        let named = cert
            .external_secret_ref
            .as_deref()
            .filter(|name| !name.is_empty());
        (
            "spire-server-tls",
            named.unwrap_or(names::SERVER_CERT),
            paths::FEDERATION_CERTS,
        )
    });
    database.into_iter().chain(federation).collect()
}
