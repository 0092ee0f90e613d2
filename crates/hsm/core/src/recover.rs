//! What is to be done with the journals that are found when a token is opened: each says of one path what it was to hold, and
//! what is there tells how far the change had come.
//!
//! | what is there | the change is |
//! |---|---|
//! | something that cannot be read and could be before, and has a label that the change does not touch | lost, for as long as that lasts |
//! | all that the path was to hold | finished: what was to go is destroyed |
//! | all that was there before, and nothing that the journal does not know | undone: what is new is destroyed |
//! | something else that cannot be read and could be before | lost, for as long as that lasts |
//! | metadata that the journal does not know, and none that it knows | overtaken: another tool has written the secret since |
//! | nothing that is new | overtaken: another tool has changed what was there |
//! | anything else | lost: nothing is destroyed, and the path is not served until it is written anew |
//!
//! The first line that fits counts. A crash of ours leaves what is to be finished or undone, because nothing goes before all that
//! is new is there; the other ends need a second tool between crash and recovery. A recovery that is interrupted after any
//! number of steps comes to the same end the next time.
//!
//! A card destroys an object in two halves: its value goes, then its label. A crash between them leaves a label, and no value. If
//! all that counts is there, whichever way, such a half is one that was to go, and goes. A journal that is left so says by its
//! label alone which labels its path had before the change and was to have after it. If it has the one or the other, then the
//! change is over, because on the way between them the path has more metadata, or more objects, or fewer.

use std::collections::BTreeSet;

use crate::generation::Generation;
use crate::journal::{Journal, JournalError};
use crate::label::{LabelsMark, PathMark};
use crate::layout::{Contents, Part};
use crate::object::{Found, HalfDigest, ObjectDigest};
use crate::op::Op;
use crate::path::SecretPath;

/// What is to be done, and what became of each change.
#[derive(Debug)]
pub struct Recovery<H> {
    /// The steps. If there is none, there is nothing to end.
    pub ops: Vec<Op<H>>,
    /// What became of each change.
    pub ended: Vec<Ended>,
}

/// What becomes of one change that was interrupted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ended {
    /// The mark of its path.
    pub mark: PathMark,
    /// Its path, if that can be told.
    pub path: Option<SecretPath>,
    /// The end.
    pub end: End,
}

/// The end of a change that was interrupted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// The path holds the new value.
    Finished,
    /// The path holds the old value.
    Undone,
    /// The path holds what another tool made of it.
    Overtaken,
    /// Nobody can tell, and nothing was destroyed.
    Lost(Loss),
}

/// Why nobody can tell what a path should hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Loss {
    /// The journal cannot be followed.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// There are several journals, and none of them knows all the others.
    #[error("there are several journals, and they contradict each other")]
    Journals,
    /// What is there cannot be judged by half of it.
    #[error("an object of the secret cannot be read, so the interrupted write cannot be ended")]
    Unreadable,
    /// What is there is neither the old value nor the new one.
    #[error("another tool has changed the secret while a write was interrupted")]
    Mixture,
    /// What is to go stays: the token does not destroy it.
    #[error("the token refuses a step that would end the interrupted write")]
    Refused,
}

/// Plans the end of every change that was interrupted.
pub fn recover<H: Clone>(contents: &Contents<'_, H>) -> Recovery<H> {
    recover_those(contents, |_| true)
}

/// Plans the end of the change of one path, as if it were the only one.
pub fn recover_one<H: Clone>(contents: &Contents<'_, H>, mark: PathMark) -> Recovery<H> {
    recover_those(contents, |other| other == mark)
}

/// Whether a change of a path was interrupted and can be ended.
pub(crate) fn is_left<H: Clone>(contents: &Contents<'_, H>, path: &SecretPath) -> bool {
    let mark = PathMark::of(path);
    let (draft, _) = Draft::of(contents, |other| other == mark);
    !draft.ops.is_empty() || !draft.journals.is_empty()
}

fn recover_those<H: Clone>(contents: &Contents<'_, H>, those: impl Fn(PathMark) -> bool) -> Recovery<H> {
    let (draft, ended) = Draft::of(contents, those);
    let mut ops = draft.ops;
    renew(&mut ops, contents, draft.counter);
    // As long as a journal is there, all of this is done again.
    destroy(&mut ops, draft.journals);
    Recovery { ops, ended }
}

