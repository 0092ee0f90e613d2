use std::collections::BTreeSet;

use serde_json::{Value, json};
use trustplane_api::hsm::conditions::event;
use trustplane_api::hsm::{HsmDeviceSpec, HsmPoolStatus};
use trustplane_plan::kinds::DAEMON_SET;

use super::*;
use crate::decide::world::{Cluster, fingerprinter, meta, pico, pool_view, rules, soft, spec, steps, view};
use crate::usb::Selection;

fn input(spec: &HsmDeviceSpec) -> DeviceInput {
    DeviceInput {
        device: view("hsm", "pico", spec),
        pool: None,
        pools: Vec::new(),
        live: Vec::new(),
        complete: true,
    }
}

fn decide(input: &DeviceInput) -> Plan {
    decide_device(input, &rules(), &fingerprinter())
}

/// The DaemonSet that is made.
fn daemon_set(input: &DeviceInput) -> Value {
    let mut cluster = Cluster::default();
    cluster.apply(&decide(input));
    cluster.body(&DAEMON_SET, "pico-discovery").unwrap().clone()
}

fn pod(daemon_set: &Value) -> &Value {
    &daemon_set["spec"]["template"]["spec"]
}

/// The input after a plan was carried out.
fn after(input: &DeviceInput, cluster: &mut Cluster) -> DeviceInput {
    cluster.apply(&decide(input));
    let live = cluster.live();
    let pool = cluster.meta(&POOL, "pico-pool").map(|meta| PoolView {
        meta: meta.clone(),
        ..pool_view("hsm", "pico", HsmPoolStatus::default())
    });
    DeviceInput {
        pools: pool.iter().cloned().collect(),
        pool,
        live: live.into_iter().filter(|(kind, _)| *kind == DAEMON_SET).collect(),
        ..input.clone()
    }
}

#[test]
fn a_device_gets_a_pool_and_a_daemon_set_and_then_rests() {
    let input = input(&pico());
    assert_eq!(
        steps(&decide(&input)),
        [
            "create HSMPool hsm/pico-pool",
            "create DaemonSet hsm/pico-discovery"
        ]
    );
    let rest = after(&input, &mut Cluster::default());
    assert_eq!(steps(&decide(&rest)), [""; 0]);
}

#[test]
fn the_pool_has_the_labels_of_the_original_and_is_owned() {
    let mut cluster = Cluster::default();
    cluster.apply(&decide(&input(&pico())));
    let pool = cluster.body(&POOL, "pico-pool").unwrap();
    for (key, value) in [
        ("app.kubernetes.io/name", "hsm-secrets-operator"),
        ("app.kubernetes.io/component", "pool"),
        ("hsm.j5t.io/device", "pico"),
    ] {
        assert_eq!(pool["metadata"]["labels"][key], value);
    }
    assert_eq!(pool["metadata"]["ownerReferences"][0]["uid"], "uid-hsm-pico");
    // People may change the grace period: it is none of our fields.
    assert_eq!(pool["spec"], json!({"hsmDeviceRef": "pico"}));
}

#[test]
fn the_daemon_set_has_no_more_than_it_must_read() {
    let made = daemon_set(&input(&pico()));
    let (pod, container) = (pod(&made), &pod(&made)["containers"][0]);
    assert_eq!(
        container["securityContext"],
        json!({
            "allowPrivilegeEscalation": false, "privileged": false, "readOnlyRootFilesystem": true,
            "capabilities": {"drop": ["ALL"]},
        })
    );
    assert_eq!(
        pod["securityContext"],
        json!({"runAsUser": 0, "seccompProfile": {"type": "RuntimeDefault"}})
    );
    assert_eq!(pod["serviceAccountName"], "trustplane-discovery");
    let plugins = "/var/lib/kubelet/device-plugins";
    let read_only = |name: &str, path: &str| json!({"name": name, "mountPath": path, "readOnly": true, "recursiveReadOnly": "IfPossible"});
    assert_eq!(
        container["volumeMounts"],
        json!([
            read_only("sys-bus", "/host/sys/bus"),
            read_only("sys-devices", "/host/sys/devices"),
            read_only("dev-usb", "/host/dev/bus/usb"),
            {"name": "device-plugins", "mountPath": plugins},
        ])
    );
    assert_eq!(
        pod["volumes"],
        json!([
            {"name": "sys-bus", "hostPath": {"path": "/sys/bus", "type": "Directory"}},
            {"name": "sys-devices", "hostPath": {"path": "/sys/devices", "type": "Directory"}},
            {"name": "dev-usb", "hostPath": {"path": "/dev/bus/usb", "type": "DirectoryOrCreate"}},
            {"name": "device-plugins", "hostPath": {"path": plugins, "type": "Directory"}},
        ])
    );
    for of_node in ["hostNetwork", "hostPID", "hostIPC", "initContainers"] {
        assert_eq!(pod.get(of_node), None, "{of_node}");
    }
    assert_eq!(pod["containers"].as_array().map(Vec::len), Some(1));
    assert_eq!(container["livenessProbe"]["httpGet"]["path"], "/livez");
    assert_eq!(container["readinessProbe"]["httpGet"]["path"], "/readyz");
    assert_eq!(
        made["spec"]["updateStrategy"]["rollingUpdate"]["maxUnavailable"],
        "50%"
    );
    assert_eq!(
        pod["tolerations"],
        json!([{"key": "hsm-node", "operator": "Exists", "effect": "NoSchedule"}])
    );
}

