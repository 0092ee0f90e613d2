use proptest::prelude::*;
use regex::Regex;

use super::*;

const TEAM: Filling<'static> = Filling {
    namespace: "team",
    service_account: Some("web"),
};

fn speaks(pattern: &str, path: &str) -> bool {
    let pattern = PathPattern::parse(pattern).unwrap_or_else(|| panic!("{pattern}"));
    pattern
        .covers(&CanonicalPath::parse(path).unwrap(), &Home::default(), TEAM)
        .unwrap()
}

fn may_speak(pattern: &str, path: &str, home: &Home) -> bool {
    let pattern = PathPattern::parse(pattern).unwrap_or_else(|| panic!("{pattern}"));
    pattern
        .may_cover(&CanonicalPath::parse(path).unwrap(), home, TEAM)
        .unwrap()
}

#[test]
fn parts_are_matched_one_by_one() {
    for (pattern, path, expected) in [
        ("a/b", "a/b", true),
        ("/a/b", "a/b", true),
        ("a/b", "/a/b", true),
        ("a/*", "a/b", true),
        ("a/*", "a/b/c", false),
        ("a/*", "a", false),
        ("a/**", "a/b/c", true),
        ("a/**", "a", true),
        ("**", "a/b", true),
        ("**/c", "a/b/c", true),
        ("a/**/c/*", "a/x/c/y/c/z", true),
        ("a/**/c", "a/x/c/y", false),
        ("{namespace}/{serviceAccount}-*", "team/web-1", true),
        ("{namespace}/*", "teams/x", false),
        ("x{namespace}y", "xteamy", true),
        ("a*c*e", "abcde", true),
        ("a*c*e", "abcdef", false),
    ] {
        assert_eq!(speaks(pattern, path), expected, "{pattern} {path}");
    }
}

#[test]
fn another_account_is_reached_only_by_its_arn() {
    let arn = "arn:aws:secretsmanager:eu-west-1:123:secret:team/db-AbCdEf";
    assert!(speaks(
        "arn:aws:secretsmanager:eu-*:123:secret:{namespace}/db-*",
        arn
    ));
    assert!(speaks("arn:*:*:*:*:secret:**", arn));
    assert!(!speaks("arn:aws:secretsmanager:eu-west-1:124:secret:**", arn));
    assert!(!speaks("**", arn));
    assert!(!speaks("arn:*:*:*:*:secret:**", "team/db"));
}

#[test]
fn what_could_never_match_is_no_pattern() {
    for bad in [
        "",
        "/",
        "a//b",
        "a/",
        "a/../b",
        "./a",
        "a**",
        "{pod}/a",
        "a}",
        "{",
        "arn:aws:x",
        "arn:a:b:c:d:key:x",
    ] {
        assert_eq!(PathPattern::parse(bad), None, "{bad}");
    }
}

#[test]
fn without_the_account_nothing_is_said() {
    let pattern = PathPattern::parse("{serviceAccount}/*").unwrap();
    let nobody = Filling {
        service_account: None,
        ..TEAM
    };
    assert!(pattern.names_account());
    assert_eq!(
        pattern.covers(&CanonicalPath::parse("web/x").unwrap(), &Home::default(), nobody),
        None
    );
}

#[test]
fn an_arn_and_a_name_may_be_one_unless_the_place_is_known_to_differ() {
    let arn = "arn:aws:secretsmanager:eu-west-1:123:secret:team/db-AbCdEf";
    let unknown = Home::default();
    for (pattern, path) in [
        ("team/db", arn),
        ("team/db-AbCdEf", arn),
        ("team/**", arn),
        (arn, "team/db"),
        (arn, "team/db-AbCdEf"),
        ("arn:*:*:*:*:secret:team/db-*", "team/db"),
        ("arn:*:*:*:*:secret:team/db", "team/db"),
        ("arn:*:*:*:*:secret:team/db", arn),
    ] {
        assert!(may_speak(pattern, path, &unknown), "{pattern} {path}");
        assert!(!speaks(pattern, path), "{pattern} {path}");
    }
    assert!(!may_speak("team/d", arn, &unknown));
    assert!(!may_speak(arn, "team/other", &unknown));
    assert!(!may_speak(arn, "team/db-AbCdEf-AbCdEg", &unknown));
    let home = |account: &str| Home {
        region: Some("eu-west-1".into()),
        account: Some(account.into()),
    };
    for (pattern, path) in [("team/db", arn), (arn, "team/db")] {
        assert!(may_speak(pattern, path, &home("123")), "{pattern} {path}");
        assert!(!may_speak(pattern, path, &home("124")), "{pattern} {path}");
    }
    // What allows must mean every name that the ARN may mean.
    let covers = |pattern: &str| {
        let pattern = PathPattern::parse(pattern).unwrap();
        pattern.covers(&CanonicalPath::parse(arn).unwrap(), &home("123"), TEAM)
    };
    assert_eq!(covers("team/*"), Some(true));
    assert_eq!(covers("team/db"), Some(false));
    assert_eq!(covers("team/db-AbCdEf"), Some(false));
}

proptest! {
    #[test]
    fn stars_mean_what_they_mean_to_a_regex(pattern in "[ab*]{0,12}", text in "[ab]{0,16}") {
        let regex = Regex::new(&format!("^{}$", pattern.replace('*', ".*"))).unwrap();
        prop_assert_eq!(Glob::new(&pattern).matches(&text), regex.is_match(&text));
    }

    #[test]
    fn paths_mean_what_they_mean_to_a_regex(
        pattern in "(a|b|\\*|\\*\\*|a\\*)(/(a|b|\\*|\\*\\*|a\\*)){0,5}",
        path in "[ab]{1,2}(/[ab]{1,2}){0,6}",
    ) {
        // Every part brings its slash along, so that any number of parts can be none.
        let parts = pattern.split('/').map(|part| match part {
            "**" => "([^/]+/)*".to_owned(),
            part => format!("{}/", part.replace('*', "[^/]*")),
        });
        let regex = Regex::new(&format!("^{}$", parts.collect::<String>())).unwrap();
        prop_assert_eq!(speaks(&pattern, &path), regex.is_match(&format!("{path}/")));
    }

    #[test]
    fn nothing_written_makes_it_fall_over(pattern in ".{0,40}", path in ".{0,40}") {
        if let (Some(pattern), Ok(path)) = (PathPattern::parse(&pattern), CanonicalPath::parse(&path)) {
            let exact = pattern.covers(&path, &Home::default(), TEAM);
            let any = pattern.may_cover(&path, &Home::default(), TEAM);
            prop_assert!(exact != Some(true) || any == Some(true), "what covers may cover");
        }
    }
}
