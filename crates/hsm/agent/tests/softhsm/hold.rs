//! One process at a time holds a token, and the tool goes through the one that does.

use std::time::Duration;

use trustplane_hsm_agent::catalogue::{Passes, Renewal};
use trustplane_hsm_agent::{AgentError, Phase};
use trustplane_hsm_core::version::Expected;
use trustplane_pkcs11_shim::{Action, Control, Fault};

use crate::grpc::{Agent, NO_PASSES, read, write};
use crate::process::kill;
use crate::stage::{LABEL, PIN, Stage, eventually, list, open, serving, start, until};
use crate::test_token::{begin, ended, tool, tool_dies, tool_says};
use trustplane_hsm_core::examples::{path, secret};

#[tokio::test]
async fn of_two_agents_one_serves_and_the_other_says_who_does() {
    let stage = Stage::new();
    let first = open(stage.settings()).await;
    stage.heal();
    let second = start(stage.settings(), PIN);
    let holder = first.health().borrow().process.unwrap();
    let told = format!("another process holds the token: trustplane-agent module, process {holder}");
    let is_told = |fault: &Option<String>| fault.as_ref() == Some(&told);
    let health = until(&second, |health| is_told(&health.fault)).await;
    assert_eq!(health.phase, Phase::Unavailable);
    let refused = second.read(&path("a")).await.unwrap_err();
    assert_eq!(
        (&refused, refused.status()),
        (&AgentError::Held(told), "UNAVAILABLE")
    );
    assert!(stage.answers("C_Login").is_empty(), "no PIN is tried");
    list(&first).await.unwrap();
    first.stop().await;
    serving(&second).await;
    assert_eq!(stage.answers("C_Login"), [Some(0)]);
}

#[tokio::test]
async fn a_holder_that_is_killed_holds_nothing_any_more() {
    let stage = Stage::new();
    let mut holder = stage.command("host").spawn().unwrap();
    stage.failed().await;
    // What is frozen stays so.
    stage.heal();
    let next = start(stage.settings(), PIN);
    until(&next, |health| {
        health
            .fault
            .as_ref()
            .is_some_and(|fault| fault.contains("holds the token"))
    })
    .await;
    holder.kill().unwrap();
    holder.wait().unwrap();
    serving(&next).await;
}

#[tokio::test]
async fn a_token_that_is_not_served_is_let_go_for_the_tool() {
    let stage = Stage::new();
    let host = start(stage.settings(), "111111");
    until(&host, |health| matches!(health.phase, Phase::PinRefused(_))).await;
    let says = || {
        tool(
            &stage,
            PIN,
            &["list", &format!("--token-label={LABEL}"), "--try-anyway"],
        )
    };
    eventually("the token is let go", || says().is_ok()).await;
}

#[tokio::test]
async fn the_tool_does_not_touch_a_token_on_which_an_agent_is_in_the_midst_of_a_write() {
    for (fault, takes_effect) in [
        (Fault::after(3, Action::Freeze).of("C_CreateObject"), false),
        (Fault::after(2, Action::Freeze).of("C_DestroyObject"), true),
    ] {
        // Nobody waits for it to be over by itself.
        let hour = Duration::from_secs(3600);
        let agent = Agent::with(|settings| settings.deadline = hour, NO_PASSES).await;
        let mut client = agent.client();
        client.write_secret(write("a", "k", b"old")).await.unwrap();
        agent.stage.set(Control::fault(fault));
        let writing = tokio::spawn({
            let mut client = client.clone();
            async move { client.write_secret(write("a", "k", b"new")).await }
        });
        agent.stage.failed().await;
        agent.stage.heal();
        let list = ["list", "--token-label=stick"];
        let write_tool = ["write", "a", "--from-literal=k=tool", "--token-label=stick"];
        let tools = [&list[..], &write_tool].map(|words| begin(&agent.stage, PIN, words));
        eventually("they wait for the agent", || agent.host.waiting() == 2).await;
        let info = tool_says(&agent.stage, "", &["info"]).await.unwrap();
        assert!(info.contains("held by      trustplane-agent module"), "{info}");
        kill(agent.host.health().borrow().process.unwrap());
        for tool in tools {
            let told = ended(tool).await;
            assert!(told.is_err(), "{told:?}");
        }
        writing.await.unwrap().unwrap_err();
        let health = serving(&agent.host).await;
        assert_eq!((health.starts, health.recoveries), (2, 1), "{health:?}");
        // Only the agent's next child has logged in, and it has found the write as it was left.
        assert_eq!(agent.stage.answers("C_Login"), [Some(0)]);
        let found = client.read_secret(read("a")).await.unwrap().into_inner();
        let value = if takes_effect { "new" } else { "old" };
        assert_eq!(found.secret_data.unwrap().data["k"], value.as_bytes());
        client.write_secret(write("a", "k", b"next")).await.unwrap();
        assert_eq!(
            agent.labels().len(),
            3,
            "nothing is left over: {:?}",
            agent.labels()
        );
    }
}