/// A pattern may lead anywhere below `/dev`, and needs nothing of sysfs.
#[test]
fn discovery_of_device_files_mounts_all_of_dev_and_nothing_of_sysfs() {
    let files = spec(json!({"deviceType": "Generic", "discovery": {"devicePath": {"path": "/dev/ttyUSB*"}}}));
    let made = daemon_set(&input(&files));
    let volumes = pod(&made)["volumes"].as_array().unwrap().iter();
    let paths: Vec<_> = volumes.map(|volume| &volume["hostPath"]["path"]).collect();
    assert_eq!(paths, ["/dev", "/var/lib/kubelet/device-plugins"]);
    let mount = &pod(&made)["containers"][0]["volumeMounts"][0];
    assert_eq!(
        (&mount["mountPath"], &mount["recursiveReadOnly"]),
        (&json!("/host/dev"), &json!("IfPossible"))
    );
}

#[test]
fn w12_discovery_is_told_which_device_it_is_for_and_what_to_look_for() {
    let made = daemon_set(&input(&pico()));
    let arguments = pod(&made)["containers"][0]["args"].as_array().unwrap();
    let value = |name: &str| {
        let prefix = format!("--{name}=");
        let found = arguments
            .iter()
            .find_map(|argument| argument.as_str()?.strip_prefix(&prefix));
        found.unwrap_or_default().to_owned()
    };
    assert_eq!(value("device-name"), "pico");
    assert_eq!(value("type-resource"), "", "a type is not offered by default");
    assert_eq!(value("grace-period"), "300");
    let selection: Selection = serde_json::from_str(&value("selection")).unwrap();
    assert_eq!(selection.usb.len(), 1);
    assert_eq!(selection.max_devices, Some(10));
}

#[test]
fn the_grace_period_of_the_pool_reaches_discovery() {
    let mut input = input(&pico());
    assert!(daemon_set(&input).to_string().contains("\"--grace-period=300\""));
    let mut pool = pool_view("hsm", "pico", HsmPoolStatus::default());
    pool.spec.grace_period = "90s".to_owned();
    input.pools = vec![pool.clone()];
    input.pool = Some(pool);
    assert!(daemon_set(&input).to_string().contains("\"--grace-period=90\""));
}

#[test]
fn discovery_beats_for_the_most_impatient_of_its_pools() {
    let mut input = input(&pico());
    let pools = ["5m", "30s", "90s"].map(|grace| {
        let mut pool = pool_view("hsm", "pico", HsmPoolStatus::default());
        pool.spec.grace_period = grace.to_owned();
        pool
    });
    input.pool = Some(pools[0].clone());
    input.pools = pools.into();
    assert!(daemon_set(&input).to_string().contains("\"--grace-period=30\""));
}

/// The type is known by any of its names; its resource has the one that was written, as in the original.
#[test]
fn the_resource_of_a_type_is_what_people_have_called_it() {
    for (given, resource) in [
        ("SmartCardHSM", "hsm.j5t.io/smartcardhsm"),
        ("SmartCard-HSM", "hsm.j5t.io/smartcard-hsm"),
        ("Pico-HSM", "hsm.j5t.io/pico-hsm"),
    ] {
        let spec = spec(json!({"deviceType": given}));
        let rules = Rules {
            offer_types: true,
            ..rules()
        };
        let mut cluster = Cluster::default();
        cluster.apply(&decide_device(&input(&spec), &rules, &fingerprinter()));
        let made = cluster.body(&DAEMON_SET, "pico-discovery").unwrap().to_string();
        assert!(
            made.contains(&format!("\"--type-resource={resource}\"")),
            "{made}"
        );
        let numbers = if given.starts_with("Pico") { "2e8a" } else { "04e6" };
        assert!(made.contains(numbers), "{made}");
    }
}

#[test]
fn w13_any_node_selector_is_copied() {
    let mut spec = pico();
    spec.node_selector = [("hsm-type".to_owned(), "pico".to_owned())].into();
    assert_eq!(
        pod(&daemon_set(&input(&spec)))["nodeSelector"],
        json!({"hsm-type": "pico"})
    );
    assert_eq!(pod(&daemon_set(&input(&pico()))).get("nodeSelector"), None);
}

