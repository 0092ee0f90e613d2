//! The room that a change needs while it lasts, and the room that it leaves: a token that is filled to the brim could not be
//! changed any more, not even to delete something.

use super::Difference;
use crate::generation::Generation;
use crate::journal::MOST_OBJECTS;
use crate::label::Label;
use crate::layout::{Contents, Part, Usage};
use crate::limits::{LimitError, Limits};
use crate::object::{Found, NewObject};
use crate::path::SecretPath;

/// Bytes of a journal beside its path, and of its label.
const JOURNAL: usize = 100;
/// Bytes in it for an object that is renewed: of what is new, of what goes, and of their label.
const RENEWED: usize = 14;
/// Bytes of the metadata that is left of a secret, beside its path.
const TOMBSTONE: usize = 250;

/// Checks every object, the most that the token has to hold at once, and that it can be changed afterwards.
pub(super) fn check<H>(
    contents: &Contents<'_, H>,
    path: &SecretPath,
    change: &Difference<'_, H>,
    first: &[NewObject],
    limits: &Limits,
) -> Result<(), LimitError> {
    let most = change.kept.len() + change.new.len() + change.going.len();
    if most > MOST_OBJECTS {
        return Err(LimitError::Keys { keys: most });
    }
    for object in first.iter().chain(change.new.iter().copied()) {
        limits.check_object(object)?;
    }
    let with = |usage: Usage, object: &NewObject| usage.and(1, object.size());
    let without = |usage: Usage, found: &&Found<H>| usage.without(1, found.size());
    let before = contents.usage();
    let with_first = first.iter().fold(before, with);
    limits.check_usage(&with_first)?;
    let with_first = contents.generations().iter().fold(with_first, without);
    let with_all = change.new.iter().copied().fold(with_first, with);
    limits.check_usage(&with_all)?;

    // What makes less of it, or no more, is always welcome.
    if change.wanted.len() <= 1 {
        return Ok(());
    }
    let after = change.going.iter().fold(with_all, without);
    let after = first
        .iter()
        .take(1)
        .fold(after, |usage, journal| usage.without(1, journal.size()));
    let needed = room_after(contents, path, change, limits);
    let grown = |after: usize, before: usize, needed: usize| match after > before {
        true => after.saturating_add(needed),
        false => 0,
    };
    limits.check_room(&Usage {
        objects: grown(after.objects, before.objects, needed.objects),
        bytes: grown(after.bytes, before.bytes, needed.bytes),
        foreign: 0,
    })
}

/// The room that has to be left: to delete whatever there is, and if a secret is new, to replace each of those that there are then.
fn room_after<H>(
    contents: &Contents<'_, H>,
    path: &SecretPath,
    change: &Difference<'_, H>,
    limits: &Limits,
) -> Usage {
    let is_value = |part: &Part| *part != Part::Metadata;
    let live = |path: &SecretPath| contents.pieces(path).iter().any(|piece| is_value(&piece.part));
    let others = contents.paths().filter(|other| *other != path && live(other));
    let others = others.map(|other| {
        let pieces = contents.pieces(other).iter();
        (other, pieces.map(|piece| piece.found.size()).collect::<Vec<_>>())
    });
    let this = change.wanted.iter().map(NewObject::size).collect();
    let is_new = !live(path) && change.wanted.len() > 1;
    let mut room = Usage::default();
    for (at, objects) in others.chain([(path, this)]) {
        let [deletion, replacement] = [
            changing(at, objects.len(), 1, at.as_str().len() + TOMBSTONE),
            changing(at, objects.len(), objects.len(), objects.iter().sum()),
        ];
        // What no room of this token is enough for cannot be kept free.
        let whole = replacement.and(objects.len() + 1, objects.iter().sum());
        let needed = match is_new && limits.check_usage(&whole).is_ok() {
            true => replacement,
            false => deletion,
        };
        room.objects = room.objects.max(needed.objects);
        room.bytes = room.bytes.max(needed.bytes);
    }
    room
}

/// What it takes for a while to change so many objects of a path, and to make so many: a journal and the new ones. The new
/// generation is there before them, and the old one goes.
fn changing(path: &SecretPath, changed: usize, made: usize, bytes: usize) -> Usage {
    let journal = JOURNAL + path.as_str().len() + changed.max(made) * RENEWED;
    let generation = Generation::default().object().size();
    Usage {
        objects: 1 + made.max(1),
        bytes: journal + generation + Label::of_metadata(path).as_bytes().len() + bytes,
        foreign: 0,
    }
}
