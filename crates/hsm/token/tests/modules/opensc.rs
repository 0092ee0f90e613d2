//! OpenSC's module with cards that come and go: pcscd, readers and cards are there for one test each.

use trustplane_hsm_core::code::Code;
use trustplane_hsm_core::generation::Generation;
use trustplane_hsm_core::layout::Usage;
use trustplane_hsm_core::limits::Profile;
use trustplane_hsm_core::version::Expected;
use trustplane_hsm_token::{Attempt, Module, Pin, PinTries, Selector, Store, StoreError, TokenError};

use crate::card::Card;
use crate::raw::{Object, Raw};
use crate::reader::{Readers, wait_for_tokens, wait_until_gone};
use crate::secrets::{path, secret, stamp};
use crate::stage::{Stage, find, log_in, pin};
use crate::tool::{file, pkcs11_tool};

suite! {
    on cards:
        without_a_daemon_a_reader_or_a_card_there_is_no_token_and_the_error_says_so,
        a_card_that_is_no_token_is_passed_over_and_the_one_beside_it_is_found,
        a_card_that_comes_is_served_and_one_that_is_pulled_is_missed_at_no_cost_of_tries,
        secrets_live_on_a_card_as_on_any_token,
        as_many_objects_as_the_profile_allows_are_there_when_the_card_comes_back,
        what_opensc_cuts_or_refuses_leaves_the_old_secret,
        an_empty_value_is_refused_before_the_card_is_asked,
        a_full_card_keeps_the_old_secret,
        the_flags_of_a_card_keep_a_wrong_pin_from_being_tried_again,
        a_pin_that_opensc_takes_for_none_costs_no_try,
        what_another_process_writes_is_seen_once_the_module_is_initialised_again;
}

/// OpenSC names a token by its card and its PIN.
const LABEL: &str = "SmartCard-HSM (UserPIN)";
const SERIAL: &str = "UTTP00001";

fn serial() -> Selector {
    Selector::serial(SERIAL).unwrap()
}

fn store<'module>(module: &'module Module) -> Store<'module> {
    Store::open(log_in(module, LABEL), Profile::Opensc.limits()).unwrap()
}

fn without_a_daemon_a_reader_or_a_card_there_is_no_token_and_the_error_says_so(stage: &Stage) {
    let mut module = stage.module();
    let nothing = |module: &Module| {
        let inventory = module.inventory().unwrap();
        let error = inventory.choose(&serial()).unwrap_err();
        assert_eq!(
            error.to_string(),
            format!("no token with serial {SERIAL:?}; there is none")
        );
    };
    nothing(&module);
    let readers = Readers::start();
    module.initialise_again().unwrap();
    nothing(&module);
    // The daemon may go as well.
    let inserted = readers.insert(&Card::new(SERIAL));
    wait_for_tokens(&mut module, 1);
    drop((readers, inserted));
    module.initialise_again().unwrap();
    nothing(&module);
}

fn a_card_that_is_no_token_is_passed_over_and_the_one_beside_it_is_found(stage: &Stage) {
    let mut module = stage.module();
    let readers = Readers::start();
    let _strange = readers.insert(&Card::strange());
    let _card = readers.insert_beside(&Card::new(SERIAL));
    wait_for_tokens(&mut module, 1);
    let inventory = module.inventory().unwrap();
    let token = inventory.choose(&serial()).unwrap();
    assert_eq!(
        (token.manufacturer.as_str(), token.model.as_str()),
        stage.bench.make()
    );
    assert_eq!(
        (token.label.as_str(), token.reader.as_str()),
        (LABEL, "Virtual 00 01")
    );
    assert!(token.initialised && token.has_user_pin && !token.write_protected);
}

fn a_card_that_comes_is_served_and_one_that_is_pulled_is_missed_at_no_cost_of_tries(stage: &Stage) {
    let mut module = stage.module();
    let readers = Readers::start();
    let card = Card::new(SERIAL);
    let kept = secret(1, &[("k", b"v")]);
    for turn in 0..2 {
        let inserted = readers.insert(&card);
        wait_for_tokens(&mut module, 1);
        let mut store = store(&module);
        if turn == 0 {
            store.write(&path("a"), &kept, Expected::Absent).unwrap();
        }
        assert_eq!(store.read(&path("a")).unwrap(), kept);
        drop(inserted);
        let error = wait_until_gone(|| store.read(&path("a")).map(drop));
        assert!(
            matches!(error, StoreError::Token(TokenError::Removed(_))),
            "{error}"
        );
        assert!(error.needs_initialisation());
        for error in [
            store.list().err().unwrap(),
            store.delete(&path("a"), stamp(2), Expected::Any).err().unwrap(),
        ] {
            assert!(error.needs_initialisation(), "{error}");
        }
        drop(store);
        module.initialise_again().unwrap();
        module.inventory().unwrap().choose(&serial()).unwrap_err();
        assert_eq!(card.tries(), 3);
    }
}

