//! What the pod of an agent looks like.

use trustplane_api::hsm::conditions::phase;

use super::*;
use crate::decide::world::soft;

#[test]
fn w35_every_object_of_an_agent_is_owned_and_has_labels_that_are_valid() {
    let odd = "DENK 01/ä";
    let mut input = input(
        &pico(),
        status(phase::READY, vec![token(odd, "n1", "/dev/bus/usb/001/015", true)]),
    );
    let cluster = running(&mut input);
    assert_eq!(cluster.objects.len(), 7);
    for (target, (_, body)) in &cluster.objects {
        assert_eq!(
            body["metadata"]["ownerReferences"][0]["uid"], "uid-hsm-pico",
            "{target}"
        );
        assert_eq!(
            body["metadata"]["labels"]["hsm.j5t.io/device"], "pico",
            "{target}"
        );
    }
    let name = crate::objects::agent_name("pico", odd);
    let made = cluster.body(&DEPLOYMENT, &name).unwrap();
    let labels = made["metadata"]["labels"].as_object().unwrap();
    for value in labels.values().filter_map(Value::as_str) {
        assert_eq!(crate::objects::label_value(value), value);
    }
    assert!(arguments(made).contains(&format!("--reader-serial={odd}")));
    assert_eq!(made["spec"]["selector"]["matchLabels"], json!({"app": name}));
}

#[test]
fn w35_the_labels_are_those_of_the_original() {
    let made = deployment(&one(), NAME);
    let labels = &made["spec"]["template"]["metadata"]["labels"];
    assert_eq!(
        *labels,
        json!({
            "app": NAME,
            "app.kubernetes.io/component": "hsm-agent",
            "app.kubernetes.io/name": "hsm-agent",
            "app.kubernetes.io/instance": NAME,
            "app.kubernetes.io/part-of": "hsm-secrets-operator",
            "hsm.j5t.io/device": "pico",
            "hsm.j5t.io/serial-number": "e6",
            "hsm.j5t.io/device-path": "dev-bus-usb-001-015-b9eec8b6ab",
        })
    );
}

