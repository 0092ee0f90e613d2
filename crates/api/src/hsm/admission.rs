//! Rules for our kinds that no schema can say, in the language of the API server.
//!
//! The code checks the same again, because a policy can be removed, and objects may be older than it.

use serde_json::{Value, json};

mod token_users;

pub use token_users::TOKEN_USERS;

/// HSMDevices, as rules name them.
const DEVICES: &str = "hsmdevices";

/// The policies, each followed by its binding.
pub fn policies() -> Vec<Value> {
    let shape = "must be an object with vendorId and productId, or a list of 1 to 64 of them";
    let digits = "must be four hexadecimal digits, such as 20a0";
    let refused = Policy {
        name: "hsmdevices.hsm.j5t.io",
        about: "refuses what no device can match",
        action: "Deny",
        resource: DEVICES,
        variables: selectors(),
        rules: vec![
            // Beside another way to find tokens a list may be empty, as it may in the original.
            rule(
                "(variables.selectors.size() > 0 || (has(object.spec.discovery.autoDiscovery) && \
                 object.spec.discovery.autoDiscovery) || has(object.spec.discovery.devicePath)) && \
                 variables.selectors.size() <= 64",
                &usb("", shape),
            ),
            rule(
                "variables.selectors.all(s, type(s) == map && 'vendorId' in s && 'productId' in s && \
                 s.all(field, field in ['vendorId', 'productId', 'serialNumber'] && type(s[field]) == string))",
                &usb(
                    "",
                    "each must have the fields vendorId and productId, perhaps serialNumber, and no others, all of them strings",
                ),
            ),
            rule(&hexadecimal("vendorId"), &usb(".vendorId", digits)),
            rule(&hexadecimal("productId"), &usb(".productId", digits)),
            rule(
                "variables.selectors.all(s, type(s) != map || !('serialNumber' in s) || \
                 string(s['serialNumber']).size() <= 128)",
                &usb(".serialNumber", "must have at most 128 characters"),
            ),
            rule(
                "!variables.hasUsb || !has(object.spec.discovery.static)",
                "spec.discovery: static cannot be combined with usb",
            ),
        ],
    };
    let deprecated_pools = Policy {
        name: "deprecated.hsmpools.hsm.j5t.io",
        about: "warns of fields that are no longer wanted",
        action: "Warn",
        resource: "hsmpools",
        variables: Vec::new(),
        rules: vec![mirroring()],
    };
    let all = [refused, warned_of(), deprecated_pools];
    let mut objects: Vec<Value> = all.iter().flat_map(Policy::objects).collect();
    objects.extend(token_users::policy());
    objects
}

/// What is taken of an HSMDevice, and had better be said in another way.
fn warned_of() -> Policy {
    Policy {
        name: "deprecated.hsmdevices.hsm.j5t.io",
        about: "warns of fields that are no longer wanted, and of a discovery that finds nothing",
        action: "Warn",
        resource: DEVICES,
        variables: selectors(),
        rules: vec![
            rule(
                "!has(object.spec.pkcs11LibraryPath)",
                "spec.pkcs11LibraryPath is deprecated: use spec.pkcs11.libraryPath",
            ),
            rule(
                "!variables.hasUsb || type(object.spec.discovery.usb) == list",
                "spec.discovery.usb as an object is deprecated: use a list",
            ),
            rule(
                "!has(object.spec.discovery) || variables.hasUsb || has(object.spec.discovery.devicePath) || \
                 has(object.spec.discovery.static) || (has(object.spec.discovery.autoDiscovery) && \
                 object.spec.discovery.autoDiscovery)",
                "spec.discovery names nothing to look for, so no token is found: set usb, devicePath, static or autoDiscovery",
            ),
            mirroring(),
        ],
    }
}

/// The old way to say how secrets are mirrored, in an HSMDevice or a pool.
fn mirroring() -> Value {
    rule(
        "!has(object.spec.mirroring) || (!has(object.spec.mirroring.enabled) && \
         !has(object.spec.mirroring.primaryRole))",
        "spec.mirroring.enabled and primaryRole are deprecated: use policy and primaryNode",
    )
}

/// The selectors of an HSMDevice, in whichever shape.
fn selectors() -> Vec<Value> {
    vec![
        json!({
            "name": "hasUsb",
            "expression": "has(object.spec.discovery) && has(object.spec.discovery.usb)",
        }),
        json!({
            "name": "selectors",
            "expression": "!variables.hasUsb ? [dyn({'vendorId': '0000', 'productId': '0000'})] : \
                           type(object.spec.discovery.usb) == list ? object.spec.discovery.usb : \
                           [dyn(object.spec.discovery.usb)]",
        }),
    ]
}

struct Policy {
    name: &'static str,
    about: &'static str,
    action: &'static str,
    resource: &'static str,
    variables: Vec<Value>,
    rules: Vec<Value>,
}

impl Policy {
    fn objects(&self) -> [Value; 2] {
        let policy = json!({
            "failurePolicy": "Fail",
            "matchConstraints": { "resourceRules": [{
                "apiGroups": ["hsm.j5t.io"],
                "apiVersions": ["v1alpha1"],
                "resources": [self.resource],
                "operations": ["CREATE", "UPDATE"],
            }]},
            // What is there already may go on being changed in other ways.
            "matchConditions": [{
                "name": "spec-is-new",
                "expression": "oldObject == null || object.spec != oldObject.spec",
            }],
            "variables": self.variables,
            "validations": self.rules,
        });
        with_binding(self.name, self.about, self.action, &policy)
    }
}

/// A policy, and the binding by which it holds everywhere.
fn with_binding(name: &str, about: &str, action: &str, policy: &Value) -> [Value; 2] {
    let object = |kind: &str, spec: &Value| {
        json!({
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": kind,
            "metadata": {
                "name": name,
                "labels": { "app.kubernetes.io/part-of": "trustplane", "trustplane.io/capability": "hsm" },
                "annotations": { "trustplane.io/about": about },
            },
            "spec": spec,
        })
    };
    let binding = json!({ "policyName": name, "validationActions": [action] });
    [
        object("ValidatingAdmissionPolicy", policy),
        object("ValidatingAdmissionPolicyBinding", &binding),
    ]
}

fn rule(expression: &str, message: &str) -> Value {
    json!({ "expression": expression, "message": message })
}

fn usb(field: &str, rule: &str) -> String {
    format!("spec.discovery.usb{field}: {rule}")
}

/// Those whose shape is wrong are told so by another rule.
fn hexadecimal(field: &str) -> String {
    format!(
        "variables.selectors.all(s, type(s) != map || !('{field}' in s) || \
         string(s['{field}']).matches('^[0-9a-fA-F]{{4}}$'))"
    )
}
