//! The objects of SpireAgent.

use serde_json::{Value, json};
use trustplane_api::identity::{CommonConfig, SpireAgentSpec, names};
use trustplane_plan::Manifest;
use trustplane_plan::kinds::DAEMON_SET;

use super::container::{
    config_map_volume, container, empty_dir, host_path, mount, port, probe, read_only, root, size,
};
use super::maker::{ObjectMaker, hash};
use super::pod::{Reach, pod};
use super::{CONFIG_HASH, Part, config_map, socket_directory};
use crate::render::{self, paths};
use crate::{Settings, Shared};

const AGENT: &str = "spire-agent";

/// How long the token lasts by which an agent attests, in seconds. Kubelet renews it.
const TOKEN_SECONDS: u32 = 7200;

pub(super) fn objects(
    spec: &SpireAgentSpec,
    common: &CommonConfig,
    shared: &Shared,
    settings: &Settings,
) -> Vec<Manifest> {
    let maker = ObjectMaker::new(Part::Agent, common, shared).version(&settings.images.spire_agent);
    let conf = render::agent_conf(spec, shared);
    let metrics = json!([{ "name": "metrics", "port": 9402, "protocol": "TCP", "targetPort": 9402 }]);
    let workload = daemon_set(&maker, &pod_spec(spec, common, shared, settings), &conf);
    vec![
        maker.account(names::AGENT),
        maker.service(names::AGENT, Part::Agent, metrics),
        maker.cluster_binding(names::AGENT, names::AGENT_ROLE, names::AGENT),
        config_map(&maker, names::AGENT, names::AGENT_CONF, &conf),
        workload,
    ]
}

fn daemon_set(maker: &ObjectMaker<'_>, pod: &Value, conf: &str) -> Manifest {
    let hash = hash(&[conf]);
    let annotations = json!({
        "kubectl.kubernetes.io/default-container": AGENT,
        names::AGENT_HASH: hash,
    });
    let (selector, template) = maker.template(&annotations, pod);
    maker
        .object(DAEMON_SET, names::AGENT)
        .annotation(CONFIG_HASH, &hash)
        .with(
            "spec",
            json!({
                "selector": selector,
                "updateStrategy": one_by_one(),
                "template": template,
            }),
        )
}

/// One node at a time, the old pod before the new one: two would fight for the socket.
pub(super) fn one_by_one() -> Value {
    json!({ "type": "RollingUpdate", "rollingUpdate": { "maxSurge": 0, "maxUnavailable": 1 } })
}

fn pod_spec(spec: &SpireAgentSpec, common: &CommonConfig, shared: &Shared, settings: &Settings) -> Value {
    let directory = host_certificates(spec);
    let config = format!("{}/{}", paths::AGENT_CONFIG, names::AGENT_CONF);
    let mut agent = container(
        AGENT,
        &settings.images.spire_agent,
        &["-config", &config],
        settings,
    );
    agent["ports"] = json!([port("healthz", 9982)]);
    agent["livenessProbe"] = probe("/live", "healthz", [15, 60, 3]);
    agent["readinessProbe"] = probe("/ready", "healthz", [2, 5, 3]);
    let mut mounts = vec![
        read_only("spire-config", paths::AGENT_CONFIG),
        mount("spire-agent-persistence", paths::AGENT_DATA),
        read_only("spire-bundle", paths::AGENT_BUNDLE),
        mount("spire-agent-socket-dir", paths::AGENT_SOCKET_DIRECTORY),
        read_only("spire-token", paths::AGENT_TOKENS),
    ];
    mounts.extend(directory.as_deref().map(|path| read_only("kubelet-ca", path)));
    agent["volumeMounts"] = mounts.into();
    size(&mut agent, None, common.resources.as_ref());

    let volumes = volumes(spec, shared, directory.as_deref());
    let mut pod = pod(names::AGENT, common, Reach::Every, json!([agent]), volumes);
    // It asks kubelet at 127.0.0.1, and looks at the processes that ask for an SVID.
    pod["hostNetwork"] = true.into();
    pod["hostPID"] = true.into();
    pod["dnsPolicy"] = "ClusterFirstWithHostNet".into();
    // Directories of a node belong to root.
    pod["securityContext"] = root();
    pod
}

fn volumes(spec: &SpireAgentSpec, shared: &Shared, host_certificates: Option<&str>) -> Value {
    let mut volumes = vec![
        config_map_volume("spire-config", names::AGENT),
        empty_dir("spire-agent-persistence"),
        // A volume that names a key waits for it: kubelet holds the pod until the server has written the bundle.
        json!({ "name": "spire-bundle", "configMap": {
            "name": shared.bundle,
            "items": [{ "key": names::BUNDLE_KEY, "path": names::BUNDLE_KEY }],
        } }),
        host_path(
            "spire-agent-socket-dir",
            socket_directory(&spec.socket_path),
            "DirectoryOrCreate",
        ),
        json!({ "name": "spire-token", "projected": { "sources": [{ "serviceAccountToken": {
            "audience": names::SERVER,
            "expirationSeconds": TOKEN_SECONDS,
            "path": names::AGENT,
        } }] } }),
    ];
    volumes.extend(host_certificates.map(|path| host_path("kubelet-ca", path, "Directory")));
    volumes.into()
}

/// The directory of the node with the CA of kubelet, if the agent verifies kubelet by a file of the node.
fn host_certificates(spec: &SpireAgentSpec) -> Option<String> {
    let attestors = spec.workload_attestors.as_ref()?;
    let file = render::kubelet_ca(attestors.workload_attestors_verification.as_ref())?;
    let (directory, _) = file.rsplit_once('/').filter(|_| file != paths::CLUSTER_CA)?;
    Some(directory.to_owned())
}