#[test]
fn w16_an_agent_requests_its_own_token_and_is_pinned_to_its_node() {
    let made = deployment(&one(), NAME);
    let container = &pod(&made)["containers"][0];
    for part in ["requests", "limits"] {
        assert_eq!(container["resources"][part]["hsm.j5t.io/token-e6"], "1");
    }
    assert_eq!(
        pod(&made)["nodeSelector"],
        json!({"kubernetes.io/hostname": "n1"})
    );
    let affinity = pod(&made)["affinity"].to_string();
    assert!(affinity.contains(r#""values":["n1"]"#), "{affinity}");
    assert_eq!(made["spec"]["strategy"], json!({"type": "Recreate"}));
}

/// The security context of the pod, where a node tells this of the device file.
fn as_whom(access: &[(&str, &str)]) -> Value {
    let mut input = one();
    let told = access
        .iter()
        .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
    input.pools[0].status.aggregated_devices[0]
        .device_info
        .extend(told);
    pod(&deployment(&input, NAME))["securityContext"].clone()
}

#[test]
fn f53_an_agent_has_no_capability_and_root_only_where_nobody_else_may_open_the_device() {
    let made = deployment(&one(), NAME);
    let container = &pod(&made)["containers"][0];
    assert_eq!(
        container["securityContext"],
        json!({
            "allowPrivilegeEscalation": false, "privileged": false, "readOnlyRootFilesystem": true,
            "capabilities": {"drop": ["ALL"]},
        })
    );
    assert_eq!(
        container["livenessProbe"]["httpGet"],
        json!({"path": "/livez", "port": "health", "scheme": "HTTP"})
    );
    let seccomp = json!({"type": "RuntimeDefault"});
    let root = json!({"runAsUser": 0, "seccompProfile": seccomp});
    let anybody = json!({
        "runAsUser": 65532, "runAsGroup": 65532, "fsGroup": 65532, "runAsNonRoot": true, "seccompProfile": seccomp,
    });
    let mut member = anybody.clone();
    member["supplementalGroups"] = json!([46]);
    assert_eq!(as_whom(&[]), root);
    assert_eq!(as_whom(&[("mode", "0600"), ("gid", "46")]), root);
    assert_eq!(as_whom(&[("mode", "0660"), ("gid", "0")]), root);
    assert_eq!(as_whom(&[("mode", "0660"), ("gid", "46")]), member);
    assert_eq!(as_whom(&[("mode", "0666"), ("gid", "0")]), anybody);
    assert_eq!(as_whom(&[("mode", "rw"), ("gid", "46")]), root);
}

#[test]
fn an_agent_follows_the_mode_of_its_device_and_keeps_it_while_the_device_is_lost() {
    let mut input = one();
    let mut cluster = running(&mut input);
    let of_token = |input: &mut AgentsInput, mode: &str| {
        let info = &mut input.pools[0].status.aggregated_devices[0].device_info;
        info.insert("mode".to_owned(), mode.to_owned());
    };
    of_token(&mut input, "0666");
    assert_eq!(steps(&decide(&input)), [format!("update Deployment hsm/{NAME}")]);
    carry_out(&mut input, &mut cluster);
    let made = cluster.body(&DEPLOYMENT, NAME).unwrap();
    assert_eq!(pod(made)["securityContext"]["runAsUser"], 65532);
    input.pools[0].status.aggregated_devices[0].available = false;
    assert_eq!(steps(&decide(&input)), [""; 0]);
    of_token(&mut input, "0600");
    assert_eq!(steps(&decide(&input)), [format!("update Deployment hsm/{NAME}")]);
}

#[test]
fn of_two_that_report_a_token_the_one_that_holds_it_says_who_may_open_it() {
    let with = |mut token: AggregatedDevice, mode: &str| {
        token.device_info.insert("mode".to_owned(), mode.to_owned());
        token
    };
    let holder = with(token("e6", "n1", "/dev/a", true), "0666");
    let mut other = with(token("e6", "n2", "/dev/a", false), "0600");
    other
        .device_info
        .insert(info::MOVED_TO.to_owned(), "n1".to_owned());
    for tokens in [vec![holder.clone(), other.clone()], vec![other, holder]] {
        let made = deployment(&input(&pico(), status(phase::READY, tokens)), NAME);
        assert_eq!(pod(&made)["securityContext"]["runAsUser"], 65532);
    }
}

#[test]
fn every_argument_is_given_once() {
    let mut all = pico();
    let pkcs11 = all.pkcs11.as_mut().unwrap();
    (pkcs11.auto_provision, pkcs11.exclusive) = (true, true);
    pkcs11.token_label = Some("l".to_owned());
    let made = deployment(&input(&all, one().pools[0].status.clone()), NAME);
    let mut names: Vec<_> = arguments(&made)
        .iter()
        .map(|argument| argument.split('=').next().unwrap().to_owned())
        .collect();
    let given = names.len();
    names.sort();
    names.dedup();
    assert_eq!(names.len(), given, "{:?}", arguments(&made));
}

#[test]
fn a_replug_with_a_new_number_makes_a_new_pod_and_nothing_else() {
    let mut input = one();
    let mut cluster = running(&mut input);
    input.pools[0].status.aggregated_devices[0].device_path = "/dev/bus/usb/001/016".to_owned();
    assert_eq!(steps(&decide(&input)), [format!("update Deployment hsm/{NAME}")]);
    carry_out(&mut input, &mut cluster);
    let made = cluster.body(&DEPLOYMENT, NAME).unwrap();
    let annotations = &made["spec"]["template"]["metadata"]["annotations"];
    assert_eq!(annotations["hsm.j5t.io/device-path"], "/dev/bus/usb/001/016");
}

#[test]
fn a_static_token_runs_without_root_where_the_device_says() {
    let mut soft = soft(json!([{
        "name": "dev-a", "tokenLabel": "$(x)", "tokenSerial": "42",
        "environment": [{"name": "SOFTHSM2_CONF", "value": "/var/lib/softhsm/a.conf"}],
        "hostDirectories": [{"path": "/var/lib/softhsm/a"}],
    }]));
    soft.node_selector = [("disk".to_owned(), "ssd".to_owned())].into();
    let mut listed = token("dev-a", "", "", true);
    listed
        .device_info
        .insert(info::DISCOVERY_TYPE.to_owned(), info::STATIC.to_owned());
    let mut input = input(&soft, status(phase::READY, vec![listed]));
    let made = deployment(&input, "hsm-agent-pico-dev-a");
    let (pod, container) = (pod(&made), &pod(&made)["containers"][0]);
    assert_eq!(pod["nodeSelector"], json!({"disk": "ssd"}));
    assert_eq!(pod["securityContext"]["runAsUser"], 65532);
    assert!(!container["resources"].to_string().contains("hsm.j5t.io"));
    let arguments = arguments(&made);
    for wanted in [
        "--token-label=$$(x)",
        "--token-serial=42",
        "--pcscd=off",
        "--limits=software",
    ] {
        assert!(arguments.contains(&wanted.to_owned()), "{wanted}: {arguments:?}");
    }
    let environment = container["env"].as_array().unwrap();
    assert!(environment.contains(&json!({"name": "SOFTHSM2_CONF", "value": "/var/lib/softhsm/a.conf"})));
    assert!(pod["volumes"].to_string().contains("/var/lib/softhsm/a"));
    // It has left the list.
    running(&mut input);
    let other = soft_with("dev-b");
    input.device = Some(view("hsm", "pico", &other));
    assert!(steps(&decide(&input)).join("\n").contains("delete Deployment"));
}

/// The limits of the agent of a token of this type behind this module.
fn limits_of(kind: &str, library: &str, fixed: bool, declared: Option<&str>) -> String {
    let mut spec = if fixed { soft_with("e6") } else { pico() };
    spec.device_type = kind.to_owned();
    let pkcs11 = spec.pkcs11.as_mut().unwrap();
    pkcs11.library_path = Some(library.to_owned());
    pkcs11.limits = declared.map(str::to_owned);
    let mut listed = token("e6", "n1", "/dev/a", true);
    if fixed {
        listed
            .device_info
            .insert(info::DISCOVERY_TYPE.to_owned(), info::STATIC.to_owned());
    }
    let made = deployment(&input(&spec, status(phase::READY, vec![listed])), NAME);
    let given = arguments(&made);
    let mut given = given
        .iter()
        .filter_map(|argument| argument.strip_prefix("--limits="));
    given.next().unwrap().to_owned()
}

#[test]
fn the_limits_are_those_of_the_type_or_of_the_module_unless_the_admin_says_otherwise() {
    let (opensc, other) = ("/usr/lib/opensc-pkcs11.so", "/usr/lib/libother.so");
    for fixed in [false, true] {
        for (kind, limits) in [
            ("PicoHSM", "pico-hsm"),
            ("SmartCard-HSM", "smartcard-hsm"),
            ("NitrokeyHSM", "smartcard-hsm"),
            ("YubiHSM", "yubihsm2"),
        ] {
            assert_eq!(limits_of(kind, opensc, fixed, None), limits);
            assert_eq!(limits_of(kind, other, fixed, None), limits);
        }
        assert_eq!(limits_of("Generic", opensc, fixed, None), "opensc");
        assert_eq!(
            limits_of("PicoHSM", opensc, fixed, Some("opensc-64")),
            "opensc-64"
        );
    }
    assert_eq!(limits_of("Generic", other, false, None), "opensc");
    assert_eq!(limits_of("Generic", other, true, None), "software");
}

#[test]
fn an_agent_reads_through_its_token_as_often_as_the_admin_says() {
    let interval = |seconds| {
        let mut spec = pico();
        spec.pkcs11.as_mut().unwrap().pass_interval = seconds;
        let given = arguments(&deployment(&input(&spec, one().pools[0].status.clone()), NAME));
        let mut given = given
            .into_iter()
            .filter(|given| given.starts_with("--pass-interval"));
        given.next()
    };
    assert_eq!(interval(None), None);
    assert_eq!(interval(Some(5)).as_deref(), Some("--pass-interval=5s"));
}

#[test]
fn an_agent_cannot_fill_its_node() {
    let made = deployment(&one(), NAME);
    let volumes = pod(&made)["volumes"].as_array().unwrap().iter();
    let own: Vec<_> = volumes.filter_map(|volume| volume.get("emptyDir")).collect();
    assert_eq!(own.len(), 3);
    assert!(own.iter().all(|own| own["sizeLimit"].is_string()), "{own:?}");
}

fn soft_with(name: &str) -> HsmDeviceSpec {
    soft(json!([{"name": name, "tokenLabel": "l"}]))
}
