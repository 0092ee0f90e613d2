use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::grammar;

fn policy(spec: Value) -> Arc<Policy> {
    Arc::new(Policy::new(&serde_json::from_value(spec).unwrap()))
}

const NAME_LABEL: &str = "kubernetes.io/metadata.name";

fn labels(labels: &[(&str, &str)]) -> Labels {
    labels
        .iter()
        .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
        .collect()
}

fn request(text: &str) -> Request {
    let usual = "{provider: aws, path: team/db, secretName: db}";
    let text = format!("{{defaults: {usual}, secrets: [{{{text}}}]}}");
    let annotation = grammar::parse(&text, &["aws", "vault"]);
    annotation.unwrap().requests.remove(0).unwrap()
}

fn judged(policies: &[Arc<Policy>], account: Option<&str>, request: &Request) -> Result<Allowance, Problem> {
    let rules = Rules::of(
        policies,
        "team",
        Some(&labels(&[("tier", "prod"), (NAME_LABEL, "team")])),
    );
    let requester = Requester {
        namespace: "team",
        service_account: account,
    };
    rules.judge(requester, request)
}

fn allows(policies: &[Value], request_text: &str) -> bool {
    let policies: Vec<_> = policies.iter().cloned().map(policy).collect();
    match judged(&policies, Some("web"), &request(request_text)) {
        Ok(allowance) => !allowance.audited,
        Err(problem) => {
            assert_eq!(problem, denied(), "one answer to everything");
            false
        }
    }
}

#[test]
fn without_a_policy_only_ones_own_folder_is_open() {
    assert!(allows(&[], ""));
    assert!(!allows(&[], "path: other/db"));
    assert!(!allows(&[], "path: db"));
    let requester = Requester {
        namespace: "team",
        service_account: None,
    };
    assert!(
        Rules::Off
            .judge(requester, &request("path: ../etc/passwd"))
            .is_ok()
    );
}

#[test]
fn with_a_policy_only_what_it_allows_is_allowed() {
    let shared = json!({"rules": [{"paths": ["shared/**"]}]});
    assert!(allows(std::slice::from_ref(&shared), "path: shared/a/b"));
    assert!(!allows(&[shared], ""), "the built-in rule is gone");
}

#[test]
fn all_that_a_rule_says_must_hold() {
    let rule = json!({
        "providers": ["aws"], "stores": ["prod-*"], "paths": ["{namespace}/{serviceAccount}/*", "common/*"],
        "secretNames": ["db*"],
    });
    let rules = [json!({"rules": [rule]})];
    assert!(allows(&rules, "path: team/web/x"));
    assert!(allows(&rules, "path: common/x, secretName: db-2"));
    assert!(allows(&rules, "path: common/x, store: prod-eu"));
    assert!(!allows(&rules, "path: team/api/x"));
    assert!(!allows(&rules, "path: common/x, secretName: tls"));
    assert!(!allows(&rules, "path: common/x, provider: vault"));
    assert!(!allows(&rules, "path: common/x, store: test"));
}

#[test]
fn a_policy_is_for_its_namespaces_and_accounts() {
    let rules = json!([{"paths": ["**"]}]);
    let of = |selector: Value| json!({"namespaceSelector": selector, "rules": rules});
    assert!(allows(&[of(json!({"matchLabels": {"tier": "prod"}}))], ""));
    assert!(!allows(&[of(json!({"matchLabels": {"tier": "test"}}))], ""));
    assert!(allows(&[json!({"serviceAccounts": ["w*"], "rules": rules})], ""));
    assert!(!allows(
        &[json!({"serviceAccounts": ["api"], "rules": rules})],
        ""
    ));
}

#[test]
fn deny_wins() {
    let open = json!({"rules": [{"paths": ["**"]}]});
    let closed = json!({"rules": [{"effect": "Deny", "paths": ["team/db"], "secretNames": ["db"]}]});
    assert!(!allows(&[open.clone(), closed.clone()], ""));
    assert!(allows(&[open, closed.clone()], "secretName: other"));
    assert!(
        !allows(&[closed], "secretName: other"),
        "denying alone allows nothing"
    );
}

