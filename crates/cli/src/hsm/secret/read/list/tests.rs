use super::super::super::tokens::tests::token;
use super::*;

fn listed(path: &str, version: u64, digest: &str) -> ListedSecret {
    ListedSecret {
        path: path.to_owned(),
        version,
        digest: digest.to_owned(),
        keys: 2,
        timestamp: "2026-07-01T12:00:00Z".to_owned(),
        ..ListedSecret::default()
    }
}

fn has(name: &str, secrets: Vec<ListedSecret>) -> Listing {
    (token(name), Ok(secrets))
}

/// The path, the version, the tokens and the note of each row.
fn rows(listings: &[Listing], prefix: Option<&str>, deleted: bool) -> Vec<[String; 4]> {
    let rows = Lists::of(listings, prefix, deleted).rows().into_iter();
    rows.map(|row| [0, 2, 4, 5].map(|column| row[column].clone()))
        .collect()
}

#[test]
fn a_row_tells_where_a_secret_is_and_whether_its_copies_are_equal() {
    let damaged = ListedSecret {
        path: "shop/old".to_owned(),
        fault: "a part is missing".to_owned(),
        ..ListedSecret::default()
    };
    let listings = [
        has(
            "a",
            vec![listed("shop/db", 1, "x"), listed("shop/tls", 1, "x"), damaged],
        ),
        has("b", vec![listed("shop/db", 3, "x"), listed("shop/tls", 2, "y")]),
    ];
    let expected = [
        ["shop/db", "3", "a,b", ""],
        ["shop/old", "0", "a", "unreadable on a; not on b"],
        ["shop/tls", "2", "a,b", "copies differ"],
    ];
    assert_eq!(
        rows(&listings, None, false),
        expected.map(|row| row.map(str::to_owned))
    );
}

#[test]
fn deleted_secrets_are_listed_only_when_they_are_asked_for() {
    let deleted = ListedSecret {
        deleted: true,
        ..listed("shop/db", 2, "")
    };
    let listings = [has("a", vec![listed("shop/db", 1, "x")]), has("b", vec![deleted])];
    assert_eq!(rows(&listings, None, false)[0], ["shop/db", "1", "a", "not on b"]);
    assert_eq!(
        rows(&listings, None, true)[0],
        ["shop/db", "2", "a,b", "deleted on b"]
    );
}

#[test]
fn a_prefix_ends_at_a_slash() {
    let paths = ["shop", "shop/db", "shopping/db", "bank/shop"];
    let listings = [has("a", paths.map(|path| listed(path, 1, "x")).to_vec())];
    let found: Vec<String> = rows(&listings, Some("shop"), false)
        .into_iter()
        .map(|[path, ..]| path)
        .collect();
    assert_eq!(found, ["shop", "shop/db"]);
}

#[test]
fn a_token_that_is_not_reached_is_not_said_to_lack_a_secret() {
    let listings = [
        has("a", vec![listed("shop/db", 1, "x")]),
        (token("b"), Err("it is unplugged".to_owned())),
    ];
    let lists = Lists::of(&listings, None, false);
    assert_eq!(lists.rows()[0][5], "");
    assert_eq!(lists.troubles(), "\n  token b of pico: it is unplugged");
    let document = serde_json::to_value(&lists).unwrap();
    assert_eq!(document["secrets"][0]["copies"][0]["version"], 1);
    assert_eq!(document["notReached"][0]["token"], "b");
}
