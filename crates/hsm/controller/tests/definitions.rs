//! What the API server itself lets in: manifests of every generation, with strict validation; and what it refuses, by a message
//! that names the field and the rule.

use anyhow::{Context, Result};
use k8s_openapi::api::core::v1::{Pod, ServiceAccount};
use kube::api::{Api, ApiResource, DynamicObject, Patch, PatchParams, PostParams};
use kube::{Client, CustomResourceExt, Resource};
use serde_json::{Value, json};
use trustplane_api::hsm::admission::TOKEN_USERS;
use trustplane_api::hsm::{HsmDevice, HsmPool, HsmSecret, admission};
use trustplane_hsm_core::examples::{profiles, senseless_selectors};
use trustplane_testkit::{ControlPlane, DEADLINE, Door, Sandbox, until};

async fn door<K: Resource<DynamicType = ()>>(sandbox: &Sandbox) -> Result<Door> {
    let plane = ControlPlane::shared().await?;
    plane
        .install(&[HsmDevice::crd(), HsmPool::crd(), HsmSecret::crd()])
        .await?;
    Ok(Door::new::<K>(plane.client()?, Some(sandbox.namespace())))
}

/// The policies as they ship, with bindings that hold in this namespace alone: others test without them.
async fn with_policies(sandbox: &Sandbox, door: &Door) -> Result<()> {
    install(sandbox, &admission::policies()).await?;
    // The API server takes a moment to heed a policy.
    until("the policy to be heeded", DEADLINE, async || {
        Ok(door.refusal(&usb(json!("all"))).await?.map(drop))
    })
    .await
}

async fn install(sandbox: &Sandbox, policies: &[Value]) -> Result<()> {
    let client = ControlPlane::shared().await?.client()?;
    for mut object in policies.iter().cloned() {
        let name = format!(
            "{}.{}",
            sandbox.namespace(),
            object["metadata"]["name"].as_str().context("a name")?
        );
        object["metadata"]["name"] = json!(name);
        if object["kind"] == "ValidatingAdmissionPolicyBinding" {
            object["spec"]["policyName"] = json!(name);
            object["spec"]["matchResources"] = json!({"namespaceSelector": {"matchLabels": {
                "kubernetes.io/metadata.name": sandbox.namespace(),
            }}});
        }
        apply(&client, &object).await?;
    }
    Ok(())
}

async fn apply(client: &Client, object: &Value) -> Result<()> {
    let kind = object["kind"].as_str().context("a kind")?;
    let resource = ApiResource {
        group: "admissionregistration.k8s.io".to_owned(),
        version: "v1".to_owned(),
        api_version: "admissionregistration.k8s.io/v1".to_owned(),
        kind: kind.to_owned(),
        plural: match kind {
            "ValidatingAdmissionPolicy" => "validatingadmissionpolicies".to_owned(),
            _ => "validatingadmissionpolicybindings".to_owned(),
        },
    };
    let api: Api<DynamicObject> = Api::all_with(client.clone(), &resource);
    let name = object["metadata"]["name"].as_str().context("a name")?;
    api.patch(name, &PatchParams::apply("test").force(), &Patch::Apply(object))
        .await?;
    Ok(())
}

fn usb(usb: Value) -> Value {
    json!({"deviceType": "PicoHSM", "discovery": {"usb": usb}})
}