#[test]
fn w17_in_test_mode_every_mount_has_its_volume_and_nothing_is_of_the_node() {
    let mut input = input(&pico());
    for mode in ["false", "true"] {
        let annotations = &mut input.device.meta.annotations;
        annotations.insert(TEST_MODE_ANNOTATION.to_owned(), mode.to_owned());
        let made = daemon_set(&input);
        let names = |list: &Value| -> BTreeSet<String> {
            let list = list.as_array().unwrap().iter();
            list.map(|item| item["name"].as_str().unwrap().to_owned())
                .collect()
        };
        let pod = pod(&made);
        assert_eq!(
            names(&pod["volumes"]),
            names(&pod["containers"][0]["volumeMounts"])
        );
        assert_eq!(pod["volumes"].to_string().contains("hostPath"), mode == "false");
        let non_root = pod["securityContext"]["runAsNonRoot"] == true;
        assert_eq!(non_root, mode == "true");
    }
}

#[test]
fn static_tokens_and_a_discovery_that_is_switched_off_need_no_daemon_set() {
    let mut cluster = Cluster::default();
    let mut rest = after(&input(&pico()), &mut cluster);
    let wanted = "delete DaemonSet hsm/pico-discovery (uid uid-DaemonSet hsm/pico-discovery)";
    let off = spec(json!({"deviceType": "PicoHSM", "discovery": {"autoDiscovery": false}}));
    rest.device = view("hsm", "pico", &off);
    assert_eq!(steps(&decide(&rest)), [wanted]);
    rest.device = view("hsm", "pico", &soft(json!([{"name": "a", "tokenLabel": "a"}])));
    assert_eq!(steps(&decide(&rest)), [wanted]);
    rest.complete = false;
    assert_eq!(steps(&decide(&rest)), [""; 0]);
    rest.live.clear();
    rest.complete = true;
    assert_eq!(steps(&decide(&rest)), [""; 0]);
}

#[test]
fn a_faulty_device_has_a_pool_that_can_say_so_and_its_daemon_set_stays() {
    let faulty = spec(json!({"deviceType": "PicoHSM", "discovery": {"usb": []}}));
    let mut input = input(&faulty);
    assert_eq!(steps(&decide(&input)), ["create HSMPool hsm/pico-pool"]);
    let mut rest = after(&super::tests::input(&pico()), &mut Cluster::default());
    rest.device = input.device.clone();
    assert_eq!(steps(&decide(&rest)), [""; 0]);
    input.device.meta.deleted = Some("2026-01-01T00:00:00Z".parse().unwrap());
    assert_eq!(steps(&decide(&input)), [""; 0]);
}

#[test]
fn a_pool_that_somebody_made_for_the_device_is_taken_as_it_is() {
    let mut input = input(&pico());
    let mut pool = pool_view("hsm", "pico", HsmPoolStatus::default());
    pool.meta.owners.clear();
    pool.spec.hsm_device_refs = vec!["other".to_owned(), "pico".to_owned()];
    input.pool = Some(pool.clone());
    assert_eq!(steps(&decide(&input)), ["create DaemonSet hsm/pico-discovery"]);
    pool.spec.hsm_device_refs = vec!["other".to_owned()];
    input.pool = Some(pool);
    let plan = decide(&input);
    assert!(matches!(&plan.steps[0], Step::Tell(note) if note.reason == event::POOL_TAKEN));
}

#[test]
fn the_daemon_set_of_the_original_makes_room_and_that_of_somebody_else_does_not() {
    let mut input = input(&pico());
    let live = |owner: &str| {
        let meta = meta(json!({
            "name": "pico-discovery", "namespace": "hsm", "uid": "old", "resourceVersion": "5",
            "ownerReferences": [{
                "apiVersion": "hsm.j5t.io/v1alpha1", "kind": "HSMDevice", "name": "pico", "uid": owner,
                "controller": true,
            }],
        }));
        vec![(DAEMON_SET, meta)]
    };
    input.live = live("uid-hsm-pico");
    let told = steps(&decide(&input));
    assert_eq!(told[1], "delete DaemonSet hsm/pico-discovery (uid old)");
    input.live = live("uid-of-somebody");
    let plan = decide(&input);
    assert!(matches!(&plan.steps[1], Step::Tell(note) if note.reason == event::DISCOVERY_TAKEN));
}

#[test]
fn a_selection_is_never_rewritten_by_the_kubelet() {
    let spec = spec(json!({
        "deviceType": "PicoHSM",
        "discovery": {"usb": [{"vendorId": "20a0", "productId": "4230", "serialNumber": "$(POD_UID)"}]},
    }));
    assert!(daemon_set(&input(&spec)).to_string().contains("$$(POD_UID)"));
}
