use proptest::option;
use proptest::prelude::*;
use proptest::sample::{select, subsequence};

use super::*;

fn maybe(values: &'static [&'static str]) -> impl Strategy<Value = Option<&'static str>> {
    option::of(select(values))
}

fn any_spec() -> impl Strategy<Value = Value> {
    let values = || maybe(&["", "a", "b", "c.d"]);
    (values(), values(), values(), values()).prop_map(|(trust_domain, cluster, bundle, issuer)| {
        json!({"trustDomain": trust_domain, "clusterName": cluster, "bundleConfigMap": bundle, "jwtIssuer": issuer})
    })
}

fn any_operand(kind: OperandKind) -> impl Strategy<Value = OperandView> {
    (any_spec(), option::of(any_spec())).prop_map(move |(spec, record)| operand(kind, spec, record))
}

fn any_operands() -> impl Strategy<Value = Vec<OperandView>> {
    OperandKind::ALL
        .map(any_operand)
        .prop_flat_map(|all| subsequence(all.to_vec(), 0..=4).prop_shuffle())
}

fn any_world() -> impl Strategy<Value = World> {
    (any_spec(), any_operands()).prop_map(|(spec, operands)| world(spec, operands))
}

/// The world after the writes of a resolution.
fn written(mut world: World, resolution: &Resolution) -> World {
    for follow in &resolution.follows {
        let operand = world
            .operands
            .iter_mut()
            .find(|operand| operand.kind == follow.kind)
            .unwrap();
        for (field, value) in &follow.values {
            operand.spec[field.name()] = json!(value);
        }
        if follow.record().is_some() {
            operand.inherited = Some(follow.values.clone());
        }
    }
    for Initialise { field, value, .. } in &resolution.initialise {
        let spec = &mut world.ztwim.as_mut().unwrap().spec;
        spec[field.name()] = json!(value);
    }
    world
}

proptest! {
    #[test]
    fn the_order_of_operands_does_not_matter(world in any_world(), seed in any::<usize>()) {
        let mut other = world.clone();
        if !other.operands.is_empty() {
            let middle = seed % other.operands.len();
            other.operands.rotate_left(middle);
        }
        prop_assert_eq!(resolve(&world, &settings()), resolve(&other, &settings()));
        prop_assert_eq!(mismatches(&world), mismatches(&other));
    }

    #[test]
    fn a_written_resolution_settles(world in any_world()) {
        let first = written(world.clone(), &resolve(&world, &settings()));
        // What the operands agreed on is in ZTWIM now, so empty operands get it.
        let second = resolve(&first, &settings());
        prop_assert_eq!(&second.initialise, &vec![]);
        let second = written(first, &second);
        let third = resolve(&second, &settings());
        prop_assert_eq!(written(second.clone(), &third), second);
    }

    #[test]
    fn a_value_of_its_own_is_never_written_over(world in any_world()) {
        let after = written(world.clone(), &resolve(&world, &settings()));
        for (before, after) in world.operands.iter().zip(&after.operands) {
            for field in Field::ALL {
                let own = before.value(field).is_some() && !before.is_inherited(field);
                prop_assert!(!own || before.value(field) == after.value(field));
                prop_assert!(!own || !after.is_inherited(field));
            }
        }
    }

    #[test]
    fn a_filled_operand_never_conflicts_whatever_ztwim_becomes(
        specs in prop::collection::vec((any_spec(), any::<bool>()), 1..8),
    ) {
        let mut world = world(json!({}), OperandKind::ALL.map(|kind| operand(kind, json!({}), None)));
        for (spec, is_seen) in specs {
            world.ztwim.as_mut().unwrap().spec = spec;
            for field in Field::said_in(Holder::Ztwim) {
                if let Some(value) = world.home(field) {
                    prop_assert_eq!(world.check_conflicts(field, value), Ok(()));
                }
            }
            if is_seen {
                world = written(world.clone(), &resolve(&world, &settings()));
            }
        }
        let spec = json!({"trustDomain": "last", "clusterName": "last", "bundleConfigMap": "last"});
        world.ztwim.as_mut().unwrap().spec = spec;
        let after = written(world.clone(), &resolve(&world, &settings()));
        for operand in &after.operands {
            for field in Field::followed_by(operand.kind).filter(|field| field.home() == Holder::Ztwim) {
                prop_assert_eq!(operand.value(field), Some("last"));
            }
        }
    }
}