#[tokio::test]
async fn devices_of_every_generation_are_taken() -> Result<()> {
    let sandbox = Sandbox::new("generations").await?;
    let door = door::<HsmDevice>(&sandbox).await?;
    with_policies(&sandbox, &door).await?;
    let pkcs11 = json!({
        "libraryPath": "/usr/lib/libsc-hsm-pkcs11.so", "slotId": 0, "tokenLabel": "MyHSM",
        "pinSecret": {"name": "pico-hsm-pin", "key": "pin", "namespace": "secrets"},
    });
    // The design paper, the first code, and today's.
    door.takes(
        json!({"deviceType": "PicoHSM", "discovery": {"autoDiscovery": true}, "pkcs11": {
        "libraryPath": "/usr/lib/libsc-hsm-pkcs11.so", "slotId": 0, "pinSecret": {"name": "pico-hsm-pin", "key": "pin"},
    }}),
    )
    .await?;
    door.takes(json!({
        "deviceType": "PicoHSM", "discovery": {"usb": {"vendorId": "20a0", "productId": "4230"}}, "pkcs11": pkcs11,
        "pkcs11LibraryPath": "/usr/lib/other.so", "nodeSelector": {"hsm-type": "pico"}, "maxDevices": 1,
        "mirroring": {"policy": "ReadOnly", "syncInterval": 60, "targetNodes": ["a"], "primaryNode": "a", "autoFailover": false},
    }))
    .await?;
    door.takes(json!({
        "deviceType": "SmartCardHSM", "maxDevices": -1,
        "discovery": {"autoDiscovery": true, "usb": [
            {"vendorId": "20A0", "productId": "4230", "serialNumber": "DC6A33145E23A42A"},
            {"vendorId": "04e6", "productId": "5816"},
        ]},
        "pkcs11": {"libraryPath": "/usr/lib/opensc-pkcs11.so", "autoProvision": true, "pinSecret": {"name": "p", "key": "k"}},
    }))
    .await?;
    door.takes(json!({
        "deviceType": "Generic",
        "discovery": {"devicePath": {"path": "/dev/ttyUSB*", "permissions": "0666"}},
    }))
    .await?;
    // What is empty says nothing.
    let any = json!({"vendorId": "20a0", "productId": "4230", "serialNumber": ""});
    door.takes(usb(json!([any]))).await?;
    let auto = json!({"autoDiscovery": true, "usb": []});
    door.takes(json!({"deviceType": "PicoHSM", "discovery": auto}))
        .await?;
    let path = json!({"devicePath": {"path": "/dev/a"}, "usb": []});
    door.takes(json!({"deviceType": "PicoHSM", "discovery": path}))
        .await?;
    // What is new.
    for limits in profiles() {
        let pkcs11 = json!({"limits": limits, "passInterval": 5});
        door.takes(json!({"deviceType": "PicoHSM", "pkcs11": pkcs11}))
            .await?;
    }
    door.takes(
        json!({"deviceType": "SoftHSM", "pkcs11": {"exclusive": true}, "discovery": {"static": [{
            "name": "a", "nodeName": "node-1.example.org", "tokenLabel": "dev a", "libraryPath": "/usr/lib/softhsm/libsofthsm2.so",
            "environment": [{"name": "SOFTHSM2_CONF", "value": "/var/lib/softhsm/a/softhsm2.conf"}],
            "hostDirectories": [{"path": "/var/lib/softhsm/a"}, {"path": "/etc/module", "readOnly": true}],
        }, {"name": "b", "tokenSerial": "1f2e"}]}}),
    )
    .await
}

#[tokio::test]
async fn a_device_that_makes_no_sense_is_refused() -> Result<()> {
    let sandbox = Sandbox::new("devices").await?;
    let door = door::<HsmDevice>(&sandbox).await?;
    with_policies(&sandbox, &door).await?;
    for (selector, _, why) in senseless_selectors() {
        door.refuses(usb(selector), why).await?;
    }
    let token = |token: Value| json!({"deviceType": "SoftHSM", "discovery": {"static": [token]}});
    let with = |field: &str, value: Value| {
        let mut fixed = json!({"name": "a", "tokenLabel": "a"});
        fixed[field] = value;
        token(fixed)
    };
    let at = |field: &str| format!("spec.discovery.static[0].{field}");
    let mut both = token(json!({"name": "a", "tokenLabel": "a"}));
    both["discovery"]["usb"] = json!({"vendorId": "20a0", "productId": "4230"});
    for (spec, why) in [
        (json!({}), "spec.deviceType".to_owned()),
        (json!({"deviceType": ""}), "spec.deviceType".to_owned()),
        (
            json!({"deviceType": "A", "hsmPath": "x"}),
            "field not declared in schema".to_owned(),
        ),
        (
            token(json!({"name": "a"})),
            "must have tokenLabel or tokenSerial".to_owned(),
        ),
        (token(json!({"name": "A", "tokenLabel": "a"})), at("name")),
        (with("nodeName", json!("Node_1")), at("nodeName")),
        (with("libraryPath", json!("usr/lib/x.so")), at("libraryPath")),
        (
            with("environment", json!([{"name": "LD_PRELOAD", "value": "/x.so"}])),
            "must not change how programs are loaded".to_owned(),
        ),
        (
            with("environment", json!([{"name": "1A", "value": ""}])),
            at("environment[0].name"),
        ),
        (
            with("hostDirectories", json!([{"path": "/var/../etc"}])),
            "must not hold '.' or '..' as a part".to_owned(),
        ),
        (
            with("hostDirectories", json!([{"path": "var"}])),
            at("hostDirectories[0].path"),
        ),
        (
            both,
            "spec.discovery: static cannot be combined with usb".to_owned(),
        ),
        (
            json!({"deviceType": "A", "discovery": {"autoDiscovery": true, "static": [{"name": "a", "tokenLabel": "a"}]}}),
            "static cannot be combined with devicePath or autoDiscovery".to_owned(),
        ),
        (
            json!({"deviceType": "A", "discovery": {"devicePath": {"path": "/etc/shadow"}}}),
            "spec.discovery.devicePath.path".to_owned(),
        ),
        (
            json!({"deviceType": "A", "discovery": {"devicePath": {"path": "/dev/../etc/shadow"}}}),
            "must not hold '.' or '..' as a part".to_owned(),
        ),
        (
            json!({"deviceType": "A", "mirroring": {"syncInterval": 4}}),
            "spec.mirroring.syncInterval".to_owned(),
        ),
        (
            json!({"deviceType": "A", "pkcs11": {"pinSecret": {"name": "p"}}}),
            "spec.pkcs11.pinSecret.key".to_owned(),
        ),
        (
            json!({"deviceType": "A", "pkcs11": {"limits": "endless"}}),
            "must be software, opensc, opensc-64".to_owned(),
        ),
        (
            json!({"deviceType": "A", "pkcs11": {"passInterval": 4}}),
            "spec.pkcs11.passInterval".to_owned(),
        ),
    ] {
        door.refuses(spec, &why).await?;
    }
    Ok(())
}

