//! The tool that looks at a token, as a process.

use std::env;
use std::fs;
use std::io::Write;
use std::os::unix::fs::symlink;
use std::process::{Child, Stdio};

use clap::Parser;
use trustplane_hsm_agent::test_token::{TestTokenArgs, run};
use trustplane_pkcs11_shim::library;
use trustplane_pkcs11_shim::{Control, PinTries};

use crate::stage::{LABEL, PIN, Stage, eventually};

const ARGUMENTS: &str = "TRUSTPLANE_TEST_ARGUMENTS";

#[derive(Debug, Parser)]
struct Tool {
    #[command(flatten)]
    args: TestTokenArgs,
}

/// What the process does.
pub fn work() {
    let arguments = env::var(ARGUMENTS).unwrap();
    let words = std::iter::once("test-token").chain(arguments.split('\n'));
    let tool = Tool::parse_from(words);
    if let Err(error) = run(
        &tool.args,
        &mut std::io::stdin().lock(),
        &mut std::io::stdout().lock(),
    ) {
        std::io::stderr()
            .write_all(format!("error: {error}\n").as_bytes())
            .unwrap();
        std::process::exit(3);
    }
}

/// What it prints, or what it complains of. Whoever serves it in this process has to go on meanwhile.
pub async fn tool_says(stage: &Stage, pin: &str, words: &[&str]) -> Result<String, String> {
    ended(begin(stage, pin, words)).await
}

/// The same, of one that was begun.
pub async fn ended(mut child: Child) -> Result<String, String> {
    eventually("the tool ends", || child.try_wait().unwrap().is_some()).await;
    told(child)
}

/// The same, for one that is told to die.
pub async fn tool_dies(stage: &Stage, pin: &str, words: &[&str]) {
    let mut child = begin(stage, pin, words);
    eventually("the tool ends", || child.try_wait().unwrap().is_some()).await;
    assert_eq!(child.wait().unwrap().code(), None);
}

/// The same, for one that nobody here serves.
pub fn tool(stage: &Stage, pin: &str, words: &[&str]) -> Result<String, String> {
    told(begin(stage, pin, words))
}

/// Begins it.
pub fn begin(stage: &Stage, pin: &str, words: &[&str]) -> Child {
    let module = library().unwrap();
    let module = format!("--module={}", module.display());
    let runtime = format!("--runtime-dir={}", stage.runtime().display());
    let mut all: Vec<&str> = words.to_vec();
    if !words.iter().any(|word| word.starts_with("--runtime-dir")) {
        all.push(&runtime);
    }
    if !words.iter().any(|word| word.starts_with("--module")) {
        all.push(&module);
    }
    if !pin.is_empty() {
        all.push("--pin-stdin");
    }
    let mut command = stage.command("test-token");
    command.env(ARGUMENTS, all.join("\n"));
    command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    // It may not want to know.
    drop(
        child
            .stdin
            .take()
            .unwrap()
            .write_all(format!("{pin}\n").as_bytes()),
    );
    child
}

fn told(child: Child) -> Result<String, String> {
    let output = child.wait_with_output().unwrap();
    let [out, err] =
        [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes).into_owned());
    assert!(!format!("{out}{err}").contains(PIN), "{out}{err}");
    match output.status.code() {
        Some(0) => Ok(out),
        Some(3) => Err(err),
        code => panic!("{code:?}: {out}{err}"),
    }
}

#[test]
fn a_secret_is_written_listed_read_and_deleted_and_values_are_shown_by_order_only() {
    let stage = Stage::new();
    let label = format!("--token-label={LABEL}");
    let says = |words: &[&str]| tool(&stage, PIN, &[words, &[&label]].concat());
    let file = stage.folder().join("value");
    fs::write(&file, "hunter2").unwrap();
    let from = format!("--from-file=password={}", file.display());
    let written = says(&["write", "db", &from, "--from-literal=user=admin"]).unwrap();
    assert!(written.contains("db: version 1, sha256:"), "{written}");
    let list = says(&["list"]).unwrap();
    assert!(
        list.contains("db  version 1, 2 keys") && list.contains("1 secrets"),
        "{list}"
    );
    let read = says(&["read", "db"]).unwrap();
    assert!(
        read.contains("password: 7 bytes") && !read.contains("hunter2"),
        "{read}"
    );
    let shown = says(&["read", "db", "--key=password", "--show"]).unwrap();
    assert!(
        shown.contains("password: hunter2") && !shown.contains("admin"),
        "{shown}"
    );
    let info = says(&["info"]).unwrap();
    assert!(info.contains("in use") && info.contains("objects"), "{info}");
    assert!(!info.contains("held by"), "{info}");
    assert!(
        says(&["delete", "db", "--key=user"])
            .unwrap()
            .contains("version 2")
    );
    assert!(says(&["delete", "db"]).unwrap().contains("version 3"));
    assert!(says(&["list"]).unwrap().contains("db  version 3, deleted"));
    assert!(
        says(&["delete", "db", "--purge"])
            .unwrap()
            .contains("nothing is left")
    );
    assert!(says(&["read", "db"]).unwrap_err().contains("no such secret"));
    let bench = says(&["benchmark", "--count=3"]).unwrap();
    assert!(bench.contains("write") && bench.contains("ms each"), "{bench}");
    assert!(
        says(&["list"]).unwrap().contains("0 secrets"),
        "a benchmark leaves nothing behind"
    );
}

