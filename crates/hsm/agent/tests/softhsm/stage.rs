//! A place for a test: a folder of tokens of its own. The test's own process loads no module; its children do.

use std::env;
use std::ffi::OsString;
use std::fs;
use std::future::ready;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use tempfile::TempDir;
use trustplane_hsm_agent::{AgentError, Given, Health, Host, Listing, Program, Settings, Wanted, child};
use trustplane_hsm_token::{Attempt, Module, Pin};
use trustplane_pkcs11_shim::{Control, Shim, library};
use trustplane_process::backoff::Backoff;
use trustplane_process::secret::Secret;

/// Debian's SoftHSM.
pub const SOFTHSM: &str = "/usr/lib/softhsm/libsofthsm2.so";
/// The user PIN of the tokens. It has letters, because tests search logs for it: the six digits of a plain PIN also occur
/// in the microseconds of a time stamp.
pub const PIN: &str = "pin-648219";
/// The label of the tokens.
pub const LABEL: &str = "stick";
/// What takes longer than this has failed.
pub const PATIENCE: Duration = Duration::from_secs(20);

const ROLE: &str = "TRUSTPLANE_TEST_ROLE";
/// A label and a value, for the one who writes as another tool does; a line, for the one who prints it.
pub const OBJECT: &str = "TRUSTPLANE_TEST_OBJECT";
const FOLDER: &str = "TRUSTPLANE_TEST_STAGE";

/// Where a test runs.
pub struct Stage {
    folder: PathBuf,
    _kept: Option<TempDir>,
    /// What the shim does.
    pub shim: Shim,
}

impl Stage {
    /// A stage with one token.
    pub fn new() -> Self {
        assert!(
            Path::new(SOFTHSM).exists(),
            "{SOFTHSM} is not there: apt-get install softhsm2, or `cargo xtask doctor`"
        );
        let kept = tempfile::tempdir_in("/dev/shm")
            .or_else(|_| tempfile::tempdir())
            .unwrap();
        let folder = kept.path().to_owned();
        let tokens = folder.join("tokens");
        fs::create_dir(&tokens).unwrap();
        let tokens = tokens.display();
        fs::write(
            folder.join("softhsm2.conf"),
            format!("directories.tokendir = {tokens}\nobjectstore.backend = file\nlog.level = ERROR\n"),
        )
        .unwrap();
        let stage = Self {
            shim: Shim::new(&folder).unwrap(),
            folder,
            _kept: Some(kept),
        };
        stage.provision();
        stage
    }

    /// The stage that this process was started on.
    fn inherited() -> Self {
        let folder = PathBuf::from(env::var_os(FOLDER).unwrap());
        Self {
            shim: Shim::new(&folder).unwrap(),
            folder,
            _kept: None,
        }
    }

    /// Where the stage is.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Where those who want to open a token meet.
    pub fn runtime(&self) -> PathBuf {
        self.folder.join("run")
    }

    /// Makes a token.
    pub fn provision(&self) {
        let status = self.command("provision").status().unwrap();
        assert!(status.success(), "{status}");
    }

    /// This binary, as a process that does one thing.
    pub fn program(&self, role: &str) -> Program {
        let named = |name: &str, value: &Path| (OsString::from(name), value.as_os_str().to_owned());
        let mut environment = vec![
            named(ROLE, Path::new(role)),
            named(FOLDER, &self.folder),
            named("SOFTHSM2_CONF", &self.folder.join("softhsm2.conf")),
        ];
        let shim = self.shim.environment(Path::new(SOFTHSM));
        environment.extend(shim.map(|(name, value)| named(name, &value)));
        Program {
            path: env::current_exe().unwrap(),
            arguments: ["--exact", "stage::process", "--nocapture", "--test-threads=1"]
                .map(OsString::from)
                .into(),
            environment,
            ..Program::default()
        }
    }

    /// The same, to be started by the test itself.
    pub fn command(&self, role: &str) -> Command {
        let program = self.program(role);
        let mut command = Command::new(program.path);
        command.args(program.arguments).envs(program.environment);
        command.stdout(Stdio::null());
        command
    }

