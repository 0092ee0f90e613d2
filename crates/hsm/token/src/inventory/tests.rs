use super::*;

fn token(slot: u64, label: &str, serial: &str, reader: &str) -> TokenInfo {
    TokenInfo {
        slot,
        reader: reader.to_owned(),
        label: label.to_owned(),
        serial: serial.to_owned(),
        manufacturer: "maker".to_owned(),
        model: "model".to_owned(),
        firmware: "1.0".to_owned(),
        pin_tries: PinTries::Unknown,
        initialised: !serial.is_empty(),
        has_user_pin: !serial.is_empty(),
        write_protected: false,
        memory: Memory::default(),
    }
}

fn inventory() -> Inventory {
    Inventory {
        tokens: vec![
            token(0, "a", "S1", "Pico HSM [CCID] (DE123) 00 00"),
            token(1, "b", "S2", "Pico HSM [CCID] (DE1234) 01 00"),
            token(2, "b", "S3", "Nitrokey (DE5) 02 00"),
            token(3, "", "", "Nitrokey (DE6) 03 00"),
        ],
        bad: Vec::new(),
    }
}

fn serial(selector: Option<Selector>) -> Result<String, ChoiceError> {
    inventory()
        .choose(&selector.unwrap())
        .map(|token| token.serial.clone())
}

#[test]
fn a_token_is_chosen_by_serial_label_or_the_serial_in_its_readers_name() {
    assert_eq!(serial(Selector::serial("S2")).unwrap(), "S2");
    assert_eq!(serial(Selector::label("a")).unwrap(), "S1");
    assert_eq!(serial(Selector::reader_serial("DE123")).unwrap(), "S1");
    assert_eq!(serial(Selector::reader_serial("DE1234")).unwrap(), "S2");
    assert_eq!(serial(Selector::of(None, Some("b"), Some("DE5"))).unwrap(), "S3");
}

#[test]
fn nothing_is_chosen_for_want_of_a_wish() {
    assert_eq!(Selector::of(None, Some(""), None), None);
    assert_eq!(Selector::serial(""), None);
}

#[test]
fn none_and_several_are_errors_that_list_what_is_there() {
    let none = serial(Selector::serial("DE123")).unwrap_err();
    assert!(matches!(&none, ChoiceError::None { seen, .. } if seen.tokens.len() == 4));
    let text = none.to_string();
    assert!(
        text.starts_with("no token with serial \"DE123\"; there is ["),
        "{text}"
    );
    assert!(
        text.contains("label \"a\", serial \"S1\", reader \"Pico HSM [CCID] (DE123) 00 00\""),
        "{text}"
    );

    let several = serial(Selector::label("b")).unwrap_err();
    assert!(matches!(&several, ChoiceError::Several { seen, .. } if seen.tokens.len() == 2));
    assert!(matches!(
        serial(Selector::of(Some("S1"), Some("b"), None)).unwrap_err(),
        ChoiceError::None { .. }
    ));
    let empty = Inventory::default();
    let text = empty
        .choose(&Selector::label("a").unwrap())
        .unwrap_err()
        .to_string();
    assert_eq!(text, "no token with label \"a\"; there is none");
}

#[test]
fn a_blank_token_is_taken_only_if_it_is_the_only_one() {
    let mut inventory = inventory();
    assert_eq!(inventory.blank().unwrap().reader, "Nitrokey (DE6) 03 00");
    inventory.tokens[0].has_user_pin = false;
    assert!(matches!(inventory.blank(), Err(ChoiceError::Several { .. })));
}
