//! The arguments of the capability.

use clap::Args;
use trustplane_inventory_core::InventoryKind;

/// How the capability works.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Inventory")]
pub struct InventoryArgs {
    /// Kinds that are neither read nor sent, separated by commas, such as secrets,config-maps; namespaces, pods and services are
    /// always sent
    #[arg(long, value_delimiter = ',', value_name = "KINDS", value_parser = kind)]
    inventory_without: Vec<InventoryKind>,
}

impl InventoryArgs {
    /// The kinds that are sent.
    pub(crate) fn kinds(&self) -> Vec<InventoryKind> {
        let wanted = |kind: &InventoryKind| !self.inventory_without.contains(kind);
        InventoryKind::ALL.into_iter().filter(wanted).collect()
    }
}

fn kind(text: &str) -> Result<InventoryKind, String> {
    let mut optional = InventoryKind::ALL.into_iter().filter(|kind| !kind.is_essential());
    match optional.clone().find(|kind| kind.part() == text) {
        Some(kind) => Ok(kind),
        None => {
            let known: Vec<_> = optional.by_ref().map(InventoryKind::part).collect();
            Err(format!(
                "no kind that can be switched off; there are {}",
                known.join(", ")
            ))
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: InventoryArgs,
    }

    #[test]
    fn kinds_can_be_switched_off_but_for_the_three() {
        let line = Line::parse_from(["x", "--inventory-without=secrets,stateful-sets"]);
        assert_eq!(line.args.kinds().len(), 18);
        let error = Line::try_parse_from(["x", "--inventory-without=pods"])
            .err()
            .unwrap()
            .to_string();
        assert!(error.contains("cluster-role-bindings"), "{error}");
    }
}