#[tokio::test]
async fn the_tool_writes_while_the_agent_passes_and_both_see_it() {
    let passes = Passes {
        every: Duration::from_millis(20),
        renewal: Renewal::EachPass,
        exclusive: false,
    };
    let agent = Agent::with(|_| {}, passes).await;
    let mut client = agent.client();
    for version in 1..=5 {
        let literal = format!("--from-literal=k={version}");
        let words = ["write", "a", &literal, "--token-label=stick"];
        let written = tool_says(&agent.stage, "", &words).await.unwrap();
        assert!(written.contains(&format!("a: version {version}, ")), "{written}");
        let found = client.read_secret(read("a")).await.unwrap().into_inner();
        assert_eq!(found.version, version);
    }
    let health = agent.host.health().borrow().clone();
    assert_eq!(
        (health.starts, health.losses, health.recoveries),
        (1, 0, 0),
        "{health:?}"
    );
}

/// A line of the tool, without times and without what belongs to the test that the process is.
fn of_tool(line: &str) -> Option<String> {
    let line = line.strip_prefix("test stage::process ... ").unwrap_or(line);
    match line {
        "" | "ok" => None,
        line if line.starts_with("running ") || line.starts_with("test result: ") => None,
        line if line.contains("ms each") => Some(line.chars().take(27).collect()),
        line => Some(line.to_owned()),
    }
}

/// What the tool says to all that it can do.
async fn screens(stage: &Stage, pin: &str) -> Vec<Result<String, String>> {
    let mut screens = Vec::new();
    for words in [
        &[
            "write",
            "db",
            "--from-literal=user=admin",
            "--from-literal=password=x",
        ][..],
        &[
            "write",
            "db",
            "--from-literal=user=admin",
            "--from-literal=password=y",
        ],
        &["write", "other", "--from-literal=a=b"],
        &["list"],
        &["read", "db"],
        &["read", "db", "--key=user", "--show"],
        &["read", "db", "--key=none"],
        &["read", "none"],
        &["delete", "db", "--key=user"],
        &["delete", "db", "--key=user"],
        &["delete", "db"],
        &["delete", "db"],
        &["read", "db"],
        &["list"],
        &["delete", "db", "--purge"],
        &["delete", "other", "--purge"],
        &["delete", "other", "--purge"],
        &["write", "bad path", "--from-literal=a=b"],
        &["write", "empty"],
        &["benchmark", "--count=3"],
        &["list"],
    ] {
        let says = tool_says(stage, pin, &[words, &["--token-label=stick"]].concat()).await;
        screens.push(says.map(|text| text.lines().filter_map(of_tool).collect::<Vec<_>>().join("\n")));
    }
    screens
}

#[tokio::test]
async fn the_tool_shows_the_same_through_an_agent_as_by_itself_and_needs_no_pin_there() {
    let direct = screens(&Stage::new(), PIN).await;
    let agent = Agent::start().await;
    agent.stage.heal();
    let through = screens(&agent.stage, "").await;
    assert_eq!(through, direct);
    assert!(
        direct.iter().filter(|screen| screen.is_ok()).count() >= 14,
        "{direct:?}"
    );
    assert!(agent.stage.answers("C_Login").is_empty());
    let info = tool_says(&agent.stage, "", &["info"]).await.unwrap();
    let holder = agent.host.health().borrow().process.unwrap();
    let held = format!("  held by      trustplane-agent module, process {holder}\n");
    assert_eq!(info.matches(&held).count(), 1, "{info}");
}

#[tokio::test]
async fn a_change_that_is_found_interrupted_in_service_is_told_like_one_at_the_start() {
    let stage = Stage::new();
    let host = open(stage.settings()).await;
    host.write(&path("a"), secret(1, &[("k", b"v")]), Expected::Absent)
        .await
        .unwrap();
    for (count, renew) in [(1, false), (2, true)] {
        // A tool that does not see our lock dies in the midst of a write.
        stage.set(Control::fault(
            Fault::after(3, Action::Abort).of("C_CreateObject"),
        ));
        let elsewhere = format!("--runtime-dir={}", stage.folder().join("elsewhere").display());
        let words = [
            "write",
            "a",
            "--from-literal=k=w",
            "--token-label=stick",
            &elsewhere,
        ];
        tool_dies(&stage, PIN, &words).await;
        stage.heal();
        match renew {
            true => host.renew().await.unwrap(),
            false => drop(host.survey(true).await.unwrap()),
        }
        let health = host.health().borrow().clone();
        assert_eq!(health.recoveries, count);
        assert_eq!(health.interrupted, ["a: the interrupted write was undone"]);
        assert!(health.is_serving());
    }
}
