//! A place for a test: a process of its own with a folder of tokens of its own. A module's state belongs to its process, and
//! SoftHSM reads from the environment where its tokens are.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use trustplane_hsm_token::{Attempt, Module, Pin, Selector, Token, TokenInfo};
use trustplane_pkcs11_shim::{Control, Shim, library};

/// Debian's SoftHSM.
pub const SOFTHSM: &str = "/usr/lib/softhsm/libsofthsm2.so";
/// The user PIN of the tokens.
pub const PIN: &str = "648219";
/// The security officer's PIN of the tokens.
pub const OFFICER: &str = "12345678";

const FOLDER: &str = "TRUSTPLANE_TEST_STAGE";

/// Where a test runs.
pub struct Stage {
    folder: PathBuf,
    /// What the shim does.
    pub shim: Shim,
}

/// Runs a test on a stage of its own.
pub fn run(test: impl Fn(&Stage)) {
    if let Some(stage) = Stage::inherited() {
        test(&stage);
        fs::write(stage.folder.join("ended"), "").unwrap();
        return;
    }
    assert!(
        Path::new(SOFTHSM).exists(),
        "{SOFTHSM} is not there: apt-get install softhsm2, or `cargo xtask doctor`"
    );
    // SoftHSM opens each object's file with each call: a file system in memory makes the whole run quicker.
    let memory = Path::new("/dev/shm");
    let folder = tempfile::tempdir_in(memory)
        .or_else(|_| tempfile::tempdir())
        .unwrap();
    let stage = Stage::new(folder.path());
    let status = stage.command(&name_of(&test)).status().unwrap();
    assert!(status.success(), "the test's own process ended with {status}");
    // A name that fits no test would be a success as well.
    assert!(
        folder.path().join("ended").exists(),
        "the test's own process ran no test"
    );
}

/// The test's name as its binary knows it, from the type of the closure that it is.
fn name_of<T>(_: &T) -> String {
    let name = std::any::type_name::<T>();
    let (_, name) = name.split_once("::").unwrap();
    name.trim_end_matches("::{{closure}}").to_owned()
}

impl Stage {
    fn new(folder: &Path) -> Self {
        fs::create_dir(folder.join("tokens")).unwrap();
        let tokens = folder.join("tokens");
        fs::write(
            folder.join("softhsm2.conf"),
            format!(
                "directories.tokendir = {}\nobjectstore.backend = file\nlog.level = ERROR\n",
                tokens.display()
            ),
        )
        .unwrap();
        Self {
            folder: folder.to_owned(),
            shim: Shim::new(folder).unwrap(),
        }
    }

    /// The stage that this process was started on.
    pub fn inherited() -> Option<Self> {
        let folder = PathBuf::from(env::var_os(FOLDER)?);
        let shim = Shim::new(&folder).unwrap();
        Some(Self { folder, shim })
    }

    fn command(&self, test: &str) -> Command {
        let mut command = Command::new(env::current_exe().unwrap());
        command
            .args(["--exact", test, "--nocapture", "--test-threads=1"])
            .env(FOLDER, &self.folder)
            .env("SOFTHSM2_CONF", self.folder.join("softhsm2.conf"))
            .envs(self.shim.environment(Path::new(SOFTHSM)));
        command
    }

    /// Starts another process on this stage, which runs another test of this binary.
    pub fn start(&self, test: &str, role: &str) -> Child {
        let mut command = self.command(test);
        command
            .env(ROLE, role)
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        command.spawn().unwrap()
    }

    /// SoftHSM itself.
    pub fn module(&self) -> Module {
        Module::load(Path::new(SOFTHSM)).unwrap()
    }

    /// SoftHSM behind the shim.
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

    /// Keeps all tokens as they are.
    pub fn keep(&self) {
        copy(&self.folder.join("tokens"), &self.folder.join("kept"));
    }

    /// Has all tokens be again as they were kept. No module must be using them.
    pub fn restore(&self) {
        fs::remove_dir_all(self.folder.join("tokens")).unwrap();
        copy(&self.folder.join("kept"), &self.folder.join("tokens"));
    }

    /// Has no token. No module must be using any.
    pub fn clear(&self) {
        fs::remove_dir_all(self.folder.join("tokens")).unwrap();
        fs::create_dir(self.folder.join("tokens")).unwrap();
        drop(fs::remove_dir_all(self.folder.join("kept")));
    }

    /// Takes all tokens away, and gives them back.
    pub fn unplug(&self) -> impl FnOnce() {
        let (here, away) = (self.folder.join("tokens"), self.folder.join("unplugged"));
        fs::rename(&here, &away).unwrap();
        fs::create_dir(&here).unwrap();
        move || {
            fs::remove_dir(&here).unwrap();
            fs::rename(&away, &here).unwrap();
        }
    }
}

const ROLE: &str = "TRUSTPLANE_TEST_ROLE";

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

/// Makes a token of the blank one that SoftHSM always has.
pub fn provision(module: &mut Module, label: &str) -> TokenInfo {
    let blank = module.inventory().unwrap().blank().unwrap().clone();
    module
        .provision(&blank, label, &Pin::new(OFFICER), &pin())
        .unwrap();
    module.initialise_again().unwrap();
    find(module, label)
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
