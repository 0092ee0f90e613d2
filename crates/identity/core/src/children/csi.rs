//! The objects of SpiffeCSIDriver.

use serde_json::{Value, json};
use trustplane_api::identity::{CommonConfig, SpiffeCsiDriverSpec, names};
use trustplane_plan::Manifest;
use trustplane_plan::kinds::{CSI_DRIVER, DAEMON_SET};

use super::Part;
use super::agent::one_by_one;
use super::container::{
    container, host_path, mount, node_name, port, privileged, probe, read_only, root, size,
};
use super::maker::ObjectMaker;
use super::pod::{Reach, pod};
use crate::{Settings, Shared};

const DRIVER: &str = "spiffe-csi-driver";
/// The directory with the socket of the agent, inside the driver.
const AGENT_SOCKET: &str = "/spire-agent-socket";
/// The directory with the socket of the driver, inside the containers.
const DRIVER_SOCKET: &str = "/spiffe-csi";
/// The directory in which kubelet looks for drivers, inside the registrar.
const REGISTRATION: &str = "/registration";
/// Lets pods with the security profile `restricted` use the driver, where OpenShift asks for it.
const PROFILE: (&str, &str) = ("security.openshift.io/csi-ephemeral-volume-profile", "restricted");

/// The directory of nodes that a path for the socket of the agent means: without a slash at its end. In release 0 of the original,
/// agentSocketPath of SpiffeCSIDriver was the socket itself, so a file name that ends with `.sock` is left out.
pub fn socket_directory(path: &str) -> &str {
    let path = path.trim_end_matches('/');
    let directory = match path.rsplit_once('/') {
        Some((directory, file)) if file.ends_with(".sock") => directory.trim_end_matches('/'),
        _ => path,
    };
    if directory.is_empty() { "/" } else { directory }
}

pub(super) fn objects(
    spec: &SpiffeCsiDriverSpec,
    common: &CommonConfig,
    shared: &Shared,
    settings: &Settings,
) -> Vec<Manifest> {
    let maker = ObjectMaker::new(Part::CsiDriver, common, shared).version(&settings.images.spiffe_csi_driver);
    let driver = maker
        .object(CSI_DRIVER, &spec.plugin_name)
        .label(PROFILE.0, PROFILE.1)
        .with(
            "spec",
            json!({
                "attachRequired": false,
                "fsGroupPolicy": "None",
                "podInfoOnMount": true,
                "volumeLifecycleModes": ["Ephemeral"],
            }),
        );
    let annotations = json!({ "kubectl.kubernetes.io/default-container": DRIVER });
    let (selector, template) = maker.template(&annotations, &pod_spec(spec, common, settings));
    let workload = maker.object(DAEMON_SET, names::CSI_DRIVER).with(
        "spec",
        json!({
            "selector": selector,
            "updateStrategy": one_by_one(),
            "template": template,
        }),
    );
    vec![maker.account(names::CSI_DRIVER), driver, workload]
}

fn pod_spec(spec: &SpiffeCsiDriverSpec, common: &CommonConfig, settings: &Settings) -> Value {
    let kubelet = settings.kubelet_root.trim_end_matches('/');
    let plugin = format!("{kubelet}/plugins/{}", spec.plugin_name);
    let pods = format!("{kubelet}/pods");
    let socket = socket_directory(&spec.agent_socket_path);
    let containers = json!([
        driver(spec, common, settings, &pods),
        registrar(spec, common, settings, &plugin),
    ]);
    let volumes = json!([
        host_path("spire-agent-socket-dir", socket, "DirectoryOrCreate"),
        host_path("spiffe-csi-socket-dir", &plugin, "DirectoryOrCreate"),
        host_path("mountpoint-dir", &pods, "Directory"),
        host_path(
            "kubelet-plugin-registration-dir",
            &format!("{kubelet}/plugins_registry"),
            "Directory"
        ),
    ]);
    let mut pod = pod(names::CSI_DRIVER, common, Reach::Every, containers, volumes);
    // It asks nobody but the agent and kubelet.
    pod["automountServiceAccountToken"] = false.into();
    pod["securityContext"] = root();
    if settings.selinux {
        pod["initContainers"] = json!([set_context(common, settings)]);
    }
    pod
}

fn driver(spec: &SpiffeCsiDriverSpec, common: &CommonConfig, settings: &Settings, pods: &str) -> Value {
    let socket = format!("{DRIVER_SOCKET}/csi.sock");
    let args = [
        "-workload-api-socket-dir",
        AGENT_SOCKET,
        "-plugin-name",
        &spec.plugin_name,
        "-csi-socket-path",
        &socket,
    ];
    let mut driver = container(DRIVER, &settings.images.spiffe_csi_driver, &args, settings);
    driver["env"] = json!([node_name("MY_NODE_NAME")]);
    // It mounts the directory of the socket into pods: what it mounts has to be seen by the node.
    driver["securityContext"] = privileged();
    let mut mountpoints = mount("mountpoint-dir", pods);
    mountpoints["mountPropagation"] = "Bidirectional".into();
    driver["volumeMounts"] = json!([
        read_only("spire-agent-socket-dir", AGENT_SOCKET),
        mount("spiffe-csi-socket-dir", DRIVER_SOCKET),
        mountpoints,
    ]);
    size(&mut driver, None, common.resources.as_ref());
    driver
}

/// Tells kubelet of the driver.
fn registrar(spec: &SpiffeCsiDriverSpec, common: &CommonConfig, settings: &Settings, plugin: &str) -> Value {
    let (socket, registered) = (format!("{DRIVER_SOCKET}/csi.sock"), format!("{plugin}/csi.sock"));
    let args = [
        "-csi-address",
        &socket,
        "-kubelet-registration-path",
        &registered,
        "-health-port",
        "9809",
    ];
    let image = &settings.images.node_driver_registrar;
    let mut registrar = container("node-driver-registrar", image, &args, settings);
    registrar["ports"] = json!([port("healthz", 9809)]);
    registrar["livenessProbe"] = probe("/healthz", "healthz", [5, 10, 3]);
    registrar["volumeMounts"] = json!([
        mount("spiffe-csi-socket-dir", DRIVER_SOCKET),
        mount("kubelet-plugin-registration-dir", REGISTRATION),
    ]);
    size(
        &mut registrar,
        spec.registrar_resources.as_ref(),
        common.resources.as_ref(),
    );
    registrar
}

/// Lets pods use the socket where nodes run SELinux.
fn set_context(common: &CommonConfig, settings: &Settings) -> Value {
    let args = ["-Rvt", "container_file_t", AGENT_SOCKET];
    let mut init = container("set-context", &settings.images.csi_init, &args, settings);
    init["command"] = json!(["chcon"]);
    init["securityContext"] = privileged();
    init["volumeMounts"] = json!([mount("spire-agent-socket-dir", AGENT_SOCKET)]);
    size(&mut init, None, common.resources.as_ref());
    init
}
