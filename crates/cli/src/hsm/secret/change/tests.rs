use std::cell::RefCell;
use std::collections::BTreeMap;

use trustplane_api::hsm::secrets_tool::ToolError;

use super::super::tokens::Token;
use super::super::tokens::tests::token;
use super::*;

/// A transport with one answer for each token. It records which tokens were asked.
struct Scripted {
    answers: BTreeMap<&'static str, Result<Answer, ToolError>>,
    asked: RefCell<Vec<String>>,
}

impl Transport for Scripted {
    async fn ask(&self, token: &Token, _: &Request) -> Result<Answer, ToolError> {
        self.asked.borrow_mut().push(token.serial().to_owned());
        self.answers[token.serial()].clone()
    }
}

fn written(version: u64) -> Result<Answer, ToolError> {
    Ok(Answer::Changed {
        version,
        checksum: Some("sha256:x".to_owned()),
        written: true,
    })
}

fn kept(version: u64) -> Result<Answer, ToolError> {
    Ok(Answer::Changed {
        version,
        checksum: Some("sha256:x".to_owned()),
        written: false,
    })
}

fn fails(kind: ErrorKind) -> Result<Answer, ToolError> {
    Err(ToolError::new(kind, "no room"))
}

/// Carries out a change on tokens with these answers, and skips other tokens as not reached. Answers the report and who was asked.
async fn change(
    answers: &[(&'static str, Result<Answer, ToolError>)],
    skipped: &[&str],
    request: &Request,
) -> (Report, Vec<String>) {
    let tokens = Tokens {
        tokens: Vec::new(),
        transport: Scripted {
            answers: answers.iter().cloned().collect(),
            asked: RefCell::default(),
        },
    };
    let plan = Plan {
        targets: answers.iter().map(|(name, _)| token(name)).collect(),
        skipped: skipped
            .iter()
            .map(|name| (token(name), "it is unplugged".to_owned()))
            .collect(),
    };
    let path = SecretPath::parse("shop/db").unwrap();
    let report = carry_out(&tokens, &path, plan, request).await;
    (report, tokens.transport.asked.into_inner())
}

fn merge() -> Request {
    Request::Write {
        path: "shop/db".to_owned(),
        mode: WriteMode::Merge,
        data: BTreeMap::new(),
        description: None,
    }
}

fn removal() -> Request {
    Request::Delete {
        path: "shop/db".to_owned(),
        key: None,
    }
}

fn exit(report: &Report) -> ExitCode {
    report.print(ReportFormat::Json, &mut Vec::new()).unwrap()
}

#[tokio::test]
async fn each_token_is_told_what_came_of_it() {
    let (report, asked) = change(&[("a", written(2)), ("b", kept(7))], &["c"], &merge()).await;
    assert_eq!(asked, ["a", "b"]);
    assert_eq!(
        report.results(),
        [("c", "Skipped"), ("a", "Written"), ("b", "Unchanged")]
    );
    assert_eq!(report.told(), ["token c of pico: it is unplugged"]);
    assert_eq!(exit(&report), ExitCode::SUCCESS);
    let mut out = Vec::new();
    report.print(ReportFormat::Table, &mut out).unwrap();
    let table = String::from_utf8(out).unwrap();
    assert_eq!(
        table,
        "TOKEN   DEVICE   RESULT      VERSION   CHECKSUM\n\
         c       pico     Skipped\n\
         a       pico     Written     2         sha256:x\n\
         b       pico     Unchanged   7         sha256:x\n"
    );
}

#[tokio::test]
async fn a_refusal_ends_a_change_that_no_token_has_yet() {
    let answers = [("a", fails(ErrorKind::Full)), ("b", written(1))];
    let (report, asked) = change(&answers, &[], &merge()).await;
    assert_eq!(asked, ["a"]);
    assert_eq!(report.results(), [("a", "Failed"), ("b", "NotTried")]);
    assert_eq!(report.told(), ["token a of pico: no room", "nothing was changed"]);
    assert_eq!(exit(&report), ExitCode::FAILURE);
}

#[tokio::test]
async fn the_others_are_asked_once_a_token_may_have_the_change() {
    for first in [written(1), kept(1), fails(ErrorKind::EffectUnknown)] {
        let answers = [("a", first), ("b", fails(ErrorKind::Full)), ("c", written(1))];
        let (report, asked) = change(&answers, &[], &merge()).await;
        assert_eq!(asked, ["a", "b", "c"]);
        let told = report.told();
        assert!(
            told.last().unwrap().contains("run the same command again"),
            "{told:?}"
        );
        assert_eq!(exit(&report), ExitCode::FAILURE);
    }
}

#[tokio::test]
async fn a_secret_that_somebody_else_has_deleted_is_deleted() {
    let gone = Ok(Answer::Changed {
        version: 4,
        checksum: None,
        written: true,
    });
    let answers = [("a", fails(ErrorKind::NotFound)), ("b", gone)];
    let (report, _) = change(&answers, &[], &removal()).await;
    assert_eq!(report.results(), [("a", "Unchanged"), ("b", "Deleted")]);
    assert_eq!(exit(&report), ExitCode::SUCCESS);
    let answers = [("a", fails(ErrorKind::NotFound))];
    let (report, _) = change(&answers, &[], &merge()).await;
    assert_eq!(report.results(), [("a", "Failed")]);
}

#[test]
fn a_deletion_is_confirmed_by_the_whole_name() {
    let path = SecretPath::parse("shop/db").unwrap();
    let plan = Plan {
        targets: vec![token("a")],
        skipped: Vec::new(),
    };
    let ask = |typed: Option<&str>| {
        let asked = confirm(&path, None, &plan, typed.map(str::as_bytes));
        asked.map_err(|error| error.to_string())
    };
    assert_eq!(ask(Some("shop/db\n")), Ok(()));
    for typed in ["", "y\n", "shop\n"] {
        let refused = ask(Some(typed)).unwrap_err();
        assert_eq!(refused, "not confirmed; nothing was changed", "{typed:?}");
    }
    assert!(ask(None).unwrap_err().contains("--force"));
}
