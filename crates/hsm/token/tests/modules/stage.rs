//! A place for a test: a process of its own with a folder of tokens of its own. A module's state belongs to its process, and
//! modules read from the environment where their tokens are.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use trustplane_cluster::wait;
use trustplane_hsm_token::{Attempt, Module, Pin, Selector, Token, TokenInfo};
use trustplane_pkcs11_shim::{Control, Shim, library};

use crate::bench::Bench;

/// The user PIN of the tokens.
pub const PIN: &str = "648219";
/// The security officer's PIN of the tokens.
pub const OFFICER: &str = "12345678";

const FOLDER: &str = "TRUSTPLANE_TEST_STAGE";
const BENCH: &str = "TRUSTPLANE_TEST_BENCH";
const ROLE: &str = "TRUSTPLANE_TEST_ROLE";

/// Where a test runs.
pub struct Stage {
    /// A place for files.
    pub folder: PathBuf,
    /// The module.
    pub bench: Bench,
    /// What the shim does.
    pub shim: Shim,
}

/// Runs a test of this name on a stage of its own.
pub fn run(bench: Bench, name: &str, test: fn(&Stage)) {
    if let Some(stage) = Stage::inherited() {
        test(&stage);
        fs::write(stage.folder.join("ended"), "").unwrap();
        return;
    }
    let library = bench.library();
    assert!(
        library.exists(),
        "{} is not there: `cargo xtask doctor` says what is missing",
        library.display()
    );
    // SoftHSM opens each object's file with each call: a file system in memory makes the whole run quicker.
    let memory = Path::new("/dev/shm");
    let folder = tempfile::tempdir_in(memory)
        .or_else(|_| tempfile::tempdir())
        .unwrap();
    let stage = Stage::new(folder.path(), bench);
    // The first part is the name of this binary, which it does not know its tests by.
    let (_, name) = name.split_once("::").unwrap();
    let status = stage.command(name).status().unwrap();
    assert!(status.success(), "the test's own process ended with {status}");
    // A name that fits no test would be a success as well.
    assert!(
        folder.path().join("ended").exists(),
        "the test's own process ran no test"
    );
}

impl Stage {
    fn new(folder: &Path, bench: Bench) -> Self {
        bench.set_up(&folder.join("tokens"));
        Self {
            folder: folder.to_owned(),
            bench,
            shim: Shim::new(folder).unwrap(),
        }
    }

    /// The stage that this process was started on.
    pub fn inherited() -> Option<Self> {
        let folder = PathBuf::from(env::var_os(FOLDER)?);
        let bench = Bench::parse(&env::var(BENCH).unwrap()).unwrap();
        let shim = Shim::new(&folder).unwrap();
        Some(Self { folder, bench, shim })
    }

    fn command(&self, test: &str) -> Command {
        let mut command = self.bench.command();
        command
            .args(["--exact", test, "--nocapture", "--test-threads=1"])
            .env(FOLDER, &self.folder)
            .env(BENCH, format!("{:?}", self.bench))
            .envs(self.environment())
            .envs(self.shim.environment(&self.bench.library()));
        command
    }

