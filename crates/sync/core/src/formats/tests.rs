use proptest::prelude::*;

use super::*;
use crate::document::most_memory;

/// What the names and values of fields need.
fn needs(fields: &Fields) -> usize {
    let field = |(key, field): (&String, &Field)| key.capacity() + field.value.as_ref().map_or(0, Value::len);
    fields.iter().map(field).sum()
}

fn value(fields: &Fields, key: &str) -> String {
    let value = fields[key].value.as_ref().unwrap();
    String::from_utf8(value.expose().to_vec()).unwrap()
}

#[test]
fn yaml_writes_aliases_out_where_they_are_small() {
    let fields = yaml(b"base: &b {user: u, pass: \"a\\tb\"}\nall: [*b, *b, '\"\\']", &[]).unwrap();
    assert_eq!(value(&fields, "base"), r#"{"user":"u","pass":"a\tb"}"#);
    assert_eq!(
        value(&fields, "all"),
        r#"[{"user":"u","pass":"a\tb"},{"user":"u","pass":"a\tb"},"\"\\"]"#
    );
}

#[test]
fn yaml_that_would_grow_too_large_is_refused() {
    let bomb = format!("x: [&a \"{}\"{}]", "v".repeat(53_000), ",*a".repeat(4000));
    let told = yaml(bomb.as_bytes(), &[]).err().unwrap();
    assert!(
        told.starts_with("must not need more than four times its size in memory"),
        "{told}"
    );
    // Its aliases are just within their bound, and each quote takes two bytes as JSON: the fields are what is too large.
    let quotes = format!("a: &a '{}'\nb: [*a]\nc: [*a]", "\"".repeat(100_000));
    let told = yaml(quotes.as_bytes(), &[]).err().unwrap();
    assert!(told.ends_with("field 3 is too large"), "{told}");
}

#[test]
fn json_of_a_deep_way_is_found_without_a_copy_of_the_rest() {
    let select = |way: &[&str]| way.iter().map(ToString::to_string).collect::<Vec<_>>();
    let source = br#"{"a\u0062":[0,{"x":{"y":"1"}}],"ab":[0,{"x":{"y":"2","z":null}}]}"#;
    let fields = json(source, &select(&["ab", "1", "x"])).unwrap();
    assert_eq!(
        (value(&fields, "y").as_str(), fields["z"].place),
        ("2", Place::Field(2))
    );
    for nowhere in [
        &["b"][..],
        &["ab", "2"],
        &["ab", "x"],
        &["ab", "1", "x", "y", "q"],
    ] {
        assert_eq!(json(source, &select(nowhere)).err().unwrap(), NOTHING_THERE);
    }
}

/// Contents that cost as much as their writer can make them.
fn hostile() -> impl Strategy<Value = String> {
    let count = 1_usize..20_000;
    let unit = prop::sample::select(vec![
        "1,",
        "[],",
        "\"\",",
        "\"\\\"\",",
        "{\"a\":1},",
        "a: b,",
        "*a,",
        "~,",
        "'\"\"\"',",
    ]);
    let list =
        (unit, count.clone()).prop_map(|(unit, count)| format!("{{a: &a x, b: [{}1]}}", unit.repeat(count)));
    let set = (
        prop::sample::select(vec!["#,", "\"#\":1,", "\"#\":\"\\n\",", "'#': *a,"]),
        1_usize..6_000,
    )
        .prop_map(|(unit, count)| {
            let fields: String = (0..count)
                .map(|index| unit.replace('#', &format!("{index:x}")))
                .collect();
            format!("{{\"z\": {{{fields}\"y\":1}}, {fields}\"y\":1}}")
        });
    let bomb = (1_usize..60_000, 1_usize..50).prop_map(|(size, count)| {
        format!(
            "x: &a \"{}\"\ny: [{}1]\nz: *a",
            "v".repeat(size),
            "*a,".repeat(count)
        )
    });
    let lines = (
        prop::sample::select(vec!["A=1\n", "=\n", "A='x\n'\n", "A=\"\\n\"\n", "# x\n"]),
        count,
    )
        .prop_map(|(line, count)| line.repeat(count));
    let text = (1_usize..100_000).prop_map(|count| format!("{{\"a\": \"{}\"}}", "\\n".repeat(count)));
    prop_oneof![list, set, bomb, lines, text, any::<String>()]
}

proptest! {
    // Each case is large.
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn fields_need_at_most_four_times_their_source(text in hostile(), select in prop::option::of("[abxyz]")) {
        let select: Vec<String> = select.into_iter().collect();
        let all = [json(text.as_bytes(), &select), yaml(text.as_bytes(), &select), dotenv(text.as_bytes())];
        for fields in all.iter().flatten() {
            prop_assert!(fields.len() <= MOST_FIELDS);
            prop_assert!(needs(fields) <= most_memory(text.len()), "{} for {}", needs(fields), text.len());
        }
    }
}