#[test]
fn keys_are_judged_before_the_call_if_they_are_known_and_after_it_if_not() {
    let open = json!({"rules": [{"paths": ["**"], "keys": ["DB_*"]}, {"paths": ["**"], "keys": ["TLS_*"]}]});
    assert!(allows(std::slice::from_ref(&open), "keys: [DB_USER, DB_PASS]"));
    assert!(!allows(std::slice::from_ref(&open), "keys: [DB_USER, TLS_KEY]"));
    assert!(allows(std::slice::from_ref(&open), "keys: {DB_USER: name}"));
    assert!(!allows(
        &[
            open.clone(),
            json!({"rules": [{"effect": "Deny", "paths": ["**"], "keys": ["*_PASS"]}]})
        ],
        "keys: [DB_PASS]"
    ));
    let allowance = judged(&[policy(open)], Some("web"), &request("")).unwrap();
    assert!(allowance.clone().permit(["DB_A", "DB_B"].into_iter()).is_ok());
    assert_eq!(allowance.permit(["DB_A", "X"].into_iter()), Err(denied()));
}

#[test]
fn audit_denies_nothing_and_says_what_would_be() {
    let audit = |rules: Value| json!({"mode": "Audit", "rules": rules});
    let judge = |policies: &[Value]| {
        let policies: Vec<_> = policies.iter().cloned().map(policy).collect();
        judged(&policies, Some("web"), &request("")).map(|allowance| allowance.audited)
    };
    assert_eq!(judge(&[audit(json!([{"paths": ["team/*"]}]))]), Ok(false));
    assert_eq!(judge(&[audit(json!([{"paths": ["other/*"]}]))]), Ok(true));
    // Where one is in force, those in mode Audit neither allow nor deny; they are told.
    let open = json!({"rules": [{"paths": ["**"]}]});
    let closed = json!({"rules": [{"paths": ["other/*"]}]});
    let no = audit(json!([{"effect": "Deny", "paths": ["**"]}]));
    assert_eq!(judge(&[open.clone(), no]), Ok(true));
    assert_eq!(judge(&[closed, audit(json!([{"paths": ["**"]}]))]), Err(denied()));
    assert_eq!(judge(&[open]), Ok(false));
}

#[test]
fn the_highest_floor_and_the_tightest_quota_count() {
    let of = |floor: &str, per_minute: u32| {
        let quota = json!({"perMinute": per_minute, "burst": 5});
        policy(json!({"rules": [{"paths": ["**"]}], "refreshFloor": floor, "quota": quota}))
    };
    let policies = [of("1m", 100), of("1h30m", 200)];
    let allowance = judged(&policies, None, &request("")).unwrap();
    assert_eq!(allowance.refresh_floor, Some(Duration::from_secs(5400)));
    let rules = Rules::of(&policies, "team", None);
    assert_eq!(rules.quota().map(|quota| quota.per_minute), Some(100));
}

#[test]
fn what_is_not_known_allows_nothing_and_denies() {
    let open = policy(json!({"rules": [{"paths": ["**"]}]}));
    let unsure: [Value; 3] = [
        json!({"namespaceSelector": {"matchLabels": {"tier": "prod"}}}),
        json!({"serviceAccounts": ["web"]}),
        json!({"path": "{serviceAccount}/**"}),
    ];
    for what in unsure {
        let of = |effect: &str| {
            let path = what["path"].as_str().unwrap_or("**");
            let mut spec = json!({"rules": [{"effect": effect, "paths": [path]}]});
            for (field, value) in what.as_object().unwrap().iter().filter(|(f, _)| *f != "path") {
                spec[field] = value.clone();
            }
            policy(spec)
        };
        let nobody = Requester {
            namespace: "team",
            service_account: None,
        };
        let judge = |policies: &[Arc<Policy>]| Rules::of(policies, "team", None).judge(nobody, &request(""));
        assert_eq!(judge(&[of("Allow")]), Err(denied()), "{what}");
        assert_eq!(judge(&[open.clone(), of("Deny")]), Err(denied()), "{what}");
        assert!(judge(&[open.clone(), of("Allow")]).is_ok(), "{what}");
    }
    let nobody = Requester {
        namespace: "team",
        service_account: None,
    };
    // The name of a namespace is a label that is known without looking.
    let named = policy(json!({
        "namespaceSelector": {"matchLabels": {NAME_LABEL: "team"}}, "rules": [{"paths": ["**"]}],
    }));
    assert!(
        Rules::of(std::slice::from_ref(&named), "team", None)
            .judge(nobody, &request(""))
            .is_ok()
    );
    assert!(
        Rules::of(&[named], "other", None)
            .judge(nobody, &request(""))
            .is_err()
    );
    // One that cannot be read may be meant to deny.
    let unreadable = Arc::new(Policy::unreadable());
    assert_eq!(
        judged(&[open.clone(), unreadable], Some("web"), &request("")),
        Err(denied())
    );
    let bad_pattern = policy(json!({"rules": [{"effect": "Deny", "paths": ["a//b"]}]}));
    assert_eq!(
        judged(&[open, bad_pattern], Some("web"), &request("")),
        Err(denied())
    );
}