    /// What any process needs to find the tokens.
    pub fn environment(&self) -> [(&'static str, PathBuf); 1] {
        self.bench.environment(&self.tokens())
    }

    /// Where the tokens are.
    fn tokens(&self) -> PathBuf {
        self.folder.join("tokens")
    }

    /// Starts another process on this stage, which runs another test of this binary.
    pub fn start(&self, test: &str, role: &str) -> Actor {
        let mut command = self.command(test);
        command
            .env(ROLE, role)
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        Actor(command.spawn().unwrap())
    }

    /// The module itself.
    pub fn module(&self) -> Module {
        Module::load(&self.bench.library()).unwrap()
    }

    /// The module behind the shim.
    pub fn shimmed(&self) -> Module {
        Module::load(&library().unwrap()).unwrap()
    }

    /// Says what goes wrong from now on.
    pub fn set(&self, control: Control) {
        self.shim.set(&control).unwrap();
    }

    /// From now on nothing goes wrong.
    pub fn heal(&self) {
        self.set(Control::default());
    }

    /// Makes a token of the blank one that there always is. Labels need not be unique.
    pub fn provision(&self, module: &mut Module, label: &str) -> TokenInfo {
        let before = in_use(module);
        let blank = module.inventory().unwrap().blank().unwrap().clone();
        module
            .provision(&blank, label, &Pin::new(OFFICER), &pin())
            .unwrap();
        self.bench.make_room(&self.tokens(), before.len() + 1);
        module.initialise_again().unwrap();
        let is_new = |token: &TokenInfo| before.iter().all(|known| known.serial != token.serial);
        in_use(module).into_iter().find(is_new).unwrap()
    }

    /// Keeps all tokens as they are. No module must be writing to them.
    pub fn keep(&self) {
        copy(&self.tokens(), &self.folder.join("kept"));
    }

    /// Has all tokens be again as they were kept. No module must be using them.
    pub fn restore(&self) {
        fs::remove_dir_all(self.tokens()).unwrap();
        copy(&self.folder.join("kept"), &self.tokens());
    }

    /// Has no token. No module must be using any.
    pub fn clear(&self) {
        fs::remove_dir_all(self.tokens()).unwrap();
        self.bench.set_up(&self.tokens());
        drop(fs::remove_dir_all(self.folder.join("kept")));
    }

    /// Takes all tokens away, and gives them back.
    pub fn unplug(&self) -> impl FnOnce() {
        let (here, away) = (self.tokens(), self.folder.join("unplugged"));
        fs::rename(&here, &away).unwrap();
        self.bench.set_up(&here);
        move || {
            fs::remove_dir_all(&here).unwrap();
            fs::rename(&away, &here).unwrap();
        }
    }
}

/// Another process on a stage. It does not outlive its test.
pub struct Actor(Child);

impl Actor {
    /// Waits for its end.
    pub fn wait(&mut self) -> ExitStatus {
        self.0.wait().unwrap()
    }

    /// Waits until the shim has frozen it, and kills it; or until it has ended by itself.
    pub fn kill_when_frozen(&mut self, stage: &Stage) -> ExitStatus {
        let ended = wait::until("the freeze", Duration::from_secs(30), || {
            let ended = self.0.try_wait()?;
            Ok(match stage.shim.has_failed()? {
                true => Some(None),
                false => ended.map(Some),
            })
        });
        if ended.unwrap().is_none() {
            self.0.kill().unwrap();
        }
        self.wait()
    }
}

impl Drop for Actor {
    fn drop(&mut self) {
        // Both fail if it has ended, which is what is wanted.
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

/// What another process has started this one for.
pub fn role() -> Option<String> {
    env::var(ROLE).ok()
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let to = to.join(entry.file_name());
        match entry.file_type().unwrap().is_dir() {
            true => copy(&entry.path(), &to),
            false => drop(fs::copy(entry.path(), to).unwrap()),
        }
    }
}

/// The user PIN.
pub fn pin() -> Pin {
    Pin::new(PIN)
}

fn in_use(module: &Module) -> Vec<TokenInfo> {
    let mut tokens = module.inventory().unwrap().tokens;
    tokens.retain(|token| token.has_user_pin);
    tokens
}

/// The token with a label.
pub fn find(module: &Module, label: &str) -> TokenInfo {
    let inventory = module.inventory().unwrap();
    inventory
        .choose(&Selector::label(label).unwrap())
        .unwrap()
        .clone()
}

/// The token with a label, logged in.
pub fn log_in<'module>(module: &'module Module, label: &str) -> Token<'module> {
    let token = module.open(&find(module, label)).unwrap();
    token.log_in(&pin(), Attempt::Automatic).unwrap();
    token
}
