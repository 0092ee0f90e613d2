use super::super::tokens::tests::token;
use super::*;

/// A secret with one key. Its digest is the key and a word for the value.
pub fn copy(version: u64, key: &str, word: &str) -> TokenSecret<Encoded> {
    TokenSecret {
        version,
        checksum: format!("sha256:{word}"),
        digest: format!("{key}={word}"),
        description: String::new(),
        sizes: [(key.to_owned(), word.len())].into(),
        data: None,
    }
}

fn live(name: &str, version: u64, word: &str) -> TokenView {
    view(name, CopyState::Live(Box::new(copy(version, "k", word))))
}

fn view(name: &str, state: CopyState) -> TokenView {
    TokenView {
        token: token(name),
        state,
    }
}

fn away(name: &str) -> TokenView {
    view(name, CopyState::NotReached("it is unplugged".to_owned()))
}

fn damaged(name: &str) -> TokenView {
    view(name, CopyState::Unreadable("a part is missing".to_owned()))
}

/// The names of the targets and of the tokens that are left out.
fn told(plan: Result<Plan>) -> Result<(String, String), String> {
    let plan = plan.map_err(|error| error.to_string())?;
    let targets: Vec<&str> = plan.targets.iter().map(Token::serial).collect();
    let skipped: Vec<&str> = plan.skipped.iter().map(|(token, _)| token.serial()).collect();
    Ok((targets.join(","), skipped.join(",")))
}

fn is(targets: &str, skipped: &str) -> Result<(String, String), String> {
    Ok((targets.to_owned(), skipped.to_owned()))
}

const WANTED: Content<'_> = Content {
    digest: "k=new",
    description: None,
};

#[test]
fn create_goes_to_every_token_also_to_one_with_the_same_content() {
    let views = [
        view("a", CopyState::Absent),
        live("b", 7, "new"),
        view("c", CopyState::Absent),
    ];
    assert_eq!(told(create("shop/db", &views, WANTED, false)), is("a,b,c", ""));
    let described = Content {
        description: Some("another"),
        ..WANTED
    };
    let refused = told(create("shop/db", &views, described, false)).unwrap_err();
    assert!(
        refused.contains("token b of pico has it with other content"),
        "{refused}"
    );
}

#[test]
fn create_is_refused_when_a_token_has_other_content() {
    let views = [view("a", CopyState::Absent), live("b", 3, "old")];
    assert_eq!(
        told(create("shop/db", &views, WANTED, false)).unwrap_err(),
        "shop/db exists: token b of pico has it with other content, in version 3. Nothing was changed; to change it, use \
         `kubectl trustplane hsm update`"
    );
    let refused = told(create("shop/db", &[damaged("a")], WANTED, false)).unwrap_err();
    assert_eq!(
        refused,
        "shop/db cannot be read on token a of pico: a part is missing"
    );
}

#[test]
fn a_change_is_refused_when_a_token_is_not_reached() {
    let views = [live("a", 1, "new"), away("b")];
    let plans = |skip| {
        [
            told(create("shop/db", &views, WANTED, skip)),
            told(update("shop/db", &views, skip)),
            told(delete("shop/db", None, &views, skip)),
        ]
    };
    for refused in plans(false) {
        assert_eq!(
            refused.unwrap_err(),
            "some tokens are not reached; nothing was changed:\n  token b of pico: it is unplugged\nTo leave them out, use \
             --skip-unreachable, or name the others with --token"
        );
    }
    for plan in plans(true) {
        assert_eq!(plan, is("a", "b"));
    }
    let refused = told(update("shop/db", &[away("a")], true)).unwrap_err();
    assert!(
        refused.starts_with("no token is reached; nothing was changed:"),
        "{refused}"
    );
}

#[test]
fn update_goes_to_the_tokens_that_have_the_secret() {
    let views = [live("a", 3, "x"), view("b", CopyState::Absent), live("c", 4, "y")];
    assert_eq!(told(update("shop/db", &views, false)), is("a,c", ""));
    assert_eq!(
        told(update("shop/db", &views[1..2], false)).unwrap_err(),
        "shop/db does not exist on token b of pico; to make it, use `kubectl trustplane hsm create`"
    );
    assert!(told(update("shop/db", &[live("a", 1, "x"), damaged("b")], false)).is_err());
}

#[test]
fn delete_goes_to_the_tokens_that_have_the_secret_or_the_key() {
    let other = view("b", CopyState::Live(Box::new(copy(1, "other", "x"))));
    let views = [
        live("a", 3, "x"),
        other,
        view("c", CopyState::Absent),
        damaged("d"),
    ];
    assert_eq!(told(delete("shop/db", None, &views, false)), is("a,b,d", ""));
    assert_eq!(
        told(delete("shop/db", Some("k"), &views[..3], false)),
        is("a", "")
    );
    assert_eq!(
        told(delete("shop/db", Some("none"), &views[..3], false)).unwrap_err(),
        "shop/db has no key none on token a of pico, token b of pico, token c of pico"
    );
    assert_eq!(
        told(delete("shop/db", Some("k"), &views[2..3], false)).unwrap_err(),
        "shop/db does not exist on token c of pico"
    );
}

#[test]
fn copies_agree_by_their_content_and_not_by_their_version() {
    let views = [
        live("a", 3, "x"),
        view("b", CopyState::Absent),
        live("c", 9, "x"),
        away("d"),
    ];
    let versions: Vec<u64> = agreed("shop/db", &views)
        .unwrap()
        .iter()
        .map(|(_, copy)| copy.version)
        .collect();
    assert_eq!(versions, [3, 9]);
    let views = [live("a", 3, "x"), live("b", 3, "y")];
    assert_eq!(
        agreed("shop/db", &views).unwrap_err().to_string(),
        "the copies of shop/db differ: token a of pico has version 3, token b of pico has version 3. Choose one with --token"
    );
    let views = [view("a", CopyState::Absent), away("b")];
    assert_eq!(
        agreed("shop/db", &views).unwrap_err().to_string(),
        "shop/db does not exist on token a of pico"
    );
}