#[test]
fn what_is_wrong_is_explained() {
    let stage = Stage::new();
    let missing = tool(&stage, "", &["info", "--module=/nowhere/module.so"]).unwrap_err();
    assert!(
        missing.contains("There is no such file") && missing.contains("libsofthsm2.so"),
        "{missing}"
    );
    let strange = tool(&stage, "", &["info", "--module=/etc/passwd"]).unwrap_err();
    assert!(strange.contains("no PKCS#11 module"), "{strange}");
    let label = tool(&stage, PIN, &["list", "--token-label=other"]).unwrap_err();
    assert!(
        label.contains("no token with label \"other\"") && label.contains("stick"),
        "{label}"
    );
    let slot = tool(&stage, PIN, &["list", "--slot=123456"]).unwrap_err();
    assert!(
        slot.contains("no token is in slot 123456") && slot.contains("stick"),
        "{slot}"
    );
    let elsewhere = tool(&stage, PIN, &["list", "--token-label=stick", "--slot=123456"]).unwrap_err();
    assert!(
        elsewhere.contains("the token with label \"stick\" is in slot")
            && elsewhere.contains("not in slot 123456; leave --slot out"),
        "{elsewhere}"
    );
    let which = tool(&stage, PIN, &["list"]).unwrap_err();
    assert!(
        which.contains("say which token"),
        "SoftHSM has a blank one as well: {which}"
    );
    let none = tool(&stage, "", &["list", "--token-label=stick"]).unwrap_err();
    assert!(none.contains("a PIN is needed"), "{none}");
    assert!(stage.answers("C_Login").is_empty());
}

#[test]
fn a_wrong_pin_is_tried_once_and_not_again_until_somebody_says_so() {
    let stage = Stage::new();
    let label = format!("--token-label={LABEL}");
    stage.heal();
    let wrong = tool(&stage, "111111", &["list", &label]).unwrap_err();
    assert!(
        wrong.contains("That was one try") && wrong.contains("the last PIN tried was wrong"),
        "{wrong}"
    );
    assert_eq!(stage.answers("C_Login").len(), 1);
    stage.heal();
    let refused = tool(&stage, "111111", &["list", &label]).unwrap_err();
    assert!(refused.contains("--try-anyway"), "{refused}");
    assert!(stage.answers("C_Login").is_empty());
    tool(&stage, PIN, &["list", &label, "--try-anyway"]).unwrap();
    stage.set(Control {
        pin_tries: Some(PinTries::Locked),
        ..Control::default()
    });
    let locked = tool(&stage, PIN, &["list", &label, "--try-anyway"]).unwrap_err();
    assert!(locked.contains("No PIN opens it any more"), "{locked}");
    assert!(stage.answers("C_Login").is_empty());
}

#[test]
fn a_blank_token_is_made_ours_and_one_in_use_is_not() {
    let stage = Stage::new();
    let officer = stage.folder().join("so-pin");
    fs::write(&officer, "12345678\n").unwrap();
    let officer = format!("--so-pin-file={}", officer.display());
    let made = tool(&stage, PIN, &["init", "--label=second", &officer]).unwrap();
    assert!(made.contains("is now \"second\""), "{made}");
    tool(&stage, PIN, &["list", "--token-label=second"]).unwrap();
    let used = tool(
        &stage,
        PIN,
        &["init", "--label=third", &officer, "--token-label=second"],
    )
    .unwrap_err();
    assert!(used.contains("it is in use"), "{used}");
}

#[test]
fn a_token_of_opensc_is_not_given_more_than_it_takes_unless_somebody_says_so() {
    let stage = Stage::new();
    let opensc = stage.folder().join("opensc-pkcs11.so");
    symlink(library().unwrap(), &opensc).unwrap();
    let module = format!("--module={}", opensc.display());
    let label = format!("--token-label={LABEL}");
    let write = ["write", "a", "--from-literal=k=", &label, &module];
    let refused = tool(&stage, PIN, &write).unwrap_err();
    assert!(refused.contains("this token takes no empty values"), "{refused}");
    let declared = [&write[..], &["--limits=software"]].concat();
    tool(&stage, PIN, &declared).unwrap();
    tool(&stage, PIN, &["write", "b", "--from-literal=k=", &label]).unwrap();
}
