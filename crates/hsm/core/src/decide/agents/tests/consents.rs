//! PINs in other namespaces.

use trustplane_api::hsm::conditions::phase;

use super::*;

/// What the agent has in the namespace of its PIN.
const AWAY: &str = "hsm.hsm-agent-pico-e6";

/// Puts the PIN into another namespace.
pub(super) fn elsewhere(input: &mut AgentsInput, consent: Consent) {
    let mut spec = pico();
    let pin = spec.pkcs11.as_mut().unwrap().pin_secret.as_mut().unwrap();
    pin.namespace = Some("pins".to_owned());
    input.device = Some(view("hsm", "pico", &spec));
    input.consent = consent;
}

#[test]
fn w20_a_pin_in_another_namespace_has_its_role_there_which_goes_with_the_device() {
    let mut input = one();
    elsewhere(&mut input, Consent::Given);
    let cluster = running(&mut input);
    let role = cluster.body(&ROLE, AWAY).unwrap();
    assert_eq!(role["metadata"]["namespace"], "pins");
    assert_eq!(role["metadata"].get("ownerReferences"), None);
    assert_eq!(role["rules"][0]["resourceNames"], json!(["pin"]));
    assert_eq!(
        cluster.body(&ROLE, NAME).unwrap()["rules"]
            .as_array()
            .unwrap()
            .len(),
        1
    );
    assert!(
        arguments(cluster.body(&DEPLOYMENT, NAME).unwrap()).contains(&"--pin-secret=pins/pin/pin".to_owned())
    );
    assert_eq!(steps(&decide(&input)), [""; 0]);

    // The PIN comes home: the role there is of no use.
    let mut home = input.clone();
    home.device = Some(view("hsm", "pico", &pico()));
    let told = steps(&decide(&home));
    assert!(
        told.iter().any(|step| step.starts_with("delete Role pins/")),
        "{told:?}"
    );

    input.device = None;
    assert_eq!(
        steps(&decide(&input)),
        [
            format!("delete Role pins/{AWAY} (uid uid-Role pins/{AWAY})"),
            format!("delete RoleBinding pins/{AWAY} (uid uid-RoleBinding pins/{AWAY})"),
        ]
    );
}

#[test]
fn a_secret_that_does_not_consent_is_not_read_and_is_asked_again() {
    let mut input = one();
    elsewhere(&mut input, Consent::Denied);
    let plan = decide(&input);
    assert_eq!(steps(&plan), [""; 0]);
    assert_eq!(plan.look_again, Some(Duration::from_secs(60)));
    input.consent = Consent::Given;
    let told = steps(&decide(&input)).join("\n");
    assert!(told.contains(&format!("create Role pins/{AWAY}")), "{told}");
    assert!(told.contains(&format!("create Deployment hsm/{NAME}")), "{told}");
}

#[test]
fn consent_that_is_taken_back_takes_the_right_and_leaves_the_rest_whatever_the_pool_knows() {
    let mut input = one();
    elsewhere(&mut input, Consent::Given);
    let mut cluster = running(&mut input);
    let given = decide(&input);
    assert_eq!(steps(&given), [""; 0]);
    // It may be taken back at any time.
    assert_eq!(given.look_again, Some(Duration::from_secs(60)));
    input.consent = Consent::Denied;
    let gone = [
        format!("delete Role pins/{AWAY} (uid uid-Role pins/{AWAY})"),
        format!("delete RoleBinding pins/{AWAY} (uid uid-RoleBinding pins/{AWAY})"),
    ];
    assert_eq!(steps(&decide(&input)), gone);
    let mut lost = input.clone();
    lost.complete = false;
    lost.pools[0].status.phase = Some(phase::PENDING.to_owned());
    lost.pools[0].status.aggregated_devices[0].available = false;
    assert_eq!(steps(&decide(&lost)), gone);
    carry_out(&mut input, &mut cluster);
    assert_eq!(steps(&decide(&input)), [""; 0]);
}