#[tokio::test]
async fn pools_and_secrets_of_every_generation_are_taken_and_senseless_ones_refused() -> Result<()> {
    let sandbox = Sandbox::new("pools").await?;
    let pools = door::<HsmPool>(&sandbox).await?;
    pools.takes(json!({})).await?;
    pools
        .takes(json!({"hsmDeviceRef": "pico-hsm", "gracePeriod": "5m"}))
        .await?;
    pools
        .takes(json!({
            "hsmDeviceRefs": ["pico-hsm"], "gracePeriod": "1h30m0.5s", "mirroring": {"enabled": true, "primaryRole": "primary"},
        }))
        .await?;
    for (period, why) in [
        ("4s", "must be at least 5s"),
        ("5", "spec.gracePeriod"),
        ("", "spec.gracePeriod"),
        ("-5m", "spec.gracePeriod"),
    ] {
        pools.refuses(json!({"gracePeriod": period}), why).await?;
    }
    let secrets = door::<HsmSecret>(&sandbox).await?;
    secrets.takes(json!({})).await?;
    secrets
        .takes(json!({
            "hsmPath": "secrets/appnamespace/appname-secret", "secretName": "appname-secret", "autoSync": true,
            "secretType": "Opaque", "syncInterval": 300,
        }))
        .await?;
    secrets
        .takes(json!({
            "parentRef": {"name": "controller-manager", "namespace": "hsm", "group": "apps", "kind": "Deployment"},
            "autoSync": false, "secretType": "kubernetes.io/tls", "hsmPath": "a.b/c_d-e",
        }))
        .await?;
    for (path, why) in [
        ("/a", "must not begin or end with '/'"),
        ("a//b", "must not begin or end with '/'"),
        ("a/../b", "must not hold '..'"),
        ("a/.b", "a part that begins with '.'"),
        ("a/_metadata", "must not end with '_metadata'"),
        ("a b", "spec.hsmPath"),
        ("", "spec.hsmPath"),
    ] {
        secrets.refuses(json!({"hsmPath": path}), why).await?;
    }
    secrets
        .refuses(json!({"syncInterval": 4}), "spec.syncInterval")
        .await?;
    secrets
        .refuses(json!({"parentRef": {"namespace": "a"}}), "spec.parentRef.name")
        .await
}

#[tokio::test]
async fn what_is_left_out_means_what_it_meant() -> Result<()> {
    let sandbox = Sandbox::new("defaults").await?;
    let devices = door::<HsmDevice>(&sandbox).await?;
    let device = devices
        .made(json!({"deviceType": "PicoHSM", "mirroring": {}, "pkcs11": {}}))
        .await?;
    assert_eq!(device["maxDevices"], 10);
    assert_eq!(device["pkcs11"]["autoProvision"], false);
    assert_eq!(
        device["mirroring"],
        json!({"policy": "None", "syncInterval": 60, "autoFailover": true})
    );
    let pools = door::<HsmPool>(&sandbox).await?;
    assert_eq!(pools.made(json!({})).await?["gracePeriod"], "5m");
    let secrets = door::<HsmSecret>(&sandbox).await?;
    let secret = secrets.made(json!({"parentRef": {"name": "x"}})).await?;
    assert_eq!(
        secret,
        json!({
            "parentRef": {"name": "x", "group": "apps", "kind": "Deployment"},
            "autoSync": true, "secretType": "Opaque", "syncInterval": 30,
        })
    );
    Ok(())
}

