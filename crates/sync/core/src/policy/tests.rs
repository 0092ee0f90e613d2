use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::grammar;
use crate::path::ARN_PROVIDER;

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

fn request(text: &str) -> Arc<Request> {
    let usual = "{provider: aws, path: team/db, secretName: db}";
    let text = format!("{{defaults: {usual}, secrets: [{{{text}}}]}}");
    let annotation = grammar::parse(&text, &["aws", "vault", ARN_PROVIDER]);
    annotation.unwrap().requests.remove(0).unwrap()
}

fn judged(policies: &[Arc<Policy>], account: Option<&str>, request: &Request) -> Result<Allowance, Problem> {
    judged_at(policies, account, request, None)
}

fn judged_at(
    policies: &[Arc<Policy>],
    account: Option<&str>,
    request: &Request,
    store: Option<&StoreView>,
) -> Result<Allowance, Problem> {
    let rules = Rules::of(
        policies,
        "team",
        Some(&labels(&[("tier", "prod"), (NAME_LABEL, "team")])),
    );
    let requester = Requester {
        namespace: "team",
        service_account: account,
    };
    rules.judge(requester, request, store)
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
        Rules::off()
            .judge(requester, &request("path: ../etc/passwd"), None)
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
    assert!(!allows(
        &[
            open.clone(),
            json!({"rules": [{"effect": "Deny", "paths": ["**"], "keys": ["*_PASS"]}]})
        ],
        "keys: [DB_PASS]"
    ));
    let allowance = judged(&[policy(open)], Some("web"), &request("")).unwrap();
    let permit = |keys: Vec<&'static str>| allowance.clone().permit(&SourceKeys::These(keys));
    assert!(permit(vec!["DB_A", "DB_B"]).is_ok());
    assert_eq!(permit(vec!["DB_A", "X"]), Err(denied()));
}

#[test]
fn keys_are_those_of_the_secret_whatever_they_are_called() {
    let open = json!({"rules": [{"paths": ["**"]}]});
    let no_admin = json!({"rules": [{"effect": "Deny", "paths": ["**"], "keys": ["ADMIN*"]}]});
    let only_db = json!({"rules": [{"paths": ["**"], "keys": ["DB_*"]}]});
    let judge = |policies: &[&Value], text: &str| {
        let policies: Vec<Value> = policies.iter().copied().cloned().collect();
        allows(&policies, text)
    };
    // The name in the Secret is the requester's to choose, the name in the secret is not.
    assert!(!judge(&[&open, &no_admin], "keys: {harmless: ADMIN_PASS}"));
    assert!(judge(&[&open, &no_admin], "keys: {ADMIN_PASS: harmless}"));
    assert!(!judge(&[&only_db], "keys: {DB_USER: ADMIN_PASS}"));
    assert!(judge(&[&only_db], "keys: {user: DB_USER}"));
    // Bytes as they are, and a nested part, may hold anything.
    for all in [
        "format: raw",
        "select: nested.part",
        "select: nested, keys: [DB_USER]",
    ] {
        assert!(!judge(&[&open, &no_admin], all), "{all}");
        assert!(!judge(&[&only_db], all), "{all}");
        assert!(judge(&[&open], all), "{all}");
        let any = json!({"rules": [{"paths": ["**"], "keys": ["*"]}]});
        assert!(judge(&[&any], all), "{all}");
    }
}