fn secrets_live_on_a_card_as_on_any_token(stage: &Stage) {
    let mut module = stage.module();
    let readers = Readers::start();
    let card = Card::new(SERIAL);
    let _inserted = readers.insert(&card);
    wait_for_tokens(&mut module, 1);
    let (first, second) = (
        secret(1, &[("k", b"1")]),
        secret(2, &[("data", b"2"), ("l", b"3")]),
    );
    let neighbour = secret(1, &[("k", b"n")]);
    let mut made = store(&module);
    made.write(&path("a"), &first, Expected::Absent).unwrap();
    made.write(&path("a-b"), &neighbour, Expected::Absent).unwrap();
    made.write(&path("a"), &second, Expected::Version(1)).unwrap();
    assert_eq!(made.read(&path("a")).unwrap(), second);
    let raw = Raw::new(&find(&module, LABEL));
    raw.create(&Object::of_a_seed("old/k", "seed"));
    let labels: Vec<String> = raw.all().into_iter().map(|(label, _)| label).collect();
    let expected = [
        ".trustplane/generation/_metadata",
        "a",
        "a-b/_metadata",
        "a-b/k",
        "a/_metadata",
        "a/l",
        "old/k",
    ];
    assert_eq!(labels, expected);
    drop((made, raw));
    module.initialise_again().unwrap();
    let mut store = store(&module);
    assert_eq!(store.read(&path("a")).unwrap(), second);
    assert_eq!(store.read(&path("old")).unwrap().data.len(), 1);
    store.delete(&path("a"), stamp(3), Expected::Version(2)).unwrap();
    store.purge(&path("a"), 3, None).unwrap();
    assert_eq!(store.read(&path("a")).unwrap_err().code(), Some(Code::NotFound));
    assert_eq!(store.read(&path("a-b")).unwrap(), neighbour);
}

fn as_many_objects_as_the_profile_allows_are_there_when_the_card_comes_back(stage: &Stage) {
    let mut module = stage.module();
    let readers = Readers::start();
    let card = Card::new(SERIAL);
    let _inserted = readers.insert(&card);
    wait_for_tokens(&mut module, 1);
    let mut filled = store(&module);
    let mut written = Vec::new();
    let refused = loop {
        let path = path(&format!("s{}", written.len()));
        let secret = secret(1, &[("k", path.as_str().as_bytes())]);
        match filled.write(&path, &secret, Expected::Absent) {
            Ok(_) => written.push((path, secret)),
            Err(error) => break error,
        }
    };
    assert_eq!(refused.code(), Some(Code::ResourceExhausted), "{refused}");
    assert!(written.len() > 50, "{}", written.len());
    for again in [false, true] {
        if again {
            drop(filled);
            module.initialise_again().unwrap();
            filled = store(&module);
        }
        filled.refresh().unwrap();
        for (path, secret) in &written {
            assert_eq!(filled.read(path).unwrap(), *secret, "{path}");
        }
    }
}

fn what_opensc_cuts_or_refuses_leaves_the_old_secret(stage: &Stage) {
    let mut module = stage.module();
    let readers = Readers::start();
    let card = Card::new(SERIAL);
    let _inserted = readers.insert(&card);
    wait_for_tokens(&mut module, 1);
    // Without limits of our own, so that it comes to that.
    let mut store = Store::open(log_in(&module, LABEL), Profile::Software.limits()).unwrap();
    let old = secret(1, &[("k", b"v")]);
    store.write(&path("a"), &old, Expected::Absent).unwrap();
    let longest = "k".repeat(252);
    let fits = secret(1, &[(&longest, b"v")]);
    store.write(&path("b"), &fits, Expected::Absent).unwrap();
    let long = "k".repeat(253);
    let cut = store
        .write(&path("a"), &secret(2, &[(&long, b"v")]), Expected::Any)
        .unwrap_err();
    assert!(matches!(cut, StoreError::Token(TokenError::Cut { .. })), "{cut}");
    let empty = store
        .write(&path("a"), &secret(2, &[("k", b"")]), Expected::Any)
        .unwrap_err();
    assert_eq!(empty.to_string(), "C_CreateObject answered CKR_ARGUMENTS_BAD");
    store.refresh().unwrap();
    assert_eq!(store.read(&path("a")).unwrap(), old);
    assert_eq!(store.read(&path("b")).unwrap(), fits);
    assert_eq!(store.list().unwrap().len(), 2);
}

fn an_empty_value_is_refused_before_the_card_is_asked(stage: &Stage) {
    let mut module = stage.module();
    let readers = Readers::start();
    let card = Card::new(SERIAL);
    let _inserted = readers.insert(&card);
    wait_for_tokens(&mut module, 1);
    let mut store = store(&module);
    let old = secret(1, &[("k", b"v")]);
    store.write(&path("a"), &old, Expected::Absent).unwrap();
    let before = objects(&mut store);
    let new = secret(2, &[("k", b"w"), ("l", b"")]);
    let empty = store.write(&path("a"), &new, Expected::Version(1)).unwrap_err();
    assert_eq!(
        empty.to_string(),
        "a: the value of a/l is empty; this token takes no empty values"
    );
    assert_eq!(empty.code(), Some(Code::InvalidArgument));
    assert_eq!(store.read(&path("a")).unwrap(), old);
    assert_eq!(objects(&mut store), before);
}

