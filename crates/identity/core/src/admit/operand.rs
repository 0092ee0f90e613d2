//! Rules 3 and 4: operands.

use serde_json::{Value, json};
use trustplane_api::identity::OperandKind;
use trustplane_api::identity::names::INHERITED;

use super::owner::write_owner;
use super::{Admitted, Denial, Review, Rule};
use crate::inherit::{
    Field, Follow, Holder, Initialise, OperandView, Resolution, Stance, Unresolved, Values, World,
    mismatches, resolve,
};

/// Rule 3: there is a ZTWIM; values are empty or ZTWIM's; what is empty is filled in, and the owner reference is set.
pub(super) fn create(review: &Review<'_>, kind: OperandKind) -> Result<Admitted, Denial> {
    let request = Request::new(review, kind, Rule::OperandCreate);
    request.check_parent()?;
    request.check()?;
    request.fill()
}

/// Rule 4: the same of each value that changes. What followed ZTWIM before goes on following.
pub(super) fn update(review: &Review<'_>, kind: OperandKind) -> Result<Admitted, Denial> {
    let request = Request::new(review, kind, Rule::OperandUpdate);
    request.check()?;
    request.fill()
}

/// A request about an operand.
struct Request<'a> {
    review: &'a Review<'a>,
    kind: OperandKind,
    rule: Rule,
    before: Option<OperandView>,
    now: OperandView,
    /// The world in which the request has been carried out.
    world: World,
}

impl<'a> Request<'a> {
    fn new(review: &'a Review<'a>, kind: OperandKind, rule: Rule) -> Self {
        let before = review.old.map(|old| OperandView::read(kind, old));
        let mut now = OperandView::read(kind, review.new);
        if let Some(before) = &before {
            now.inherited = trusted_record(before, &now, review.world);
        }
        Self {
            review,
            kind,
            rule,
            before,
            world: review.world.clone().with_operand(now.clone()),
            now,
        }
    }

    fn check_parent(&self) -> Result<(), Denial> {
        let what = match &self.world.ztwim {
            Some(ztwim) if !ztwim.deleting => return Ok(()),
            Some(_) => "is being deleted; create it again before",
            None => "does not exist; create it before",
        };
        let text = format!("{} {what} {}", Holder::Ztwim, Holder::Operand(self.kind));
        Err(Denial::new(self.rule, "metadata.ownerReferences", &text))
    }

    fn check(&self) -> Result<(), Denial> {
        for field in Field::followed_by(self.kind) {
            self.check_followed(field)?;
        }
        for field in Field::said_in(Holder::Operand(self.kind)) {
            if let (Some(value), true) = (self.now.value(field), self.changes(field)) {
                let checked = self.world.check_conflicts(field, value);
                checked.map_err(Denial::unresolved(self.rule, &field.home_path()))?;
            }
        }
        self.check_pairs()?;
        self.review.check_defects(self.rule)
    }

    /// Whether the request changes a value, or creates the operand.
    fn changes(&self, field: Field) -> bool {
        self.before
            .as_ref()
            .is_none_or(|before| before.value(field) != self.now.value(field))
    }

    /// Whether a person gives a value with this request. A value with a record was filled in.
    fn sets(&self, field: Field) -> bool {
        self.now.value(field).is_some() && self.changes(field) && !self.now.is_inherited(field)
    }

    fn check_followed(&self, field: Field) -> Result<(), Denial> {
        if !self.changes(field) {
            return Ok(());
        }
        let home = self.world.home(field);
        let checked = match (self.now.value(field), home) {
            (Some(value), Some(home)) if self.now.stance(field, home) == Stance::Own => {
                let text = format!(
                    "{value:?} of {} differs from {home:?} of {}, which it follows; leave it out, or change both: {}",
                    Holder::Operand(self.kind),
                    field.home(),
                    field.home().patch_command(&field.home_patch(value))
                );
                return Err(Denial::new(self.rule, &field.operand_path(), &text));
            }
            (_, Some(_)) => Ok(()),
            // What stands in the way of a ZTWIM that is to be made can be taken away.
            (None, None) if self.before.is_some() && self.world.ztwim.is_none() => Ok(()),
            (value, None) => match resolve(&self.world, self.review.settings).value(field) {
                Err(Unresolved::Disagreement { .. }) if value.is_none() => Ok(()),
                Err(Unresolved::Missing(_)) if field.home() != Holder::Ztwim => Ok(()),
                resolved => resolved.map(|_| ()),
            },
        };
        checked.map_err(Denial::unresolved(self.rule, &field.operand_path()))
    }

