use super::*;

fn wanted(replace: bool) -> Wanted {
    Wanted {
        namespace: "tp".into(),
        cluster: "prod".into(),
        secret: "obsyk-credentials".into(),
        agent: "inventory".into(),
        replace,
    }
}

fn hub(urls: &[&str]) -> Hub {
    let mut hub = Hub::default();
    hub.urls = urls.iter().map(ToString::to_string).collect();
    hub
}

fn live_secret(keys: &[&str]) -> Option<LiveSecret> {
    let data: BTreeMap<&str, String> = keys.iter().map(|key| (*key, encode("old"))).collect();
    let live = json!({"metadata": {"uid": "u", "resourceVersion": "7"}, "data": data});
    Some(serde_json::from_value(live).unwrap())
}

fn live_agent(url: &str, ca_bundle: Option<&str>) -> Option<LiveAgent> {
    let spec = json!({
        "platformURL": url, "clusterName": "prod", "caBundle": ca_bundle,
        "credentialsSecretRef": {"name": "obsyk-credentials"}, "rateLimit": {"burstSize": 5},
    });
    let live = json!({"metadata": {"uid": "u", "resourceVersion": "8"}, "spec": spec});
    Some(serde_json::from_value(live).unwrap())
}

const URL: &str = "https://tp-hub.tp.svc:8443";

#[test]
fn platform_is_the_hub_unless_another_url_is_named() {
    let choose = |named, urls: Option<&[&str]>| Platform::choose(named, urls.map(hub), "tp");
    let both: &[&str] = &[URL, "https://hub.example.com"];
    assert_eq!(
        choose(None, Some(both)).unwrap(),
        Platform::Hub(hub(both), URL.to_owned())
    );
    let named = choose(Some("https://hub.example.com/"), Some(both)).unwrap();
    assert_eq!(
        named,
        Platform::Hub(hub(both), "https://hub.example.com/".to_owned())
    );
    let other = choose(Some("https://api.example.com"), Some(both)).unwrap();
    assert_eq!(other, Platform::Outside("https://api.example.com".to_owned()));
    let told = choose(None, None).unwrap_err().to_string();
    assert!(
        told.contains("--platform-url") && told.contains("hub.enabled=true"),
        "{told}"
    );
    let told = choose(None, Some(&[])).unwrap_err().to_string();
    assert!(told.contains("--platform-url"), "{told}");
}

#[test]
fn permit_refuses_to_overwrite_unless_it_is_told_to() {
    let existing = |secret, agent| Existing { secret, agent };
    let told = |replace: bool, existing: &Existing| {
        let permitted = wanted(replace).permit(existing, URL);
        permitted.err().map(|error| error.to_string()).unwrap_or_default()
    };
    assert_eq!(told(false, &Existing::default()), "");
    let secret = existing(live_secret(&["client_id", "private_key"]), None);
    assert!(told(false, &secret).starts_with("Secret tp/obsyk-credentials exists already"));
    assert_eq!(told(true, &secret), "");
    // A foreign Secret is not replaced, not even with --replace.
    let foreign = existing(live_secret(&["client_id", "password"]), None);
    assert!(told(true, &foreign).contains("other keys than those of an agent: password"));
    let agent = existing(None, live_agent("https://elsewhere", None));
    assert!(told(false, &agent).contains("exists already with another platformURL."));
    assert_eq!(told(true, &agent), "");
    let same = existing(None, live_agent("https://tp-hub.tp.svc:8443/", None));
    assert_eq!(told(false, &same), "");
}

#[test]
fn new_objects_are_created_and_old_ones_changed_in_the_version_that_was_seen() {
    let credentials = Credentials::generate(None).unwrap();
    let none = Existing::default();
    let secret = wanted(false).secret(&credentials, &none);
    assert_eq!(secret.expect, Expect::Absent);
    let body = secret.manifest.body();
    assert_eq!(body["data"]["client_id"], encode(&credentials.client_id));
    assert_eq!(
        body["data"]["private_key"],
        encode(credentials.private_key.expose())
    );
    assert!(!format!("{secret:?}").contains(&encode(credentials.private_key.expose())));

    let agent = wanted(false).agent(URL, Some("PEM"), &none).unwrap();
    let expected = json!({
        "platformURL": URL, "clusterName": "prod", "caBundle": "PEM",
        "credentialsSecretRef": {"name": "obsyk-credentials"},
    });
    assert_eq!(agent.manifest.body()["spec"], expected);
    let existing = Existing {
        secret: live_secret(&["client_id", "private_key"]),
        agent: live_agent(URL, None),
    };
    let secret = wanted(true).secret(&credentials, &existing);
    let seen = Expect::Seen {
        uid: "u".into(),
        resource_version: "7".into(),
    };
    assert_eq!((secret.expect, secret.conflicts), (seen, Conflicts::Force));
    let agent = wanted(false).agent(URL, Some("PEM"), &existing).unwrap();
    assert_eq!(agent.conflicts, Conflicts::Report);
    assert!(matches!(agent.expect, Expect::Seen { .. }));
}

#[test]
fn agent_that_is_as_wanted_is_left_alone() {
    let existing = Existing {
        secret: None,
        agent: live_agent(URL, Some("PEM")),
    };
    assert_eq!(wanted(false).agent(URL, Some("PEM"), &existing), None);
    assert_eq!(wanted(true).agent(URL, Some("PEM"), &existing), None);
    assert!(wanted(false).agent(URL, None, &existing).is_some());
}

#[test]
fn client_id_of_before_is_kept() {
    let mut existing = Existing::default();
    assert_eq!(existing.client_id(), None);
    existing.secret = live_secret(&["client_id", "private_key"]);
    assert_eq!(existing.client_id().as_deref(), Some("old"));
    existing.secret = live_secret(&["private_key"]);
    assert_eq!(existing.client_id(), None);
}

#[test]
fn command_for_another_hub_can_be_pasted_into_a_shell() {
    let credentials = Credentials::generate(Some("7".into())).unwrap();
    let mut wanted = wanted(false);
    wanted.cluster = "it's prod".into();
    let command = wanted.registration(&credentials);
    assert!(
        command.starts_with(
            "trustplane-hub client add --name 'it'\\''s prod' --id 7 <<'EOF'\n-----BEGIN PUBLIC KEY-----\n"
        ),
        "{command}"
    );
    assert!(command.ends_with("-----END PUBLIC KEY-----\nEOF"), "{command}");
    assert!(!command.contains("PRIVATE"));
}