#[test]
fn audit_changes_nothing_and_says_what_would_be_denied() {
    let audit = |rules: Value| json!({"mode": "Audit", "rules": rules});
    let judge_path = |policies: &[Value], path: &str| {
        let policies: Vec<_> = policies.iter().cloned().map(policy).collect();
        judged(&policies, Some("web"), &request(&format!("path: {path}"))).map(|allowance| allowance.audited)
    };
    let judge = |policies: &[Value]| judge_path(policies, "team/db");
    assert_eq!(judge(&[audit(json!([{"paths": ["team/*"]}]))]), Ok(false));
    assert_eq!(judge(&[audit(json!([{"paths": ["other/*"]}]))]), Ok(true));
    // The built-in rule stays in force: what it denied is still denied.
    assert_eq!(
        judge_path(&[audit(json!([{"paths": ["**"]}]))], "other/db"),
        Err(denied())
    );
    assert_eq!(
        judge_path(&[audit(json!([{"paths": ["none"]}]))], "other/db"),
        Err(denied())
    );
    // Where a policy is in force, those in mode Audit neither allow nor deny; they are told.
    let open = json!({"rules": [{"paths": ["**"]}]});
    let closed = json!({"rules": [{"paths": ["other/*"]}]});
    let no = audit(json!([{"effect": "Deny", "paths": ["**"]}]));
    assert_eq!(judge(&[open.clone(), no]), Ok(true));
    assert_eq!(judge(&[closed, audit(json!([{"paths": ["**"]}]))]), Err(denied()));
    assert_eq!(judge(&[open]), Ok(false));
}

#[test]
fn a_tried_policy_denies_nothing_and_says_what_would_be() {
    let requester = Requester {
        namespace: "team",
        service_account: None,
    };
    let judge = |policies: &[Arc<Policy>], path: &str| {
        let request = request(&format!("path: {path}"));
        let judged = Rules::tried(policies, "team", None).judge(requester, &request, None);
        judged.map(|allowance| allowance.audited)
    };
    for (path, audited) in [("team/db", false), ("other/db", true), ("../etc", true)] {
        assert_eq!(judge(&[], path), Ok(audited), "{path}");
    }
    let other = policy(json!({"rules": [{"paths": ["other/*"]}]}));
    assert_eq!(judge(std::slice::from_ref(&other), "team/db"), Ok(true));
    assert_eq!(judge(&[other], "other/db"), Ok(false));
}

fn store(provider: &'static str, account: Option<&str>) -> StoreView {
    StoreView {
        provider,
        revision: "1".into(),
        home: Home {
            region: Some("r".into()),
            account: account.map(Into::into),
        },
    }
}

#[test]
fn denying_a_provider_denies_its_stores() {
    let open = policy(json!({"rules": [{"paths": ["**"]}]}));
    let no_vault = policy(json!({"rules": [{"effect": "Deny", "providers": ["vault"], "paths": ["**"]}]}));
    let judge = |text: &str, store: Option<&StoreView>| {
        let policies = [open.clone(), no_vault.clone()];
        judged_at(&policies, Some("web"), &request(text), store).is_ok()
    };
    assert!(!judge("provider: vault", None));
    assert!(judge("provider: aws", None));
    assert!(!judge("store: prod", Some(&store("vault", None))));
    assert!(judge("store: prod", Some(&store("aws", None))));
    assert!(!judge("store: prod", None), "nobody knows what it is");
    // What allows a provider allows no store of it.
    let vault = [policy(
        json!({"rules": [{"providers": ["vault"], "paths": ["**"]}]}),
    )];
    let of_store = judged_at(&vault, None, &request("store: prod"), Some(&store("vault", None)));
    assert_eq!(of_store, Err(denied()));
}

