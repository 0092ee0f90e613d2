//! The objects of SpireServer around its StatefulSet.

use serde_json::{Value, json};
use trustplane_api::identity::{CommonConfig, SpireServerSpec, names};
use trustplane_plan::Manifest;

use super::maker::ObjectMaker;
use super::{Part, config_map, webhook};
use crate::{Settings, Shared, render};

pub(super) fn objects(
    spec: &SpireServerSpec,
    common: &CommonConfig,
    shared: &Shared,
    settings: &Settings,
) -> Vec<Manifest> {
    let images = &settings.images;
    let server = ObjectMaker::new(Part::Server, common, shared).version(&images.spire_server);
    let manager =
        ObjectMaker::new(Part::ControllerManager, common, shared).version(&images.spire_controller_manager);
    let mut objects = vec![
        server.account(names::SERVER),
        server.service(names::SERVER, Part::Server, ports(spec)),
        webhook::service(&manager),
        server.cluster_binding(names::SERVER, names::SERVER_ROLE, names::SERVER),
        // The two share a pod, so they share its account.
        manager.cluster_binding(
            names::CONTROLLER_MANAGER,
            names::CONTROLLER_MANAGER_ROLE,
            names::SERVER,
        ),
    ];
    objects.extend(server.role(names::BUNDLE, bundle_rules(shared), names::SERVER));
    objects.extend([
        webhook::configuration(&manager),
        config_map(
            &server,
            names::SERVER,
            names::SERVER_CONF,
            &render::server_conf(spec, shared),
        ),
        config_map(
            &manager,
            names::CONTROLLER_MANAGER,
            names::CONTROLLER_MANAGER_CONF,
            &render::controller_manager_conf(shared),
        ),
    ]);
    objects
}

fn ports(spec: &SpireServerSpec) -> Value {
    let mut ports = vec![
        json!({ "name": "grpc", "port": 443, "protocol": "TCP", "targetPort": "grpc" }),
        json!({ "name": "metrics", "port": 9402, "protocol": "TCP", "targetPort": 9402 }),
    ];
    if spec.federation.is_some() {
        ports.push(
            json!({ "name": "federation", "port": 8443, "protocol": "TCP", "targetPort": "federation" }),
        );
    }
    ports.into()
}

/// What the server needs to write the bundle, for the one ConfigMap that it writes.
fn bundle_rules(shared: &Shared) -> Value {
    json!([{
        "apiGroups": [""],
        "resources": ["configmaps"],
        "resourceNames": [shared.bundle],
        "verbs": ["get", "patch"],
    }])
}