/// What is to be done, as far as the changes were looked at.
struct Draft<'a, H> {
    ops: Vec<Op<H>>,
    /// Journals that are not needed any more.
    journals: Vec<&'a Found<H>>,
    /// The highest generation that a finished change has promised.
    counter: u64,
}

impl<'a, H: Clone> Draft<'a, H> {
    /// What is to be done about the changes of some paths, and what becomes of each.
    fn of(contents: &Contents<'a, H>, those: impl Fn(PathMark) -> bool) -> (Self, Vec<Ended>) {
        let mut draft = Self {
            ops: Vec::new(),
            journals: Vec::new(),
            counter: 0,
        };
        let journals = contents.journals().iter().filter(|(mark, _)| those(**mark));
        let ended = journals.map(|(mark, group)| {
            let path = contents.paths().find(|path| PathMark::of(path) == *mark);
            Ended {
                mark: *mark,
                path: path.cloned(),
                end: draft.lead(contents, *mark, path, group),
            }
        });
        let ended = ended.collect();
        (draft, ended)
    }

    /// Leads the change of one path to its end.
    fn lead(
        &mut self,
        contents: &Contents<'a, H>,
        mark: PathMark,
        path: Option<&SecretPath>,
        group: &[&'a Found<H>],
    ) -> End {
        let (journal, copies, others) = match head(group, mark) {
            Ok(head) => head,
            Err(loss) => {
                let ends: Vec<End> = group
                    .iter()
                    .filter_map(|found| over(contents, path, found))
                    .collect();
                let (over, rest): (Vec<&Found<H>>, Vec<&Found<H>>) = group
                    .iter()
                    .partition(|found| over(contents, path, found).is_some());
                self.journals.extend(over);
                return match (&ends[..], &rest[..]) {
                    ([], _) => End::Lost(loss),
                    ([end, ..], []) => *end,
                    (_, rest) => self.lead(contents, mark, path, rest),
                };
            }
        };
        let scene = Scene::of(contents, &journal, &others);
        let end = scene.end(&journal);
        if end == End::Finished {
            self.counter = self.counter.max(journal.generation);
        }
        if !matches!(end, End::Lost(_)) {
            self.journals.extend(copies);
        }
        scene.lead_to(end, &mut self.ops);
        end
    }
}

/// How the change of a journal that cannot be read has ended, if the labels of its path tell that.
fn over<H>(contents: &Contents<'_, H>, path: Option<&SecretPath>, journal: &Found<H>) -> Option<End> {
    let turn = journal.label.turn().filter(|_| journal.value.is_none())?;
    let pieces = path.map_or(&[][..], |path| contents.pieces(path));
    let now = LabelsMark::of(pieces.iter().map(|piece| &piece.found.label));
    match now {
        _ if now == turn.after => Some(End::Finished),
        _ if now == turn.before => Some(End::Undone),
        _ => None,
    }
}

/// A journal with the objects that hold it, and the other journals of its path.
type Head<'a, H> = (Journal, Vec<&'a Found<H>>, Vec<&'a Found<H>>);

/// The journal of a path that counts: the one that was made knowing all the others. Usually it is the only one.
fn head<'a, H>(group: &[&'a Found<H>], mark: PathMark) -> Result<Head<'a, H>, Loss> {
    let mut fault = Loss::Journals;
    for found in group {
        let journal = match Journal::of(found, mark) {
            Ok(journal) => journal,
            Err(error) => {
                fault = Loss::Journal(error);
                continue;
            }
        };
        let digest = found.digest();
        let (copies, others): (Vec<&Found<H>>, Vec<&Found<H>>) =
            group.iter().copied().partition(|other| other.digest() == digest);
        let is_half = |other: &Found<H>| other.value.is_none() && journal.touches(&other.label);
        if others
            .iter()
            .all(|other| journal.old.contains(&other.digest().half()) || is_half(other))
        {
            return Ok((journal, copies, others));
        }
    }
    Err(fault)
}

/// What is there of a path, as its journal sees it. Metadata stands last in what may be destroyed, because it says whose the
/// values are.
struct Scene<'a, H> {
    /// Digests of what is to be there after the change.
    finals: BTreeSet<ObjectDigest>,
    /// Digests of what was there before and goes.
    old: BTreeSet<HalfDigest>,
    /// What is destroyed if the change is finished: what goes, and copies of what stays.
    going: Vec<&'a Found<H>>,
    /// What is destroyed if the change is undone.
    new: Vec<&'a Found<H>>,
    /// What cannot be read, could be when the journal was made, and may be a half of what was made or was to go.
    halves: Vec<&'a Found<H>>,
    /// There is something else that cannot be read, and could be when the journal was made.
    unreadable: bool,
    /// There is something that the journal does not know.
    strange: bool,
    /// There is metadata that the journal does not know, and none that it knows.
    strange_metadata: bool,
}

