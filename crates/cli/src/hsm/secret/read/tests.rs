use trustplane_hsm_core::secret::Value;

use super::super::plan::tests::copy;
use super::super::tokens::tests::token;
use super::*;

fn view(name: &str, state: CopyState) -> TokenView {
    TokenView {
        token: token(name),
        state,
    }
}

/// A token whose secret has a value of text and a value of other bytes.
fn holder(name: &str, version: u64) -> TokenView {
    let mut secret = copy(version, "password", "hunter2");
    secret.sizes.insert("seed".to_owned(), 3);
    secret.description = "of the shop".to_owned();
    let pairs = [
        ("password", Value::new("hunter2")),
        ("seed", Value::new([0, 255, b'\n'])),
    ];
    let pairs = pairs.map(|(key, value)| (key.to_owned(), Encoded(value)));
    secret.data = Some(pairs.into());
    view(name, CopyState::Live(Box::new(secret)))
}

fn shown(views: &[TokenView], key: Option<&str>, format: SecretFormat) -> Result<Vec<u8>, String> {
    let path = SecretPath::parse("shop/db").unwrap();
    let key = key.map(|key| KeyName::parse(key).unwrap());
    let mut out = Vec::new();
    let done = show(&path, key.as_ref(), views, format, &mut out);
    done.map(|()| out).map_err(|error| error.to_string())
}

fn text(views: &[TokenView], key: Option<&str>, format: SecretFormat) -> String {
    String::from_utf8(shown(views, key, format).unwrap()).unwrap()
}

#[test]
fn table_shows_sizes_and_no_value() {
    let views = [holder("a", 1), holder("b", 4)];
    assert_eq!(
        text(&views, None, SecretFormat::Table),
        "Path:        shop/db\n\
         Description: of the shop\n\
         Checksum:    sha256:hunter2\n\
         Tokens:      a of pico (version 1), b of pico (version 4)\n\
         \n\
         KEY        BYTES\n\
         password   7\n\
         seed       3\n"
    );
}

#[test]
fn documents_have_values_in_base64_and_raw_has_the_bytes() {
    let views = [holder("a", 1)];
    let json: serde_json::Value = serde_json::from_str(&text(&views, None, SecretFormat::Json)).unwrap();
    assert_eq!(json["data"]["password"], "aHVudGVyMg==");
    assert_eq!(json["tokens"][0]["version"], 1);
    let yaml = text(&views, Some("seed"), SecretFormat::Yaml);
    assert!(yaml.contains("AP8K") && !yaml.contains("password"), "{yaml}");
    let raw = shown(&views, Some("seed"), SecretFormat::Raw).unwrap();
    assert_eq!(raw, [0, 255, b'\n']);
}

#[test]
fn a_key_that_is_not_there_is_an_error_that_names_the_others() {
    let refused = shown(&[holder("a", 1)], Some("user"), SecretFormat::Table).unwrap_err();
    assert_eq!(refused, "shop/db has no key user; it has password, seed");
}

#[test]
fn tokens_that_show_nothing_are_told() {
    let views = [
        holder("a", 1),
        view("b", CopyState::Absent),
        view("c", CopyState::Unreadable("a part is missing".to_owned())),
        view("d", CopyState::NotReached("it is unplugged".to_owned())),
    ];
    assert_eq!(
        doubts(&views),
        [
            "token b of pico does not have it",
            "token c of pico cannot read it: a part is missing",
            "token d of pico is not reached: it is unplugged",
        ]
    );
}
