use proptest::prelude::*;

use super::*;

fn is_label(value: &str) -> bool {
    let edge = |c: char| c.is_ascii_alphanumeric();
    let inside = |c: char| edge(c) || matches!(c, '-' | '_' | '.');
    value.len() <= 63 && value.starts_with(edge) && value.ends_with(edge) && value.chars().all(inside)
}

#[test]
fn plain_serial_numbers_give_the_names_of_the_original() {
    assert_eq!(agent_name("pico", "dc6a1234"), "hsm-agent-pico-dc6a1234");
    assert_eq!(agent_name("soft", "dev-a"), "hsm-agent-soft-dev-a");
    assert_eq!(pool_name("pico"), "pico-pool");
    assert_eq!(discovery_name("pico"), "pico-discovery");
}

#[test]
fn w35_odd_serial_numbers_give_names_and_labels_that_the_api_server_takes() {
    for serial in ["DENK 01/04", "a b", "ä", " ", "/", "--", "x".repeat(200).as_str()] {
        let name = agent_name("pico", serial);
        assert!(
            is_label(&name) && name.to_lowercase() == name,
            "{serial:?}: {name}"
        );
        assert!(is_label(&label_value(serial)), "{serial:?}");
    }
    assert_eq!(label_value("DENK0104068"), "DENK0104068");
    assert_ne!(agent_name("pico", "a b"), agent_name("pico", "a/b"));
    assert_ne!(label_value("a b"), label_value("a/b"));
}

#[test]
fn names_that_are_too_long_are_cut_and_stay_different() {
    let (one, other) = ("d".repeat(100), format!("{}e", "d".repeat(99)));
    assert!(agent_name(&one, "s").len() <= 63 && discovery_name(&one).len() <= 63);
    assert_ne!(agent_name(&one, "s"), agent_name(&other, "s"));
    assert_ne!(agent_name(&one, "s"), agent_name(&one, "t"));
    assert_ne!(discovery_name(&one), discovery_name(&other));
}

#[test]
fn an_object_is_for_the_device_that_its_labels_name() {
    let object = |namespace: &str, labels: serde_json::Value| {
        crate::decide::world::meta(serde_json::json!({
            "name": "x", "namespace": namespace, "uid": "u", "resourceVersion": "1", "labels": labels,
        }))
    };
    let labels = serde_json::json!({"app.kubernetes.io/managed-by": OPERATOR, DEVICE_LABEL: "pico"});
    assert!(is_for(&object("hsm", labels.clone()), "hsm", "pico"));
    assert!(!is_for(&object("hsm", labels.clone()), "hsm", "pico2"));
    assert!(!is_for(&object("pins", labels.clone()), "hsm", "pico"));
    let mut away = labels;
    away[DEVICE_NAMESPACE_LABEL] = "hsm".into();
    assert!(is_for(&object("pins", away.clone()), "hsm", "pico"));
    assert!(!is_for(&object("pins", away), "pins", "pico"));
    assert!(!is_for(
        &object("hsm", serde_json::json!({DEVICE_LABEL: "pico"})),
        "hsm",
        "pico"
    ));
}

proptest! {
    #[test]
    fn every_serial_number_has_a_name_and_a_label(serial in any::<String>(), device in "[a-z][a-z0-9-]{0,80}[a-z]") {
        prop_assert!(is_label(&agent_name(&device, &serial)));
        prop_assert!(is_label(&label_value(&serial)) || serial.is_empty());
    }

    #[test]
    fn different_serial_numbers_have_different_names_and_labels(one in "[aA0 /-]{0,6}", other in "[aA0 /-]{0,6}") {
        let same = one.eq_ignore_ascii_case(&other);
        prop_assert_eq!(same, agent_name("d", &one) == agent_name("d", &other));
        prop_assert_eq!(one == other, label_value(&one) == label_value(&other));
    }
}