#[test]
fn an_arn_and_its_name_are_denied_together() {
    let arn = "arn:aws:secretsmanager:r:1:secret:team/db-AbCdEf";
    let judge = |allowed: &str, no: Option<&str>, path: &str, store: Option<&StoreView>| {
        let mut rules = vec![json!({"paths": [allowed]})];
        rules.extend(no.map(|no| json!({"effect": "Deny", "paths": [no]})));
        let source = match store {
            Some(_) => "store: prod".to_owned(),
            None => format!("provider: {ARN_PROVIDER}"),
        };
        let request = request(&format!("{source}, path: '{path}'"));
        judged_at(&[policy(json!({"rules": rules}))], Some("web"), &request, store).is_ok()
    };
    let any_arn = "arn:*:*:*:*:secret:**";
    assert!(judge(any_arn, None, arn, None));
    assert!(!judge(any_arn, Some("team/db"), arn, None));
    assert!(!judge("**", Some(arn), "team/db", None));
    assert!(judge("**", Some(arn), "team/other", None));
    // Where it is known whose account it is, another one's ARN is no name, and the own one is.
    let (own, other) = (store(ARN_PROVIDER, Some("1")), store(ARN_PROVIDER, Some("2")));
    assert!(judge(any_arn, Some("team/db"), arn, Some(&other)));
    assert!(judge("**", Some(arn), "team/db", Some(&other)));
    assert!(judge("team/*", None, arn, Some(&own)));
    assert!(
        !judge("team/db", None, arn, Some(&own)),
        "the suffix may be part of another name"
    );
    assert!(!judge("team/*", None, arn, Some(&other)));
    assert!(
        !judge("team/*", None, arn, None),
        "what is not known allows nothing"
    );
    // Where there are no ARNs, a rule about them says nothing.
    let file = store("file", None);
    assert!(judge("**", Some(any_arn), "team/db", Some(&file)));
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
        let judge =
            |policies: &[Arc<Policy>]| Rules::of(policies, "team", None).judge(nobody, &request(""), None);
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
            .judge(nobody, &request(""), None)
            .is_ok()
    );
    assert!(
        Rules::of(&[named], "other", None)
            .judge(nobody, &request(""), None)
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
    assert!(!Rules::of(&[], "team", None).name_accounts());
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

fn any_account() -> impl Strategy<Value = Option<&'static str>> {
    prop::sample::select(vec![None, Some("web"), Some("api")])
}

fn any_request() -> impl Strategy<Value = Arc<Request>> {
    let path = prop::sample::select(vec!["team/db", "web/db", "x/y", "flat"]);
    let keys = prop::sample::select(vec![
        "",
        "keys: [a1]",
        "keys: [a1, b]",
        "keys: {c: b}",
        "format: raw",
    ]);
    (path, keys).prop_map(|(path, keys)| request(&format!("path: {path}, {keys}")))
}

proptest! {
    #[test]
    fn audit_never_changes_a_verdict(
        enforced in prop::collection::vec(any_spec(), 0..3), audited in prop::collection::vec(any_spec(), 1..3),
        request in any_request(), keys in prop::sample::select(vec!["a1", "b", "c"]), account in any_account(),
    ) {
        let without: Vec<_> = enforced.into_iter().map(policy).collect();
        let mut with = without.clone();
        for mut spec in audited {
            spec["mode"] = "Audit".into();
            spec["refreshFloor"] = "1h".into();
            spec["adoptSecrets"] = json!(["*"]);
            spec["quota"] = json!({"perMinute": 1, "burst": 60000});
            with.insert(0, policy(spec));
        }
        let judge = |policies: &[Arc<Policy>]| {
            let judged = judged(policies, account, &request);
            judged.map(|allowance| Allowance { audited: false, ..allowance })
        };
        prop_assert_eq!(judge(&with), judge(&without));
        let permit = |policies| judge(policies).and_then(|one| one.permit(&SourceKeys::These(vec![keys])));
        prop_assert_eq!(permit(&with), permit(&without));
        let quota = |policies: &[Arc<Policy>]| Rules::of(policies, "team", None).quota();
        prop_assert_eq!(quota(&with), quota(&without));
    }

    #[test]
    fn to_know_less_never_allows_more(
        specs in prop::collection::vec(any_spec(), 1..4), request in any_request(),
    ) {
        let policies: Vec<_> = specs.into_iter().map(policy).collect();
        let known = labels(&[("tier", "prod")]);
        let judge = |labels: Option<&Labels>, service_account| {
            let requester = Requester { namespace: "team", service_account };
            Rules::of(&policies, "team", labels).judge(requester, &request, None).is_ok()
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
