//! A PIN that is wrong is tried once, and a token that is locked is not asked. The module behind both is one that notes every
//! call.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};
use trustplane_api::hsm::record::Outcome;
use trustplane_cluster::node::Node;
use trustplane_e2e::{say, try_say};
use trustplane_pkcs11_shim::pkcs11::CKR_PIN_INCORRECT;
use trustplane_pkcs11_shim::{Call, Control, PinTries, Shim, library};

use crate::devices::{SOFTHSM, TOKENS, device};
use crate::stage::Stage;
use crate::{USER, leader};

const MISTAKEN: &str = "hsm-agent-mistaken-c";
const WRONG: &str = "none-of-the-pins";

/// Two tokens that are copies of another one.
pub struct Copies {
    mistaken: Shim,
    locked: Shim,
}

impl Copies {
    /// Makes the copies. No program writes to the token meanwhile: a copy has the secrets of that time.
    pub fn of_a_token(node: &Node) -> Self {
        let locked = Control {
            pin_tries: Some(PinTries::Locked),
            ..Control::default()
        };
        Self {
            mistaken: place(node, "c", &Control::default()),
            locked: place(node, "d", &locked),
        }
    }
}

/// The devices are new, so all their objects are of the manager that leads now, which is `heir`.
pub fn are_tried_once(stage: &Stage<'_>, node: &Node, copies: &Copies, right: &str, heir: &str) {
    let Copies { mistaken, locked } = copies;
    stage.pin("mistaken", WRONG);
    stage.apply(&token("mistaken", "c", "mistaken", mistaken));
    stage.apply(&token("locked", "d", "pin", locked));

    stage.pool_says("mistaken-pool", "PinRejected");
    stage.is_told("mistaken", "PinRejected");
    stage.pool_says("locked-pool", "PinLocked");
    stage.is_told("locked", "PinLocked");
    leader::has_written_once(stage, heir, MISTAKEN);
    assert_eq!(stage.tries(MISTAKEN), [Outcome::Rejected]);

    for _ in 0..2 {
        let pod = stage.pod(MISTAKEN).unwrap();
        say(&mut stage.kubectl(&["delete", "pod", &pod.name, "--wait=false"])).unwrap();
        stage.until("another pod to refuse the PIN", || {
            let now = stage.pod(MISTAKEN).filter(|now| now.uid != pod.uid)?;
            refuses(stage, &now.name).then_some(())
        });
    }
    assert_eq!(stage.tries(MISTAKEN), [Outcome::Rejected]);
    assert_eq!(logins(mistaken).len(), 1, "{:?}", logins(mistaken));

    stage.pin("mistaken", right);
    stage.agent_serves(MISTAKEN, &node.name());
    stage.until("the right PIN to be written down", || {
        (stage.tries(MISTAKEN) == [Outcome::Rejected, Outcome::Accepted]).then_some(())
    });
    let wrong = logins(mistaken);
    let wrong = wrong.iter().filter(|call| call.code == Some(CKR_PIN_INCORRECT));
    assert_eq!(wrong.count(), 1);
    assert_eq!(logins(locked), []);
    assert!(
        !locked.calls().unwrap().is_empty(),
        "the token was never looked at"
    );
}

/// A place with a token that was set up before, a copy of another one, and the module that notes calls.
fn place(node: &Node, name: &str, control: &Control) -> Shim {
    node.make_room_for_token(name, USER).unwrap();
    let tokens = node.state_directory().join("softhsm");
    let home = tokens.join(name);
    say(Command::new("cp")
        .arg("--archive")
        .arg("--no-target-directory")
        .args([tokens.join("b/tokens"), home.join("tokens")]))
    .unwrap();
    rename(&home.join("tokens"), name);
    fs::copy(library().unwrap(), home.join("module.so")).unwrap();
    let shim = Shim::new(&home).unwrap();
    shim.set(control).unwrap();
    // The agent, which is another user, adds to the list of calls.
    fs::set_permissions(home.join("shim.calls"), Permissions::from_mode(0o666)).unwrap();
    shim
}

/// Gives the copies of tokens in a directory serial numbers of their own: with the old ones they would be the same tokens under another
/// name. SoftHSM takes the serial number from the name of a token's directory, and keeps it in a file.
fn rename(tokens: &Path, first: &str) {
    for token in fs::read_dir(tokens).unwrap() {
        let token = token.unwrap();
        let uuid = token.file_name().into_string().unwrap();
        let serial = [&uuid[19..23], &uuid[24..]].concat();
        let file = token.path().join("token.object");
        let mut content = fs::read(&file).unwrap();
        let mut windows = content.windows(serial.len());
        let at = windows.position(|window| window == serial.as_bytes()).unwrap();
        // SoftHSM makes them of digits and small letters.
        content[at] = first.as_bytes()[0].to_ascii_uppercase();
        fs::write(&file, content).unwrap();
    }
}

fn token(name: &str, token: &str, pin: &str, shim: &Shim) -> Value {
    let home = format!("/var/lib/softhsm/{token}");
    let mut environment = vec![json!({"name": "SOFTHSM2_CONF", "value": format!("{home}/softhsm2.conf")})];
    // The folder has another name in the pod.
    for (name, path) in shim.environment(Path::new(SOFTHSM)) {
        let seen = match path.starts_with("/usr") {
            true => path,
            false => Path::new(&home).join(path.file_name().unwrap()),
        };
        environment.push(json!({"name": name, "value": seen}));
    }
    let fixed = json!({
        "name": token, "nodeName": "node-1", "tokenLabel": "b",
        "environment": environment, "hostDirectories": [{"path": home}],
    });
    let opening = json!({
        "libraryPath": format!("{home}/module.so"), "pinSecret": {"name": pin, "key": "pin"},
    });
    device(name, "SoftHSM", json!({"static": [fixed]}), opening)
}

fn logins(shim: &Shim) -> Vec<Call> {
    let calls = shim.calls().unwrap().into_iter();
    calls.filter(|call| call.function == "C_Login").collect()
}

/// Whether the agent in a pod says that its PIN was rejected.
fn refuses(stage: &Stage<'_>, pod: &str) -> bool {
    let path = format!("/api/v1/namespaces/{TOKENS}/pods/{pod}:8093/proxy/metrics");
    let said = try_say(&mut stage.kubectl(&["get", "--raw", &path])).unwrap();
    said.out
        .contains(r#"trustplane_hsm_agent_phase{phase="PinRejected"} 1"#)
}
