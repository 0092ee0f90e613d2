//! A module that needs pcscd has it, in the agent's pod and not on the node.

use trustplane_api::hsm::record::AgentPhase;

use crate::bus::Bus;
use crate::devices::{READER, reader};
use crate::policy::everything_goes;
use crate::stage::{Stage, find_process};

const AGENT: &str = "hsm-agent-reader-53311522600451";

/// There is no card in it, so nothing is served, and nothing is tried.
pub fn are_spoken_to(stage: &Stage<'_>, bus: &Bus) {
    bus.plug(&READER, 9);
    stage.apply(&reader());
    let pod = stage.until("pcscd beside the module", || {
        let pod = stage.pod(AGENT)?;
        find_process(&pod.uid, "/usr/sbin/pcscd")?;
        Some(pod)
    });
    stage.until("the agent to look for a card", || {
        let state = stage.record(AGENT).state?;
        (state.phase == AgentPhase::Unavailable).then_some(())
    });
    let now = stage.pod(AGENT).unwrap();
    assert_eq!((&now.uid, now.restarts, now.ready), (&pod.uid, 0, false));
    assert_eq!(stage.tries(AGENT), []);
    everything_goes(stage, ["reader"]);
    bus.unplug(&READER);
}