#[test]
fn accounts_are_asked_for_only_where_a_policy_names_them() {
    let needs = |spec: Value| Rules::of(&[policy(spec)], "team", None).name_accounts();
    assert!(!needs(json!({"rules": [{"paths": ["{namespace}/**"]}]})));
    assert!(needs(
        json!({"serviceAccounts": ["a"], "rules": [{"paths": ["**"]}]})
    ));
    assert!(needs(json!({"rules": [{"paths": ["**", "x/{serviceAccount}"]}]})));
    assert!(!Rules::OwnFolder.name_accounts());
}

#[test]
fn a_path_that_could_mean_two_things_is_told_as_such() {
    let open = policy(json!({"rules": [{"paths": ["**"]}]}));
    let problem = judged(&[open], Some("web"), &request("path: a/../b")).unwrap_err();
    assert_eq!(problem.reason, Reason::AnnotationInvalid);
    assert_eq!(problem.text, "path: must not hold '.' or '..' as a part");
}

fn any_spec() -> impl Strategy<Value = Value> {
    let effect = prop::sample::select(vec!["Allow", "Deny"]);
    let path = prop::sample::select(vec![
        "**",
        "team/*",
        "team/db",
        "{namespace}/**",
        "{serviceAccount}/*",
        "x/*",
    ]);
    let keys = prop::sample::select(vec![json!(null), json!(["a*"]), json!(["b"])]);
    let rule = (effect, path, keys).prop_map(|(effect, path, keys)| {
        let mut rule = json!({"effect": effect, "paths": [path]});
        if !keys.is_null() {
            rule["keys"] = keys;
        }
        rule
    });
    let selector = prop::sample::select(vec![
        json!(null),
        json!({"matchLabels": {"tier": "prod"}}),
        json!({"matchLabels": {"tier": "test"}}),
    ]);
    let accounts = prop::sample::select(vec![json!(null), json!(["web"]), json!(["api"])]);
    (prop::collection::vec(rule, 1..4), selector, accounts).prop_map(|(rules, selector, accounts)| {
        let mut spec = json!({"rules": rules});
        if !selector.is_null() {
            spec["namespaceSelector"] = selector;
        }
        if !accounts.is_null() {
            spec["serviceAccounts"] = accounts;
        }
        spec
    })
}

fn any_request() -> impl Strategy<Value = Request> {
    let path = prop::sample::select(vec!["team/db", "web/db", "x/y", "flat"]);
    let keys = prop::sample::select(vec!["", "keys: [a1]", "keys: [a1, b]"]);
    (path, keys).prop_map(|(path, keys)| request(&format!("path: {path}, {keys}")))
}

proptest! {
    #[test]
    fn to_know_less_never_allows_more(
        specs in prop::collection::vec(any_spec(), 1..4), request in any_request(),
    ) {
        let policies: Vec<_> = specs.into_iter().map(policy).collect();
        let known = labels(&[("tier", "prod")]);
        let judge = |labels: Option<&Labels>, service_account| {
            let requester = Requester { namespace: "team", service_account };
            Rules::of(&policies, "team", labels).judge(requester, &request).is_ok()
        };
        let all = judge(Some(&known), Some("web"));
        for (labels, account) in [(None, Some("web")), (Some(&known), None), (None, None)] {
            prop_assert!(all || !judge(labels, account));
        }
    }

    #[test]
    fn to_deny_more_never_allows_more(
        specs in prop::collection::vec(any_spec(), 1..4), request in any_request(), path in "(\\*\\*|team/\\*|x/y)",
    ) {
        let mut policies: Vec<_> = specs.into_iter().map(policy).collect();
        let before = judged(&policies, Some("web"), &request).is_ok();
        policies.push(policy(json!({"rules": [{"effect": "Deny", "paths": [path]}]})));
        prop_assert!(before || judged(&policies, Some("web"), &request).is_err());
    }
}
