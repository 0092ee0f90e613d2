//! Ready speaks of the spec that is in force, and the bundle comes before the server.

use super::*;

#[test]
fn an_operand_is_not_ready_while_its_workload_is_written() {
    let mut input = settled(OperandKind::SpireAgent);
    input.manager.as_mut().unwrap().spec["clusterName"] = "two".into();
    let (is, why, message) = condition(&status(&plan(&input)), conditions::READY);
    assert_eq!((is.as_str(), why.as_str()), ("False", reason::PROGRESSING));
    assert!(message.contains("is being changed"), "{message}");
}

#[test]
fn ztwim_is_not_ready_while_an_operand_is_written() {
    let ready = json!({"conditions": [{
        "type": conditions::READY, "status": "True", "reason": reason::READY, "message": "",
        "observedGeneration": 1, "lastTransitionTime": "1970-01-01T00:00:00Z",
    }]});
    let mut operands = all_operands();
    for seen in operands.values_mut() {
        seen.status = ready.clone();
    }
    let status = status(&config(Some(ztwim()), operands));
    let (is, why, message) = condition(&status, conditions::READY);
    assert_eq!((is.as_str(), why.as_str()), ("False", reason::PROGRESSING));
    assert!(message.contains("SpireServer(reconciling)"), "{message}");
    assert_eq!(status["operands"][0]["ready"], "false");
}

#[test]
fn the_bundle_is_made_before_the_server_that_writes_to_it() {
    let told = lines(&plan(&input(OperandKind::SpireServer)));
    let place = |what: &str| told.iter().position(|line| line.contains(what)).expect(what);
    assert!(
        place("ConfigMap zero-trust-workload-identity-manager/spire-bundle") < place("StatefulSet "),
        "{told:#?}"
    );
}