    /// The token behind the shim, with times that suit a test.
    pub fn settings(&self) -> Settings {
        let wanted = Wanted {
            label: Some(LABEL.to_owned()),
            ..Wanted::default()
        };
        Settings {
            runtime: self.runtime(),
            deadline: Duration::from_secs(10),
            opening: Duration::from_secs(10),
            retry: Duration::from_millis(200),
            // Nobody asks but those who are counted.
            probe: Duration::from_secs(3600),
            backoff: Backoff {
                first: Duration::from_millis(50),
                max: Duration::from_millis(200),
            },
            ..Settings::new(self.program("module"), library().unwrap(), wanted)
        }
    }

    /// Says what goes wrong from now on.
    pub fn set(&self, control: Control) {
        self.shim.set(&control).unwrap();
    }

    /// From now on nothing goes wrong.
    pub fn heal(&self) {
        self.set(Control::default());
    }

    /// What the calls of a function were answered since the control was set.
    pub fn answers(&self, function: &str) -> Vec<Option<u64>> {
        let calls = self.shim.calls().unwrap();
        let calls = calls.iter().filter(|call| call.function == function);
        calls.map(|call| call.code).collect()
    }

    /// Waits until the fault has happened.
    pub async fn failed(&self) {
        eventually("the fault happens", || self.shim.has_failed().unwrap()).await;
    }

    /// Changes all tokens for others that are kept aside.
    pub fn swap(&self) {
        let [here, aside, between] = ["tokens", "aside", "between"].map(|name| self.folder.join(name));
        fs::create_dir_all(&aside).unwrap();
        fs::rename(&here, &between).unwrap();
        fs::rename(&aside, &here).unwrap();
        fs::rename(&between, &aside).unwrap();
    }
}

/// Opens a token, and waits until it is served.
pub async fn open(settings: Settings) -> Host {
    let host = start(settings, PIN);
    serving(&host).await;
    host
}

/// Waits until the token is served.
pub async fn serving(host: &Host) -> Health {
    until(host, Health::is_serving).await
}

/// Starts a host.
pub fn start(settings: Settings, pin: &str) -> Host {
    Host::start(settings, secret(pin), Attempt::Automatic).unwrap()
}

/// Gives a host another PIN, which is from no Secret.
pub async fn give_pin(host: &Host, pin: &str, attempt: Attempt) {
    host.give(Given::new(secret(pin), attempt)).await.unwrap();
}

/// Every secret that the token has.
pub async fn list(host: &Host) -> Result<Listing, AgentError> {
    host.survey(true).await.map(|survey| survey.listing)
}

/// A PIN.
pub fn secret(pin: &str) -> Secret<String> {
    Secret::new(pin.to_owned())
}

/// Waits until the health is such.
pub async fn until(host: &Host, is_so: impl Fn(&Health) -> bool) -> Health {
    let mut health = host.health();
    let reached = tokio::time::timeout(PATIENCE, health.wait_for(|health| is_so(health))).await;
    let reached = reached.map(|health| health.unwrap().clone());
    reached.unwrap_or_else(|_| panic!("it stays {:?}", host.health().borrow()))
}

/// Looks again and again, for what tells nobody.
pub async fn eventually(what: &str, mut is_so: impl FnMut() -> bool) {
    let look = || ready(Ok(is_so().then_some(())));
    trustplane_testkit::until(what, PATIENCE, look).await.unwrap();
}

/// Not a test by itself: what others start as a process of its own.
#[test]
fn process() {
    match env::var(ROLE).as_deref() {
        Ok("module") => child::run().unwrap(),
        Ok("provision") => {
            let mut module = Module::load(Path::new(SOFTHSM)).unwrap();
            let blank = module.inventory().unwrap().blank().unwrap().clone();
            module
                .provision(&blank, LABEL, &Pin::new("12345678"), &Pin::new(PIN))
                .unwrap();
        }
        Ok("chatty") => {
            std::io::stderr()
                .write_all(format!("{}\n", env::var(OBJECT).unwrap()).as_bytes())
                .unwrap();
            child::run().unwrap();
        }
        Ok("labels") => crate::grpc::tell_labels(),
        Ok("stranger") => crate::grpc::strange(&env::var(OBJECT).unwrap()),
        Ok("test-token") => crate::test_token::work(),
        Ok("pcscd") => crate::pcscd::daemon(&Stage::inherited()),
        Ok("host") => crate::process::host(&Stage::inherited()),
        _ => {}
    }
}
