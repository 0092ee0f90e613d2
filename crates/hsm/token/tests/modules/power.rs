//! A card that loses its power after any command that changes it. OpenSC makes and destroys an object by several commands each: of
//! one that is being made nothing is seen before the last, and of one that is being destroyed the label is seen without a value.

use trustplane_hsm_core::code::Code;
use trustplane_hsm_core::limits::Profile;
use trustplane_hsm_core::recover::End;
use trustplane_hsm_core::version::Expected;
use trustplane_hsm_token::{Module, Store};

use crate::card::{Card, Files};
use crate::change::{Change, prepare, served};
use crate::reader::{Readers, wait_for_tokens};
use crate::secrets::{path, secret};
use crate::stage::{Stage, log_in};

suite! {
    on cards:
        power_lost_after_any_command_of_a_change_leaves_old_or_new,
        power_lost_after_any_command_of_a_recovery_leaves_old_or_new,
        a_card_that_shows_as_many_objects_as_can_be_shown_is_neither_read_nor_changed;
}

const LABEL: &str = "SmartCard-HSM (UserPIN)";
const SERIAL: &str = "UTTP00001";

fn store<'module>(module: &'module Module) -> Store<'module> {
    Store::open(log_in(module, LABEL), Profile::Opensc.limits()).unwrap()
}

/// The card as it was before a change, and after each command of it.
fn commands(module: &mut Module, card: &Card, blank: &Files, change: Change) -> Vec<Files> {
    card.set(blank);
    module.initialise_again().unwrap();
    let mut changed = store(module);
    prepare(&mut changed, change);
    let before = card.files();
    card.record();
    change.make(&mut changed).unwrap();
    [vec![before], card.recorded()].concat()
}

/// Looks at the card that has come back, and says whether the change was made. Each loss of power may leave a husk, and no more.
fn is_new(store: &mut Store<'_>, change: Change, losses: usize, at: &str) -> bool {
    let ended = store.interrupted();
    assert!(
        ended
            .iter()
            .all(|ended| matches!(ended.end, End::Finished | End::Undone)),
        "{at}: {ended:?}"
    );
    let found = served(store);
    assert!(found == change.before() || found == change.result(), "{at}");
    let neighbours = 2 * crate::change::neighbours().len();
    let objects = found.as_ref().map_or(0, |secret| secret.data.len() + 1);
    let usage = store.capacity().unwrap().usage;
    assert_eq!(usage.objects - usage.foreign, 1 + neighbours + objects, "{at}");
    assert!(usage.foreign <= losses, "{at}");
    found == change.result()
}

fn power_lost_after_any_command_of_a_change_leaves_old_or_new(stage: &Stage) {
    let mut module = stage.module();
    let readers = Readers::start();
    let card = Card::new(SERIAL);
    let _inserted = readers.insert(&card);
    wait_for_tokens(&mut module, 1);
    let blank = card.files();
    for change in [
        Change::Replace,
        Change::Delete,
        Change::DeleteKey,
        Change::First,
        Change::Purge,
    ] {
        let cuts = commands(&mut module, &card, &blank, change);
        let mut outcomes = Vec::new();
        for (at, files) in cuts.iter().enumerate() {
            card.set(files);
            module.initialise_again().unwrap();
            let at = format!("{change:?}, {at} of {} commands", cuts.len() - 1);
            let mut back = store(&module);
            outcomes.push(is_new(&mut back, change, 1, &at));
        }
        assert!(
            cuts.len() > 10 && outcomes.is_sorted() && !outcomes[0],
            "{outcomes:?}"
        );
        assert_eq!(outcomes.last(), Some(&true));
        println!("{} commands of {change:?}", cuts.len() - 1);
    }
    assert_eq!(card.tries(), 3);
}

fn power_lost_after_any_command_of_a_recovery_leaves_old_or_new(stage: &Stage) {
    let mut module = stage.module();
    let readers = Readers::start();
    let card = Card::new(SERIAL);
    let _inserted = readers.insert(&card);
    wait_for_tokens(&mut module, 1);
    let blank = card.files();
    let change = Change::Replace;
    let cuts = commands(&mut module, &card, &blank, change);
    let last = cuts.last().unwrap().clone();
    let mut recoveries = 0;
    // Where a file has just gone, half of an object may be left.
    for pair in cuts.windows(2).filter(|pair| pair[1].len() < pair[0].len()) {
        if pair[1] == last {
            break;
        }
        card.set(&pair[1]);
        module.initialise_again().unwrap();
        card.record();
        let expected = is_new(&mut store(&module), change, 1, "the whole recovery");
        for files in card.recorded() {
            card.set(&files);
            module.initialise_again().unwrap();
            let mut back = store(&module);
            assert_eq!(is_new(&mut back, change, 2, "half a recovery"), expected);
            recoveries += 1;
        }
        // It can be changed again, whatever is left.
        let newer = secret(9, &[("k", b"v")]);
        let mut again = store(&module);
        again.write(&path("db"), &newer, Expected::Any).unwrap();
        assert_eq!(served(&mut again), Some(newer));
    }
    assert!(recoveries > 10, "{recoveries}");
}

fn a_card_that_shows_as_many_objects_as_can_be_shown_is_neither_read_nor_changed(stage: &Stage) {
    let mut module = stage.module();
    let readers = Readers::start();
    let card = Card::new(SERIAL);
    let _inserted = readers.insert(&card);
    wait_for_tokens(&mut module, 1);
    let kept = secret(1, &[("k", b"v")]);
    store(&module).write(&path("a"), &kept, Expected::Absent).unwrap();
    let few = card.files();
    // OpenSC shows 128, and of more than that 128 as well.
    for (count, whole) in [(127, true), (128, false), (140, false), (3, true)] {
        card.set(&few);
        card.copy_until("a/k", count);
        module.initialise_again().unwrap();
        let mut store = store(&module);
        if whole {
            assert_eq!(store.read(&path("a")).unwrap(), kept, "{count}");
            continue;
        }
        let before = card.files();
        for error in [
            store.read(&path("a")).err().unwrap(),
            store.read(&path("b")).err().unwrap(),
            store.list().err().unwrap(),
            store.survey(true).err().unwrap(),
            store.write(&path("a"), &kept, Expected::Any).err().unwrap(),
            store.purge(&path("a"), 1, None).err().unwrap(),
        ] {
            assert_eq!(error.code(), Some(Code::DataLoss), "{count}: {error}");
            assert_eq!(
                error.to_string(),
                "read all objects: 128 are shown, and of so many some may be hidden; take others off the token"
            );
        }
        assert_eq!(card.files(), before);
        assert_eq!(store.capacity().unwrap().usage.objects, 128);
    }
}