/// How often the token was changed, and how much it holds.
fn objects(store: &mut Store<'_>) -> (Generation, Usage) {
    (store.generation().unwrap(), store.capacity().unwrap().usage)
}

fn a_full_card_keeps_the_old_secret(stage: &Stage) {
    let mut module = stage.module();
    let readers = Readers::start();
    let card = Card::new(SERIAL);
    let _inserted = readers.insert(&card);
    let (old, new) = (secret(1, &[("k", b"v")]), secret(2, &[("k", b"w"), ("l", b"w")]));
    wait_for_tokens(&mut module, 1);
    store(&module).write(&path("a"), &old, Expected::Absent).unwrap();
    let mut refused = 0;
    loop {
        module.initialise_again().unwrap();
        let mut full = store(&module);
        card.leave_room_for(refused * 40);
        let Err(error) = full.write(&path("a"), &new, Expected::Version(1)) else {
            break;
        };
        refused += 1;
        // The card says that there is no room, and OpenSC that something is wrong.
        assert_eq!(
            error.to_string(),
            "C_CreateObject answered CKR_GENERAL_ERROR: the token has no room for it"
        );
        assert_eq!(error.code(), Some(Code::ResourceExhausted));
        // Taken back at once, while the card is still full.
        assert_eq!(full.read(&path("a")).unwrap(), old);
        let left = objects(&mut full);
        drop(full);
        module.initialise_again().unwrap();
        let mut full = store(&module);
        assert_eq!(full.read(&path("a")).unwrap(), old);
        assert_eq!(objects(&mut full), left);
    }
    assert!(refused > 5, "{refused}");
    card.leave_room_for(10_000);
    assert_eq!(store(&module).read(&path("a")).unwrap(), new);
}

fn the_flags_of_a_card_keep_a_wrong_pin_from_being_tried_again(stage: &Stage) {
    let mut module = stage.module();
    let readers = Readers::start();
    let card = Card::new(SERIAL);
    let _inserted = readers.insert(&card);
    wait_for_tokens(&mut module, 1);
    let wrong = Pin::new("999999");
    for (left, shown) in [(2, PinTries::Low), (1, PinTries::Final)] {
        let token = module.open(&find(&module, LABEL)).unwrap();
        let error = token.log_in(&wrong, Attempt::Ordered).unwrap_err();
        assert!(matches!(error, TokenError::PinIncorrect(_)), "{error}");
        assert_eq!((card.tries(), token.info().unwrap().pin_tries), (left, shown));
        drop(token);
        // Nor is it tried by who knows nothing of the first time.
        module.initialise_again().unwrap();
        let token = module.open(&find(&module, LABEL)).unwrap();
        let refused = token.log_in(&pin(), Attempt::Automatic).unwrap_err();
        assert_eq!(refused, TokenError::PinTriesLow(shown));
        assert_eq!(card.tries(), left);
    }
    let token = module.open(&find(&module, LABEL)).unwrap();
    token.log_in(&pin(), Attempt::Ordered).unwrap();
    assert_eq!(card.tries(), 3);
    for length in [5, 16] {
        let form = token.change_pin(&pin(), &Pin::new("1".repeat(length)), Attempt::Ordered);
        assert!(matches!(form, Err(TokenError::PinForm(_))), "{form:?}");
    }
}

fn a_pin_that_opensc_takes_for_none_costs_no_try(stage: &Stage) {
    let mut module = stage.module();
    let readers = Readers::start();
    let card = Card::new(SERIAL);
    let _inserted = readers.insert(&card);
    wait_for_tokens(&mut module, 1);
    let token = module.open(&find(&module, LABEL)).unwrap();
    for length in [5, 16] {
        let form = token.log_in(&Pin::new("1".repeat(length)), Attempt::Automatic);
        assert!(matches!(form, Err(TokenError::PinForm(_))), "{length}: {form:?}");
        assert_eq!(card.tries(), 3);
    }
    token.log_in(&pin(), Attempt::Automatic).unwrap();
}

fn what_another_process_writes_is_seen_once_the_module_is_initialised_again(stage: &Stage) {
    let mut module = stage.module();
    let readers = Readers::start();
    let card = Card::new(SERIAL);
    let _inserted = readers.insert(&card);
    wait_for_tokens(&mut module, 1);
    let ours = secret(1, &[("k", b"v")]);
    let mut before = store(&module);
    before.write(&path("a"), &ours, Expected::Absent).unwrap();
    let value = file(stage, "theirs");
    let write = [
        "--write-object",
        value.to_str().unwrap(),
        "--label",
        "b/k",
        "--private",
    ];
    pkcs11_tool(stage, LABEL, &write);
    // When the other one let go of the card, it was reset, and nobody is logged in any more: an error, not an empty token.
    let reset = before.list().unwrap_err();
    assert!(reset.needs_initialisation(), "{reset}");
    drop(before);
    module.initialise_again().unwrap();
    let mut store = store(&module);
    assert_eq!(store.read(&path("b")).unwrap().data.len(), 1);
    assert_eq!(store.read(&path("a")).unwrap(), ours);
    assert_eq!(card.tries(), 3);
}