/// What the API server warns of when an object is written. Nothing is kept of it.
async fn warnings(method: http::Method, path: String, kind: &str, body: &Value) -> Result<String> {
    let request = http::Request::builder()
        .method(method)
        .uri(format!("{path}?dryRun=All"))
        .header("content-type", kind)
        .body(serde_json::to_vec(body)?.into())?;
    let answer = ControlPlane::shared().await?.client()?.send(request).await?;
    anyhow::ensure!(answer.status().is_success(), "{}", answer.status());
    let told = answer.headers().get_all("warning").iter();
    let told: Result<Vec<_>, _> = told.map(|warning| warning.to_str().map(str::to_owned)).collect();
    Ok(told?.join("\n"))
}

async fn warned_of(sandbox: &Sandbox, door: &Door, plural: &str, spec: &Value) -> Result<String> {
    let path = all(sandbox, plural);
    warnings(http::Method::POST, path, "application/json", &door.object(spec)).await
}

fn all(sandbox: &Sandbox, plural: &str) -> String {
    format!(
        "/apis/hsm.j5t.io/v1alpha1/namespaces/{}/{plural}",
        sandbox.namespace()
    )
}

#[tokio::test]
async fn fields_that_are_no_longer_wanted_are_warned_of() -> Result<()> {
    let sandbox = Sandbox::new("deprecated").await?;
    let door = door::<HsmDevice>(&sandbox).await?;
    with_policies(&sandbox, &door).await?;
    let good = json!({"vendorId": "20a0", "productId": "4230"});
    let old = json!({
        "deviceType": "PicoHSM", "discovery": {"usb": good}, "pkcs11LibraryPath": "/m.so", "mirroring": {"enabled": true},
    });
    // What warns is another policy than what refuses, so it is heeded at a moment of its own.
    let old = until("a warning", DEADLINE, async || {
        let told = warned_of(&sandbox, &door, "hsmdevices", &old).await?;
        Ok(Some(told).filter(|told| !told.is_empty()))
    })
    .await?;
    let new = usb(json!([good]));
    assert_eq!(warned_of(&sandbox, &door, "hsmdevices", &new).await?, "");
    let auto = json!({"deviceType": "PicoHSM"});
    assert_eq!(warned_of(&sandbox, &door, "hsmdevices", &auto).await?, "");
    for off in [json!({}), json!({"autoDiscovery": false})] {
        let off = json!({"deviceType": "PicoHSM", "discovery": off});
        let told = warned_of(&sandbox, &door, "hsmdevices", &off).await?;
        assert!(
            told.contains("spec.discovery names nothing to look for"),
            "{told}"
        );
    }
    for field in [
        "spec.discovery.usb as an object is deprecated",
        "spec.pkcs11LibraryPath is deprecated",
        "spec.mirroring.enabled and primaryRole are deprecated",
    ] {
        assert!(old.contains(field), "{field}: {old}");
    }
    Ok(())
}

#[tokio::test]
async fn old_fields_of_a_pool_are_warned_of_and_not_with_each_status() -> Result<()> {
    let sandbox = Sandbox::new("deprecated-pools").await?;
    let (devices, pools) = (
        door::<HsmDevice>(&sandbox).await?,
        door::<HsmPool>(&sandbox).await?,
    );
    with_policies(&sandbox, &devices).await?;
    let old = json!({"mirroring": {"primaryRole": "primary"}});
    let told = until("a warning", DEADLINE, async || {
        let told = warned_of(&sandbox, &pools, "hsmpools", &old).await?;
        Ok(Some(told).filter(|told| !told.is_empty()))
    })
    .await?;
    assert!(
        told.contains("spec.mirroring.enabled and primaryRole are deprecated"),
        "{told}"
    );
    let new = json!({"mirroring": {"policy": "Active"}});
    assert_eq!(warned_of(&sandbox, &pools, "hsmpools", &new).await?, "");
    pools.made(old).await?;
    let path = format!("{}/probe", all(&sandbox, "hsmpools"));
    let merge = "application/merge-patch+json";
    let label = json!({"metadata": {"labels": {"a": "b"}}});
    let told = warnings(http::Method::PATCH, path.clone(), merge, &label).await?;
    assert_eq!(told, "");
    let status =
        json!({"status": {"phase": "Ready", "totalDevices": 0, "availableDevices": 0, "expectedPods": 0}});
    let told = warnings(http::Method::PATCH, format!("{path}/status"), merge, &status).await?;
    assert_eq!(told, "");
    Ok(())
}