impl<'a, H> Scene<'a, H> {
    fn of(contents: &Contents<'a, H>, journal: &Journal, others: &[&'a Found<H>]) -> Self {
        let mut scene = Self {
            finals: BTreeSet::new(),
            old: BTreeSet::new(),
            going: Vec::new(),
            new: Vec::new(),
            halves: Vec::new(),
            unreadable: false,
            strange: false,
            strange_metadata: false,
        };
        for found in others {
            scene.strange |= !scene.note(found, journal);
        }
        let (mut known, mut strange) = (false, false);
        for piece in contents.pieces(&journal.path) {
            let is_known = scene.note(piece.found, journal);
            scene.strange |= !is_known;
            if piece.part == Part::Metadata {
                known |= is_known;
                strange |= !is_known;
            }
        }
        scene.strange_metadata = strange && !known;
        scene
    }

    /// Notes an object, and says whether the journal knows it.
    fn note(&mut self, found: &'a Found<H>, journal: &Journal) -> bool {
        let digest = found.digest();
        let is_new = journal.new.contains(&digest);
        if is_new {
            self.new.push(found);
        }
        if is_new || journal.kept.contains(&digest) {
            if !self.finals.insert(digest) {
                self.going.push(found);
            }
            return true;
        }
        if journal.old.contains(&digest.half()) {
            self.old.insert(digest.half());
            self.going.push(found);
            return true;
        }
        let is_half = found.value.is_none() && journal.touches(&found.label);
        if is_half {
            self.halves.push(found);
        }
        self.unreadable |= !is_half && found.value.is_none();
        is_half
    }

    fn end(&self, journal: &Journal) -> End {
        if self.unreadable {
            return End::Lost(Loss::Unreadable);
        }
        let has = |digest: &ObjectDigest| self.finals.contains(digest);
        let kept = journal.kept.iter().all(has);
        if kept && journal.new.iter().all(has) {
            return End::Finished;
        }
        if kept && !self.strange && journal.old.is_subset(&self.old) {
            return End::Undone;
        }
        if !self.halves.is_empty() {
            return End::Lost(Loss::Unreadable);
        }
        match self.strange_metadata || self.new.is_empty() {
            true => End::Overtaken,
            false => End::Lost(Loss::Mixture),
        }
    }

    /// Destroys what is not to be there at this end.
    fn lead_to(self, end: End, ops: &mut Vec<Op<H>>)
    where
        H: Clone,
    {
        let going = match end {
            End::Finished => self.going,
            End::Undone => self.new,
            End::Overtaken | End::Lost(_) => return,
        };
        destroy(ops, self.halves);
        destroy(ops, going);
    }
}

fn destroy<H: Clone>(ops: &mut Vec<Op<H>>, objects: Vec<&Found<H>>) {
    ops.extend(objects.into_iter().map(|found| Op::Destroy(found.handle.clone())));
}

/// Brings the generation up to what finished changes promised, and leaves one object of it.
fn renew<H: Clone>(ops: &mut Vec<Op<H>>, contents: &Contents<'_, H>, counter: u64) {
    let all = contents.generations();
    if contents.generation().counter < counter {
        let epoch = contents.epoch();
        ops.push(Op::Create(Generation { counter, epoch }.object()));
        return destroy(ops, all.to_vec());
    }
    let newest = all.iter().enumerate();
    let newest = newest
        .filter_map(|(at, found)| Some((Generation::of(found)?, at)))
        .max();
    // If there are only damaged ones, the next change replaces them.
    let Some((newest, at)) = newest else { return };
    // None of ours has a higher epoch than the one after it. If one has, it must not be forgotten.
    let is_spent = |found: &Found<H>| Generation::of(found).is_none_or(|other| other.epoch <= newest.epoch);
    let others = all.iter().enumerate().filter(|(other, _)| *other != at);
    destroy(
        ops,
        others
            .map(|(_, found)| *found)
            .filter(|found| is_spent(found))
            .collect(),
    );
}

#[cfg(test)]
mod tests;
