use serde_json::json;

use super::expect;
use crate::kind::InventoryKind::{Ingress, NetworkPolicy, Service};

const CREATED: &str = "2026-01-01T00:00:00Z";

#[test]
fn service_sends_all_its_fields() {
    expect(
        Service,
        &json!({
            "metadata": {"uid": "u", "name": "web", "namespace": "shop", "creationTimestamp": CREATED},
            "spec": {
                "type": "NodePort", "clusterIP": "10.0.0.7", "clusterIPs": ["10.0.0.7"], "selector": {"app": "web"},
                "ports": [
                    {"name": "http", "protocol": "TCP", "port": 80, "targetPort": 8080, "nodePort": 30000},
                    {"protocol": "UDP", "port": 53, "targetPort": "dns"},
                    {"port": 9},
                ],
            },
            "status": {"loadBalancer": {}},
        }),
        &json!({
            "uid": "u", "name": "web", "namespace": "shop", "k8s_created_at": CREATED,
            "service_type": "NodePort", "cluster_ip": "10.0.0.7", "selector": {"app": "web"},
            "ports": [
                {"name": "http", "protocol": "TCP", "port": 80, "targetPort": "8080"},
                {"protocol": "UDP", "port": 53, "targetPort": "dns"},
                {"protocol": "", "port": 9},
            ],
        }),
    );
}

#[test]
fn service_without_a_spec_sends_only_its_head() {
    for spec in [
        json!(null),
        json!({}),
        json!({"ports": [], "selector": {}, "clusterIP": "", "externalName": "x"}),
    ] {
        expect(
            Service,
            &json!({"metadata": {"uid": "u", "name": "web", "namespace": "shop", "creationTimestamp": CREATED}, "spec": spec}),
            &json!({"uid": "u", "name": "web", "namespace": "shop", "k8s_created_at": CREATED}),
        );
    }
    expect(
        Service,
        &json!({"metadata": {"uid": "u", "name": "web", "namespace": "shop", "creationTimestamp": CREATED}, "spec": {"clusterIP": "None"}}),
        &json!({"uid": "u", "name": "web", "namespace": "shop", "k8s_created_at": CREATED, "cluster_ip": "None"}),
    );
}

#[test]
fn ingress_sends_all_its_fields() {
    expect(
        Ingress,
        &json!({
            "metadata": {"uid": "u", "name": "web", "namespace": "shop", "creationTimestamp": CREATED},
            "spec": {
                "ingressClassName": "nginx", "defaultBackend": {"service": {"name": "x"}},
                "tls": [{"hosts": ["b.example", "a.example"], "secretName": "tls"}, {}],
                "rules": [
                    {"host": "a.example", "http": {"paths": [
                        {"path": "/", "pathType": "Prefix", "backend": {"service": {"name": "web", "port": {"number": 80}}}},
                        {"path": "/named", "pathType": "Exact", "backend": {"service": {"name": "web", "port": {"name": "http"}}}},
                        {"pathType": "ImplementationSpecific", "backend": {"resource": {"kind": "Bucket", "name": "b"}}},
                    ]}},
                    {"host": "b.example"},
                    {},
                ],
            },
            "status": {"loadBalancer": {"ingress": [
                {"ip": "192.0.2.1", "hostname": "lb.example"}, {"hostname": "lb2.example"}, {"ip": ""}, {},
            ]}},
        }),
        &json!({
            "uid": "u", "name": "web", "namespace": "shop", "k8s_created_at": CREATED,
            "ingress_class_name": "nginx",
            "tls": [{"hosts": ["b.example", "a.example"], "secret_name": "tls"}, {}],
            "rules": [
                {"host": "a.example", "paths": [
                    {"path": "/", "path_type": "Prefix", "service_name": "web", "service_port": 80},
                    {"path": "/named", "path_type": "Exact", "service_name": "web"},
                    {"path_type": "ImplementationSpecific"},
                ]},
                {"host": "b.example"},
                {},
            ],
            "load_balancer_ips": ["192.0.2.1", "lb2.example"],
        }),
    );
}

#[test]
fn ingress_without_a_spec_sends_only_its_head() {
    for status in [
        json!(null),
        json!({"loadBalancer": {}}),
        json!({"loadBalancer": {"ingress": []}}),
    ] {
        expect(
            Ingress,
            &json!({
                "metadata": {"uid": "u", "name": "web", "namespace": "shop", "creationTimestamp": CREATED},
                "spec": {"rules": [], "tls": null}, "status": status,
            }),
            &json!({"uid": "u", "name": "web", "namespace": "shop", "k8s_created_at": CREATED}),
        );
    }
}

#[test]
fn network_policy_sends_all_its_fields() {
    expect(
        NetworkPolicy,
        &json!({
            "metadata": {"uid": "u", "name": "deny", "namespace": "shop", "creationTimestamp": CREATED},
            "spec": {
                "podSelector": {"matchLabels": {"app": "web"}, "matchExpressions": []}, "policyTypes": ["Ingress", "Egress"],
                "ingress": [{"from": []}, {}], "egress": [{"to": [{"ipBlock": {"cidr": "10.0.0.0/8"}}]}],
            },
        }),
        &json!({
            "uid": "u", "name": "deny", "namespace": "shop", "k8s_created_at": CREATED,
            "pod_selector": {"app": "web"}, "policy_types": ["Ingress", "Egress"], "ingress_rules": 2, "egress_rules": 1,
        }),
    );
}

#[test]
fn network_policy_without_rules_sends_zero() {
    for spec in [
        json!(null),
        json!({"podSelector": {}, "policyTypes": [], "ingress": [], "egress": null}),
    ] {
        expect(
            NetworkPolicy,
            &json!({"metadata": {"uid": "u", "name": "deny", "namespace": "shop", "creationTimestamp": CREATED}, "spec": spec}),
            &json!({
                "uid": "u", "name": "deny", "namespace": "shop", "k8s_created_at": CREATED, "ingress_rules": 0, "egress_rules": 0,
            }),
        );
    }
}
