use proptest::prelude::*;

use super::*;

const LIMITS: Limits = Limits {
    bytes: 1024 * 1024,
    depth: 32,
    nodes: 64 * 1024,
    scalar: 1024 * 1024,
    key: 512,
    anchors: 256,
};

/// A document as it was understood: scalars with quotes in quotes.
fn shown(node: Node<'_>) -> String {
    match node.content() {
        Content::Null => "~".to_owned(),
        Content::Scalar { text, plain: true } => text.to_owned(),
        Content::Scalar { text, plain: false } => format!("{text:?}"),
        Content::List(items) => format!("[{}]", items.map(shown).collect::<Vec<_>>().join(",")),
        Content::Map(fields) => {
            let fields = fields.map(|(key, node)| format!("{key}={}", shown(node)));
            format!("{{{}}}", fields.collect::<Vec<_>>().join(","))
        }
    }
}

fn of(text: &str) -> String {
    read(text, &LIMITS).map_or_else(|error| error.to_string(), |document| shown(document.root()))
}

#[test]
fn documents_are_read_in_their_order() {
    assert_eq!(of(""), "~");
    assert_eq!(of("- a\n-\n- 'b c'\n- [1, {x: ~}]"), "[a,~,\"b c\",[1,{x=~}]]");
    assert_eq!(of("b: {c: [], d: {}}\na: x\n"), "{b={c=[],d={}},a=x}");
    assert_eq!(
        of("{\"a\":\"\\u00e9\\n\",\"b\":[true,1.50,\"\"]}"),
        "{a=\"é\\n\",b=[true,1.50,\"\"]}"
    );
    assert_eq!(of("a: |\n  x\n  y\nb: x\n  y\n"), "{a=\"x\\ny\\n\",b=x y}");
    // Far more than one block of the tree.
    let many = format!("[{}]", vec!["[v]"; 2000].join(","));
    assert_eq!(of(&many), many);
}

#[test]
fn aliases_stand_for_what_they_refer_to() {
    assert_eq!(
        of("a: &x {b: &y c}\nd: [*x, *y]\n*y : *x"),
        "{a={b=c},d=[{b=c},c],c={b=c}}"
    );
    assert_eq!(of("a: &x 1\nb: &x 2\nc: *x"), "{a=1,b=2,c=2}");
    assert_eq!(
        of("a: &a [*a]"),
        "must not refer to what it is a part of (line 1, column 8)"
    );
    assert_eq!(
        of("a: *b"),
        "must not refer to an anchor that is not there (line 1, column 4)"
    );
    assert_eq!(
        of("&a [x]: y"),
        "must not use a collection as a key (line 1, column 4)"
    );
    assert_eq!(
        of("a: &a [x]\n*a : y"),
        "must not use a collection or nothing as a key (line 2, column 1)"
    );
}

#[test]
fn same_key_twice_is_told_with_its_place() {
    let twice = |line: usize, column: usize| {
        format!("must not have the same key twice (line {line}, column {column})")
    };
    assert_eq!(of("a: 1\nb: {x: 1}\na: 2"), twice(3, 1));
    assert_eq!(of("é: {x: 1, \"x\": 2}"), twice(1, 12));
    assert_eq!(of("a: {\"\\x41\": 1, A: 2}"), twice(1, 16));
    assert_eq!(of("a: &a b\nb: {*a : 1, b: 2}"), twice(2, 13));
}

#[test]
fn limits_are_told_with_their_rule() {
    let most = Limits {
        nodes: 4,
        scalar: 5,
        key: 3,
        depth: 2,
        ..LIMITS
    };
    let of = |text: &str| {
        read(text, &most).map_or_else(|error| error.to_string(), |document| shown(document.root()))
    };
    assert_eq!(of("[a, b, c]"), "[a,b,c]");
    assert_eq!(
        of("[a, b, c, d]"),
        "must not hold more than 4 values (line 1, column 11)"
    );
    assert_eq!(of("abcde"), "abcde");
    assert_eq!(
        of("abcdef"),
        "must not have texts longer than 5 bytes (line 1, column 1)"
    );
    assert_eq!(
        of("? abcd\n: x"),
        "must not have keys longer than 3 characters (line 1, column 3)"
    );
    assert_eq!(of("[[a]]"), "[[a]]");
    assert_eq!(of("[[[]]]"), "must not nest deeper than 2 (line 1, column 3)");
    assert_eq!(
        of("[&a [], [*a]]"),
        "must not nest deeper than 2 (line 1, column 10)"
    );
    let anchors: String = (0..257).map(|index| format!("- &a{index} x\n")).collect();
    assert_eq!(
        super::tests::of(&anchors),
        "must not have more than 256 anchors (line 257, column 9)"
    );
}