    /// The follower of a pair must be the same as the leader. A leader that exists may change first, since one of them has to.
    fn check_pairs(&self) -> Result<(), Denial> {
        let refused = mismatches(&self.world).into_iter().find_map(|mismatch| {
            let (leader, leading) = mismatch.pair.leader;
            let (follower, following) = mismatch.pair.follower;
            if follower == self.kind && self.changes_spec(following) {
                let (leader, command) = (Holder::Operand(leader), mismatch.lead_command());
                return Some((following, format!("{mismatch}; change {leader} first: {command}")));
            }
            let is_new = leader == self.kind && self.before.is_none();
            let command = mismatch.follow_command();
            is_new.then(|| (leading, format!("{mismatch}; say the same, or: {command}")))
        });
        match refused {
            Some((field, text)) => Err(Denial::new(self.rule, &format!("spec.{field}"), &text)),
            None => Ok(()),
        }
    }

    fn changes_spec(&self, field: &str) -> bool {
        self.review.changes(&format!("/spec/{field}"))
    }

    fn warnings(&self, resolution: &Resolution) -> Vec<String> {
        let mut warnings = Vec::new();
        for field in Field::said_in(Holder::Ztwim).filter(|field| self.sets(*field)) {
            let is_followed = Field::followed_by(self.kind).any(|followed| followed == field);
            let copied = resolution
                .initialise
                .iter()
                .find(|copied| copied.field == field && is_followed);
            if let Some(Initialise { value, .. }) = copied {
                let (value, from) = (value.clone(), self.kind);
                let copied = Initialise { field, value, from };
                warnings.extend([copied.to_string(), copied.advice()]);
                continue;
            }
            let (path, home) = (field.operand_path(), field.home_path());
            warnings.push(format!(
                "{path} of {} is deprecated: use {home} of {}",
                self.kind,
                Holder::Ztwim
            ));
        }
        for mismatch in mismatches(&self.world) {
            let (leader, leading) = mismatch.pair.leader;
            if leader == self.kind && self.changes_spec(leading) {
                warnings.push(format!("{mismatch}: {}", mismatch.follow_command()));
            }
        }
        warnings
    }

    /// Fills in what is inherited. Without a ZTWIM that stays, the operand is taken as it is.
    fn fill(&self) -> Result<Admitted, Denial> {
        let resolution = resolve(&self.world, self.review.settings);
        let mut warnings = self.warnings(&resolution);
        let mut object = self.review.new.clone();
        if let Some(follow) = resolution.follow(self.kind) {
            let mut follow = follow.clone();
            follow.values.extend(self.adopted());
            write_values(&mut object, &follow);
            warnings.extend(write_owner(self.review, self.rule, &mut object, &follow.owner)?);
        }
        Ok(Admitted { object, warnings })
    }

    /// The values that this request sets and that are the same as those that they follow: they follow from now on.
    fn adopted(&self) -> impl Iterator<Item = (Field, String)> {
        Field::followed_by(self.kind)
            .filter(|field| self.sets(*field))
            .filter_map(|field| Some((field, self.world.home(field)?.to_owned())))
            .filter(|(field, home)| self.now.stance(*field, home) == Stance::Same)
    }
}

/// The record that counts in an update: the stored one, since only we write it. An entry of the record in the request counts if its value
/// is the one that holds: the API server may ask us again about an object that we have filled.
fn trusted_record(before: &OperandView, now: &OperandView, world: &World) -> Option<Values> {
    let is_so = |field: &Field| {
        let value = now.value(*field);
        now.is_inherited(*field) && value == world.home(*field).or(field.default())
    };
    let filled = Field::followed_by(now.kind).filter(is_so);
    let filled = filled.filter_map(|field| Some((field, now.value(field)?.to_owned())));
    let mut record = before.inherited.clone().unwrap_or_default();
    record.extend(filled);
    (before.inherited.is_some() || !record.is_empty()).then_some(record)
}

fn write_values(object: &mut Value, follow: &Follow) {
    for (field, value) in &follow.values {
        // What is no object is for the schema to refuse.
        if object["spec"].is_null() {
            object["spec"] = json!({});
        }
        if let Some(spec) = object["spec"].as_object_mut() {
            spec.insert(field.name().to_owned(), json!(value));
        }
    }
    match follow.record() {
        Some(record) => object["metadata"]["annotations"][INHERITED] = json!(record),
        None => {
            if let Some(annotations) = object
                .pointer_mut("/metadata/annotations")
                .and_then(Value::as_object_mut)
            {
                annotations.remove(INHERITED);
            }
        }
    }
}