/// An object that is older than a rule has to be changed in other ways: a finalizer could not leave otherwise.
#[tokio::test]
async fn an_old_object_that_would_be_refused_still_takes_what_is_not_its_spec() -> Result<()> {
    let sandbox = Sandbox::new("older").await?;
    let door = door::<HsmDevice>(&sandbox).await?;
    door.made(usb(json!("all of them"))).await?;
    with_policies(&sandbox, &door).await?;
    let path = format!("{}/probe", all(&sandbox, "hsmdevices"));
    let merge = "application/merge-patch+json";
    let patch = async |patch: Value| warnings(http::Method::PATCH, path.clone(), merge, &patch).await;
    patch(json!({"metadata": {"labels": {"a": "b"}, "finalizers": ["a.b/c"]}})).await?;
    let worse = patch(json!({"spec": {"discovery": {"usb": "others"}}})).await;
    let told = worse.unwrap_err().to_string();
    assert!(told.contains("422"), "{told}");
    patch(json!({"spec": {"discovery": {"usb": [{"vendorId": "20a0", "productId": "4230"}]}}})).await?;
    Ok(())
}

/// A pod with this service account. One of its containers requests this amount of the resource.
fn asking(account: &str, containers: &str, part: &str, resource: &str) -> Value {
    let mut pod =
        json!({ "serviceAccountName": account, "containers": [{ "name": "main", "image": "none" }] });
    // The API server takes a request for such a resource with the equal limit alone.
    let amounts = match part {
        "limits" => json!({ "limits": { resource: "1" } }),
        _ => json!({ "requests": { resource: "1" }, "limits": { resource: "1" } }),
    };
    match containers {
        "containers" => pod["containers"][0]["resources"] = amounts,
        others => pod[others] = json!([{ "name": "other", "image": "none", "resources": amounts }]),
    }
    pod
}

#[tokio::test]
async fn token_policy_keeps_tokens_to_agents_and_listed_accounts() -> Result<()> {
    let sandbox = Sandbox::new("token-users").await?;
    let here = sandbox.namespace();
    for account in ["hsm-agent-pico-e66", "listed", "foreign"] {
        let account = serde_json::from_value(json!({ "metadata": { "name": account } }))?;
        sandbox
            .api::<ServiceAccount>()
            .create(&PostParams::default(), &account)
            .await?;
    }
    let users = format!("{here}/hsm-agent-*,elsewhere/*,{here}/listed");
    let policies = serde_json::to_string(&admission::policies())?.replace(TOKEN_USERS, &users);
    install(&sandbox, &serde_json::from_str::<Vec<Value>>(&policies)?).await?;
    let pods = Door::new::<Pod>(ControlPlane::shared().await?.client()?, Some(here));
    let (token, kind) = ("hsm.j5t.io/token-e66", "hsm.j5t.io/picohsm");
    until("the policy to be heeded", DEADLINE, async || {
        let foreign = asking("foreign", "containers", "limits", token);
        Ok(pods.refusal(&foreign).await?.map(drop))
    })
    .await?;
    for containers in ["containers", "initContainers"] {
        for part in ["limits", "requests"] {
            for resource in [token, kind] {
                let foreign = asking("foreign", containers, part, resource);
                pods.refuses(foreign, "add their service account to the value hsm.tokenUsers")
                    .await?;
                pods.takes(asking("hsm-agent-pico-e66", containers, part, resource))
                    .await?;
                pods.takes(asking("listed", containers, part, resource)).await?;
            }
        }
    }
    // A pod without a service account runs as `default`. The policy does not judge resources of other vendors.
    pods.refuses(asking("", "containers", "limits", token), "hsm.tokenUsers")
        .await?;
    pods.takes(asking("foreign", "containers", "limits", "example.com/gpu"))
        .await
}