#[test]
fn long_runs_of_blanks_are_refused_before_they_are_parsed() {
    let text = |blanks: usize| format!("a: b\nc: x{}y", " ".repeat(blanks));
    assert!(of(&text(MOST_BLANKS)).starts_with("{a=b,c=x "));
    let told = "must not have more than 16384 blanks in a row";
    assert_eq!(of(&text(MOST_BLANKS + 1)), format!("{told} (line 2, column 5)"));
    assert_eq!(
        of(&format!("a: x{}  y", "\n \t".repeat(6000))),
        format!("{told} (line 1, column 5)")
    );
}

#[test]
fn bomb_of_aliases_is_refused_before_it_grows() {
    let flat = format!("x: [&a \"{}\"{}]", "v".repeat(53_000), ",*a".repeat(4000));
    let told = of(&flat);
    assert!(
        told.starts_with("must not need more than four times its size in memory"),
        "{told}"
    );
    let mut nested = String::from("a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n");
    for level in 1..20 {
        let before = format!("*a{}", level - 1);
        nested += &format!("a{level}: &a{level} [{}]\n", vec![before; 10].join(","));
    }
    let told = of(&nested);
    assert!(
        told.starts_with("must not need more than four times its size in memory"),
        "{told}"
    );
    // A chain needs no memory, but a reader that follows it needs stack.
    let chain: String = (1..200)
        .map(|level| format!("- &a{level} [*a{}]\n", level - 1))
        .collect();
    assert!(of(&format!("- &a0 []\n{chain}")).starts_with("must not nest deeper than 32"));
}

/// The tree of the small values fits the bound, and the buffer for unescaped text does not fit beside it.
#[test]
fn escape_beside_many_small_values_is_refused() {
    let small = "[a: b],".repeat(6_500);
    let plain = format!("[{small}x]");
    assert!(read(&plain, &LIMITS).is_ok());
    let told = of(&format!("[{small}\"\\n\"]"));
    assert!(
        told.starts_with("must not need more than four times its size in memory"),
        "{told}"
    );
}

/// Texts that cost as much as their writer can make them.
fn hostile() -> impl Strategy<Value = String> {
    let many = 1_usize..60_000;
    let unit = prop::sample::select(vec![
        "1,",
        "a,",
        "[],",
        "{},",
        "~,",
        ",",
        "\"\",",
        "\"\\n\",",
        "'',",
        "[a: b],",
        "a: ,",
        "*a,",
        "&b c,",
        "[[[x]]],",
        "\"\\x41\",",
    ]);
    let repeated = (unit, many.clone()).prop_map(|(unit, count)| format!("[&a x,{}x]", unit.repeat(count)));
    let lines = prop::sample::select(vec![
        "-\n",
        "- x\n",
        "- - x\n",
        "- |\n  x\n",
        "- \"\\n\"\n",
        "- &a\n",
        "# c\n",
    ]);
    let lines = (lines, many.clone()).prop_map(|(line, count)| line.repeat(count));
    let keys = (
        prop::sample::select(vec!["#,", "#: 1,", "\"#\":1,", "\"#\\n\":\"\","]),
        many.clone(),
    )
        .prop_map(|(unit, count)| {
            let fields: String = (0..count)
                .map(|index| unit.replace('#', &format!("{index:x}")))
                .collect();
            format!("{{{fields}}}")
        });
    let block = (1_usize..20_000).prop_map(|count| (0..count).map(|index| format!("{index}: x\n")).collect());
    let bomb = (1_usize..60_000, 1_usize..5_000)
        .prop_map(|(size, count)| format!("x: [&a \"{}\"{}]", "v".repeat(size), ",*a".repeat(count)));
    let nested = (2_usize..30, 1_usize..30).prop_map(|(width, levels)| {
        let mut text = String::from("- &a0 x\n");
        for level in 1..levels {
            let before = format!("*a{}", level - 1);
            text += &format!("- &a{level} [{}]\n", vec![before; width].join(","));
        }
        text
    });
    let deep = (
        prop::sample::select(vec!["[", "{a: ", "- ", "? "]),
        1_usize..5_000,
    )
        .prop_map(|(open, count)| open.repeat(count));
    let escaped = many.prop_map(|count| format!("[\"{}\"]", "\\t".repeat(count)));
    prop_oneof![
        repeated,
        lines,
        keys,
        block,
        bomb,
        nested,
        deep,
        escaped,
        any::<String>()
    ]
}

proptest! {
    // Each case is large.
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn document_needs_at_most_four_times_its_text(text in hostile()) {
        if let Ok(document) = read(&text, &LIMITS) {
            prop_assert!(document.memory() <= most_memory(text.len()), "{} for {}", document.memory(), text.len());
        }
    }

    #[test]
    fn errors_of_documents_tell_no_text(text in hostile()) {
        if let Err(error) = read(&format!("CANARY: &CANARY !CANARY '{text}' {text} *CANARY"), &LIMITS) {
            prop_assert!(!error.to_string().contains("CANARY"));
        }
    }
}
